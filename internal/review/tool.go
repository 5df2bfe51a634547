package review

import (
	"strings"

	"bourn"
)

// A ToolRule is what an agent's profile says of the tools that a pattern names.
type ToolRule struct {
	Tool   string        // a tool's name, or the beginning of one with a * behind it
	Policy bourn.Outcome // the zero value denies
	Tier   bourn.Tier    // counts as the tool's, where it is the higher one; "" for none
}

// Matches reports whether the rule is about a tool.
func (r ToolRule) Matches(tool string) bool {
	if prefix, open := strings.CutSuffix(r.Tool, "*"); open {
		return strings.HasPrefix(tool, prefix)
	}
	return r.Tool == tool
}

// nearer reports whether r decides before s, where both match: exact before prefix, the
// longer prefix before the shorter, and of two with the same pattern the stricter.
func (r ToolRule) nearer(s ToolRule) bool {
	switch rOpen, sOpen := strings.HasSuffix(r.Tool, "*"), strings.HasSuffix(s.Tool, "*"); {
	case rOpen != sOpen:
		return sOpen
	case len(r.Tool) != len(s.Tool):
		return len(r.Tool) > len(s.Tool)
	}
	return r.Policy < s.Policy
}

// A Ruling is what the rules of a profile make of one tool.
type Ruling struct {
	Outcome bourn.Outcome
	Rule    string     // the pattern of the rule that decides; "" where none is for the tool
	Tier    bourn.Tier // the highest of the tool's own and of every rule that matches
	// Raised says that no rule asks: the tier is above write, and what is allowed is asked
	// about then.
	Raised bool
	// Unsealed says that it would be asked about, and is refused since nothing seals it.
	Unsealed bool
}

// JudgeTool says what the rules of an agent's profile make of a tool, whatever it is called
// for. A deny wins, whichever matching rule has it; else the nearest rule decides. Where
// none matches, tools that read and write are allowed, since the seal and the grants bound
// them, and those above are asked about. What is allowed above write is asked about too.
// Without a sealed sandbox what would be asked about is refused.
func JudgeTool(tool string, own bourn.Tier, rules []ToolRule, sealed bool) Ruling {
	r := Ruling{Outcome: bourn.Allow, Tier: own}
	var nearest, deny *ToolRule
	for i := range rules {
		rule := &rules[i]
		if !rule.Matches(tool) {
			continue
		}
		if rule.Tier != "" && rule.Tier.Above(r.Tier) {
			r.Tier = rule.Tier
		}
		if nearest == nil || rule.nearer(*nearest) {
			nearest = rule
		}
		if rule.Policy != bourn.Ask && rule.Policy != bourn.Allow && (deny == nil || rule.nearer(*deny)) {
			deny = rule
		}
	}
	if deny != nil {
		nearest = deny
	}
	if nearest != nil {
		r.Outcome, r.Rule = nearest.Policy, nearest.Tool
	}
	if deny != nil {
		r.Outcome = bourn.Deny
		return r
	}
	if r.Outcome == bourn.Allow && r.Tier.Above(bourn.TierWrite) {
		r.Outcome, r.Raised = bourn.Ask, true
	}
	if r.Outcome == bourn.Ask && !sealed {
		r.Outcome, r.Unsealed = bourn.Deny, true
	}
	return r
}

// Why says in a few words what decides.
func (r Ruling) Why() string {
	switch {
	case r.Raised:
		return "its tier is " + string(r.Tier) + ", and what is above write is asked about"
	case r.Rule == "":
		return "no rule is for it, and its tier is " + string(r.Tier)
	}
	return "the rule " + r.Rule
}

// Verdict is the ruling as a verdict, with its reasons where it is not an allow.
func (r Ruling) Verdict() bourn.Verdict {
	v := bourn.Verdict{Outcome: r.Outcome}
	if r.Outcome == bourn.Allow {
		return v
	}
	if r.Unsealed {
		v.Reasons = append(v.Reasons, bourn.Reason{Code: bourn.ReasonUnsealed, Outcome: bourn.Deny, Rule: r.Rule,
			Text: "it would be asked about (" + r.Why() + "), and nothing seals what it does"})
		return v
	}
	v.Reasons = append(v.Reasons, bourn.Reason{Code: bourn.ReasonToolPolicy, Outcome: r.Outcome, Rule: r.Rule, Text: r.Why()})
	return v
}

package bourn

import (
	"fmt"
	"sort"
)

// An Outcome is what review says of an action. The zero value denies, and of two
// outcomes the smaller is the stricter.
type Outcome uint8

// The outcomes.
const (
	Deny  Outcome = iota // refused
	Ask                  // a human decides
	Allow                // review has no objection
)

// String returns the outcome as it is written everywhere: deny, ask or allow.
func (o Outcome) String() string {
	switch o {
	case Ask:
		return "ask"
	case Allow:
		return "allow"
	case Deny:
	}
	return "deny"
}

// MarshalText returns String.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads what MarshalText writes; anything else is ErrInvalid.
func (o *Outcome) UnmarshalText(text []byte) error {
	for _, known := range [...]Outcome{Deny, Ask, Allow} {
		if string(text) == known.String() {
			*o = known
			return nil
		}
	}
	return fmt.Errorf("%w outcome %q: use allow, ask or deny", ErrInvalid, text)
}

// A ReasonCode says why review denies or asks. The list is closed.
type ReasonCode string

// The reasons.
const (
	// ReasonHardBlock: a rule of the operator's matches. It denies.
	ReasonHardBlock ReasonCode = "hard_policy_block"
	// ReasonBoundariesInvalid: the stored rules cannot be read, so nothing is changed. It denies.
	ReasonBoundariesInvalid ReasonCode = "boundaries_invalid"
	// ReasonInvalidAction: the action is not one that review knows. It denies.
	ReasonInvalidAction ReasonCode = "action_invalid"
	// ReasonCommandUnclear: what a command would execute cannot be told from its text. It asks.
	ReasonCommandUnclear ReasonCode = "command_unclear"
	// ReasonToolPolicy: the agent's profile says so of the tool, or of what tools of its tier
	// are where no rule is for it. It denies or asks.
	ReasonToolPolicy ReasonCode = "tool_policy"
	// ReasonUnsealed: the tool would be asked about, and there is no sealed sandbox. It denies.
	ReasonUnsealed ReasonCode = "sandbox_required"
)

// A Reason is one cause of a verdict.
type Reason struct {
	Code      ReasonCode `json:"code"`
	Outcome   Outcome    `json:"outcome"`             // what this cause alone leads to
	Rule      string     `json:"rule,omitempty"`      // the id of the hard block, or the pattern of the tool rule
	Operation Operation  `json:"operation,omitempty"` // what the rule holds against
	Target    string     `json:"target,omitempty"`    // the path or command, as it was given
	Text      string     `json:"text,omitempty"`      // the rule's own reason, or what is unclear
}

// Blocker returns the reason as one word for programs.
func (r Reason) Blocker() string {
	switch {
	case r.Code == ReasonHardBlock:
		return "hard_policy_block:user_configured_hard_block:" + r.Rule
	case r.Code == ReasonToolPolicy && r.Rule != "":
		return string(r.Code) + ":" + r.Rule
	}
	return string(r.Code)
}

// A Verdict is what review says of an action, with every reason that was found and not
// only the first. The zero value denies.
type Verdict struct {
	Outcome Outcome  `json:"outcome"`
	Reasons []Reason `json:"reasons,omitempty"`
}

// And returns the stricter of two verdicts, with the reasons of both, the strictest first.
func (v Verdict) And(w Verdict) Verdict {
	both := Verdict{Outcome: min(v.Outcome, w.Outcome), Reasons: append(append([]Reason(nil), v.Reasons...), w.Reasons...)}
	sort.SliceStable(both.Reasons, func(i, j int) bool { return both.Reasons[i].Outcome < both.Reasons[j].Outcome })
	return both
}

// Blockers returns the blockers of the reasons that deny, each once.
func (v Verdict) Blockers() []string {
	var all []string
	seen := map[string]bool{}
	for _, r := range v.Reasons {
		if b := r.Blocker(); r.Outcome == Deny && !seen[b] {
			seen[b] = true
			all = append(all, b)
		}
	}
	return all
}

package review

import (
	"slices"
	"strings"
	"testing"

	"bourn"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestJudgeTool(t *testing.T) {
	allow := func(tool string) ToolRule { return ToolRule{Tool: tool, Policy: bourn.Allow} }
	ask := func(tool string) ToolRule { return ToolRule{Tool: tool, Policy: bourn.Ask} }
	deny := func(tool string) ToolRule { return ToolRule{Tool: tool, Policy: bourn.Deny} }
	tiered := func(r ToolRule, tier bourn.Tier) ToolRule { r.Tier = tier; return r }
	for name, test := range map[string]struct {
		tool   string
		own    bourn.Tier
		rules  []ToolRule
		open   bool // nothing seals it
		want   Ruling
		blocks string // of the verdict's first reason
	}{
		"nothing said, read":   {tool: "files_read", own: bourn.TierRead, want: Ruling{Outcome: bourn.Allow, Tier: bourn.TierRead}},
		"nothing said, write":  {tool: "files_write", own: bourn.TierWrite, want: Ruling{Outcome: bourn.Allow, Tier: bourn.TierWrite}},
		"nothing said, egress": {tool: "fetch", own: bourn.TierEgress, want: Ruling{Outcome: bourn.Ask, Tier: bourn.TierEgress, Raised: true}, blocks: "tool_policy"},
		"nothing known":        {tool: "fetch", want: Ruling{Outcome: bourn.Ask, Raised: true}, blocks: "tool_policy"},
		"exact beats prefix": {tool: "files_read", own: bourn.TierRead, rules: []ToolRule{ask("files_*"), allow("files_read")},
			want: Ruling{Outcome: bourn.Allow, Rule: "files_read", Tier: bourn.TierRead}},
		"exact beats a prefix as long as it is": {tool: "files_read", own: bourn.TierRead, rules: []ToolRule{allow("files_read"), ask("files_read*")},
			want: Ruling{Outcome: bourn.Allow, Rule: "files_read", Tier: bourn.TierRead}},
		"the longest prefix": {tool: "files_read", own: bourn.TierRead, rules: []ToolRule{allow("*"), ask("files_*"), allow("f*")},
			want: Ruling{Outcome: bourn.Ask, Rule: "files_*", Tier: bourn.TierRead}, blocks: "tool_policy:files_*"},
		"a star asks for everything": {tool: "files_read", own: bourn.TierRead, rules: []ToolRule{ask("*")},
			want: Ruling{Outcome: bourn.Ask, Rule: "*", Tier: bourn.TierRead}, blocks: "tool_policy:*"},
		"a deny wins over what is nearer": {tool: "shell_exec", own: bourn.TierWrite, rules: []ToolRule{allow("shell_exec"), deny("shell_*"), deny("*")},
			want: Ruling{Outcome: bourn.Deny, Rule: "shell_*", Tier: bourn.TierWrite}, blocks: "tool_policy:shell_*"},
		"the tier of any matching rule": {tool: "shell_exec", own: bourn.TierWrite, rules: []ToolRule{allow("shell_exec"), tiered(allow("*"), bourn.TierSpend)},
			want: Ruling{Outcome: bourn.Ask, Rule: "shell_exec", Tier: bourn.TierSpend, Raised: true}, blocks: "tool_policy:shell_exec"},
		"no rule lowers a tier": {tool: "fetch", own: bourn.TierEgress, rules: []ToolRule{tiered(allow("fetch"), bourn.TierRead)},
			want: Ruling{Outcome: bourn.Ask, Rule: "fetch", Tier: bourn.TierEgress, Raised: true}, blocks: "tool_policy:fetch"},
		"the tier of another tool's rule": {tool: "files_read", own: bourn.TierRead, rules: []ToolRule{tiered(allow("shell_exec"), bourn.TierPrivileged)},
			want: Ruling{Outcome: bourn.Allow, Tier: bourn.TierRead}},
		"up to write is allowed": {tool: "files_read", own: bourn.TierRead, rules: []ToolRule{tiered(allow("files_read"), bourn.TierWrite)},
			want: Ruling{Outcome: bourn.Allow, Rule: "files_read", Tier: bourn.TierWrite}},
		"unsealed, asked": {tool: "shell_exec", own: bourn.TierWrite, rules: []ToolRule{ask("shell_exec")}, open: true,
			want: Ruling{Outcome: bourn.Deny, Rule: "shell_exec", Tier: bourn.TierWrite, Unsealed: true}, blocks: "sandbox_required"},
		"unsealed, above write": {tool: "fetch", own: bourn.TierEgress, rules: []ToolRule{allow("fetch")}, open: true,
			want: Ruling{Outcome: bourn.Deny, Rule: "fetch", Tier: bourn.TierEgress, Raised: true, Unsealed: true}, blocks: "sandbox_required"},
		"unsealed, allowed": {tool: "files_read", own: bourn.TierRead, open: true, want: Ruling{Outcome: bourn.Allow, Tier: bourn.TierRead}},
		"a policy that is none": {tool: "files_read", own: bourn.TierRead, rules: []ToolRule{{Tool: "files_read", Policy: 7}},
			want: Ruling{Outcome: bourn.Deny, Rule: "files_read", Tier: bourn.TierRead}, blocks: "tool_policy:files_read"},
		"a rule without a tool": {tool: "files_read", own: bourn.TierRead, rules: []ToolRule{{}}, want: Ruling{Outcome: bourn.Allow, Tier: bourn.TierRead}},
	} {
		t.Run(name, func(t *testing.T) {
			got := JudgeTool(test.tool, test.own, test.rules, !test.open)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			v := got.Verdict()
			blocker := ""
			if len(v.Reasons) > 0 {
				blocker = v.Reasons[0].Blocker()
			}
			if v.Outcome != got.Outcome || blocker != test.blocks {
				t.Errorf("the verdict is %v, %q, want %v, %q", v.Outcome, blocker, got.Outcome, test.blocks)
			}
		})
	}
}

// oracleTool says the same in the order of the contract's sentences, over sorted copies.
func oracleTool(tool string, own bourn.Tier, rules []ToolRule, sealed bool) (bourn.Outcome, bourn.Tier) {
	var exact, prefixed []ToolRule
	highest := own
	for _, r := range rules {
		switch {
		case r.Tool == tool && !strings.Contains(r.Tool, "*"):
			exact = append(exact, r)
		case strings.HasSuffix(r.Tool, "*") && strings.HasPrefix(tool, r.Tool[:len(r.Tool)-1]):
			prefixed = append(prefixed, r)
		}
	}
	all := slices.Concat(exact, prefixed)
	denied := false
	for _, r := range all {
		denied = denied || r.Policy == bourn.Deny
		for _, tier := range bourn.Tiers() {
			if r.Tier == tier && tier.Above(highest) {
				highest = tier
			}
		}
	}
	outcome := bourn.Allow
	if candidates := exact; len(all) > 0 {
		if len(candidates) == 0 {
			most := 0
			for _, r := range prefixed {
				most = max(most, len(r.Tool))
			}
			for _, r := range prefixed {
				if len(r.Tool) == most {
					candidates = append(candidates, r)
				}
			}
		}
		for _, r := range candidates {
			outcome = min(outcome, r.Policy)
		}
	}
	switch aboveWrite := slices.Index(bourn.Tiers(), highest) > 1 || slices.Index(bourn.Tiers(), highest) < 0; {
	case denied:
		return bourn.Deny, highest
	case outcome == bourn.Allow && aboveWrite:
		outcome = bourn.Ask
	}
	if outcome == bourn.Ask && !sealed {
		outcome = bourn.Deny
	}
	return outcome, highest
}

var (
	someTools    = rapid.SampledFrom([]string{"a", "ab", "abc", "b", "ab_c", "files_read"})
	somePatterns = rapid.SampledFrom([]string{"*", "a*", "ab*", "abc*", "a", "ab", "abc", "b", "files_*", "files_read", "files_read*"})
	someOutcomes = rapid.SampledFrom([]bourn.Outcome{bourn.Deny, bourn.Ask, bourn.Allow})
	someTiers    = rapid.SampledFrom(append([]bourn.Tier{"", "", ""}, bourn.Tiers()...))
	someRules    = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ToolRule {
		return ToolRule{somePatterns.Draw(t, "pattern"), someOutcomes.Draw(t, "policy"), someTiers.Draw(t, "tier")}
	}), 0, 6)
)

func TestJudgeToolOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tool, own, rules, sealed := someTools.Draw(t, "tool"), someTiers.Draw(t, "own"), someRules.Draw(t, "rules"), rapid.Bool().Draw(t, "sealed")
		outcome, tier := oracleTool(tool, own, rules, sealed)
		got := JudgeTool(tool, own, rules, sealed)
		if got.Outcome != outcome || got.Tier != tier {
			t.Fatalf("%v of tier %q, want %v of tier %q", got.Outcome, got.Tier, outcome, tier)
		}
	})
}

// TestJudgeToolProperties: whatever is added, a deny, a higher tier and the loss of the seal
// never widen; order says nothing; and above write nothing goes without a question.
func TestJudgeToolProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tool, own, rules, sealed := someTools.Draw(t, "tool"), someTiers.Draw(t, "own"), someRules.Draw(t, "rules"), rapid.Bool().Draw(t, "sealed")
		before := JudgeTool(tool, own, rules, sealed)
		at := rapid.IntRange(0, len(rules)).Draw(t, "at")
		denied := slices.Insert(slices.Clone(rules), at, ToolRule{somePatterns.Draw(t, "denied"), bourn.Deny, someTiers.Draw(t, "with")})
		if after := JudgeTool(tool, own, denied, sealed); after.Outcome > before.Outcome {
			t.Fatalf("with a deny %v became %v", before.Outcome, after.Outcome)
		}
		raised := slices.Clone(rules)
		for i := range raised {
			if tier := someTiers.Draw(t, "raise"); raised[i].Tier == "" || tier != "" && tier.Above(raised[i].Tier) {
				raised[i].Tier = tier
			}
		}
		if after := JudgeTool(tool, own, raised, sealed); after.Outcome > before.Outcome || before.Tier.Above(after.Tier) {
			t.Fatalf("with higher tiers %v became %v", before, after)
		}
		if open := JudgeTool(tool, own, rules, false); open.Outcome > before.Outcome || open.Outcome == bourn.Ask {
			t.Fatalf("without a seal it is %v", open.Outcome)
		}
		shuffled := rapid.Permutation(rules).Draw(t, "order")
		if after := JudgeTool(tool, own, shuffled, sealed); after != before {
			t.Fatalf("in another order %v became %v", before, after)
		}
		if before.Outcome == bourn.Allow && before.Tier.Above(bourn.TierWrite) {
			t.Fatalf("%v goes without a question", before)
		}
	})
}

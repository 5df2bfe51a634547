package profile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"bourn"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestTools(t *testing.T) {
	p, err := Parse("p", []byte(head+`tools:
  only: true
  rules:
    - {tool: "files_*", policy: allow}
    - tool: shell_exec
      policy: ask
      tier: spend
    - {tool: "*", policy: deny}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Tools{Only: true, Rules: []ToolRule{
		{"files_*", bourn.Allow, "", Pos{6, 7}}, {"shell_exec", bourn.Ask, bourn.TierSpend, Pos{7, 7}}, {"*", bourn.Deny, "", Pos{10, 7}}}}
	if diff := cmp.Diff(want, p.Tools); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, text := range []string{"tools:\n", "tools: {}\n", "tools:\n  rules:\n", "tools: {only: false, rules: []}\n"} {
		if p, err := Parse("p", []byte(head+text)); err != nil || p.Tools.Only || p.Tools.Rules != nil {
			t.Errorf("%q is %+v, %v", text, p, err)
		}
	}
}

func TestToolsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"tools: [a]":                                                              "p:3:8: tools must be a mapping, not a list",
		"tools: {rule: []}":                                                       `p:3:9: unknown key "rule" in tools`,
		"tools: {only: yes}":                                                      `p:3:15: tools.only must be true or false, not "yes"`,
		"tools: {rules: {}}":                                                      "p:3:16: tools.rules must be a list of rules, not a mapping",
		"tools: {rules: [a]}":                                                     `p:3:17: an entry of tools.rules must be a mapping like {tool: shell_exec, policy: ask}, not "a"`,
		"tools: {rules: [{tool: a}]}":                                             "p:3:17: tools.rules.policy is missing",
		"tools: {rules: [{policy: ask}]}":                                         "p:3:17: tools.rules.tool is missing",
		"tools: {rules: [{tool: a, policy: denny}]}":                              `p:3:35: unknown tools.rules.policy "denny"; did you mean "deny"?`,
		"tools: {rules: [{tool: a, policy: ask, tier: egress}]}":                  `p:3:46: unknown tools.rules.tier "egress"`,
		"tools: {rules: [{tool: a, policy: ask, teir: write}]}":                   `p:3:40: unknown key "teir"; did you mean "tier"?`,
		"tools: {rules: [{tool: a, policy: ask}, {tool: a, policy: deny}]}":       `p:3:41: "a" is listed twice in tools.rules; the first is at 3:17`,
		"tools: {rules: [{tool: 'a*b', policy: ask}]}":                            `p:3:24: "a*b" cannot name tools; use letters, digits and _-./:, and * at the end`,
		"tools: {rules: [{tool: '', policy: ask}]}":                               "p:3:24: a tool must have a name",
		"tools: {rules: [{tool: 1, policy: ask}]}":                                "p:3:24: tools.rules.tool must be a tool's name, not a number without quotes",
		"tools: {rules: [{tool: " + strings.Repeat("a", 129) + ", policy: ask}]}": "p:3:24: no tool has a name of more than 128 characters",
		"sandbox: {fail_closed_on_sandbox_error: false}\ntools: {only: true}":     "p:4:15: tools.only: true needs a sandbox, and sandbox.fail_closed_on_sandbox_error is false",
		"network: {mode: open}\ntools: {only: true}":                              "p:4:15: tools.only: true leaves the agent its model's hosts alone, and network.mode is open at 3:17; name the hosts",
	} {
		_, err := Parse("p", []byte(head+text+"\n"))
		want = strings.TrimSuffix(want, " in tools")
		if err == nil || !errors.Is(err, bourn.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestSetTool(t *testing.T) {
	for _, test := range []struct {
		src, tool string
		policy    bourn.Outcome
		tier      bourn.Tier
		want      string
	}{
		{"", "shell_exec", bourn.Ask, "", "tools:\n  rules:\n    - {tool: shell_exec, policy: ask}\n"},
		{"", "files_*", bourn.Allow, bourn.TierWrite, "tools:\n  rules:\n    - {tool: \"files_*\", policy: allow, tier: write}\n"},
		{"tools: # mine\n", "*", bourn.Deny, "", "tools: { rules: [ {tool: \"*\", policy: deny} ] } # mine\n"},
		{"tools: {only: true}\n", "a", bourn.Ask, "", "tools: {only: true, rules: [ {tool: a, policy: ask} ]}\n"},
		{"tools: {\"only\": true}\n", "a", bourn.Ask, bourn.TierSpend, "tools: {\"only\": true, \"rules\": [ {\"tool\": \"a\", \"policy\": \"ask\", \"tier\": \"spend\"} ]}\n"},
		{"tools:\n  rules: []\n", "a", bourn.Ask, "", "tools:\n  rules: [{tool: a, policy: ask}]\n"},
		{"tools:\n  rules:\n  - {tool: b, policy: ask} # b\n# end\n", "a", bourn.Ask, "", "tools:\n  rules:\n  - {tool: b, policy: ask} # b\n  - {tool: a, policy: ask}\n# end\n"},
		{"tools:\r\n  rules:\r\n  - tool: b\r\n    policy: ask\r\n", "a", bourn.Ask, "", "tools:\r\n  rules:\r\n  - tool: b\r\n    policy: ask\r\n  - {tool: a, policy: ask}\r\n"},
	} {
		rule := ToolRule{Tool: test.tool, Policy: test.policy, Tier: test.tier}
		got, changed, err := SetTool("p", []byte(head+test.src), rule)
		if err != nil || !changed || string(got) != head+test.want {
			t.Errorf("SetTool(%q, %v) = %q, %v, %v, want %q", test.src, rule, got, changed, err, test.want)
			continue
		}
		if again, changed, err := SetTool("p", got, rule); err != nil || changed || string(again) != string(got) {
			t.Errorf("a second SetTool(%q) = %q, %v, %v", got, again, changed, err)
		}
		if back, err := RemoveTool("p", got, test.tool); err != nil || string(back) != head+test.src {
			t.Errorf("RemoveTool(%q) = %q, %v, want %q", got, back, err, test.src)
		}
	}
}

func TestReplaceTool(t *testing.T) {
	for _, test := range []struct {
		src    string
		policy bourn.Outcome
		tier   bourn.Tier
		want   string
		once   bool // the way back has other bytes
	}{
		{src: "tools: {rules: [{tool: a, policy: ask}, {tool: b, policy: ask}]}\n", policy: bourn.Deny, want: "tools: {rules: [{tool: a, policy: deny}, {tool: b, policy: ask}]}\n"},
		{src: "tools: {rules: [{tool: a, policy: ask}]}\n", policy: bourn.Deny, tier: bourn.TierSpend, want: "tools: {rules: [{tool: a, policy: deny, tier: spend}]}\n"},
		{src: "tools: {rules: [{\"tool\": \"a\", \"policy\": \"ask\"}]}\n", policy: bourn.Ask, tier: bourn.TierSpend, want: "tools: {rules: [{\"tool\": \"a\", \"policy\": \"ask\", \"tier\": \"spend\"}]}\n"},
		{src: "tools: {rules: [{tool: a, policy: ask, tier: read}]}\n", policy: bourn.Ask, tier: bourn.TierSpend, want: "tools: {rules: [{tool: a, policy: ask, tier: spend}]}\n"},
		{src: "tools: {rules: [{tool: a, policy: ask, tier: read}]}\n", policy: bourn.Allow, want: "tools: {rules: [{tool: a, policy: allow}]}\n"},
		{src: "tools: {rules: [{tier: read, tool: a, policy: ask}]}\n", policy: bourn.Ask, want: "tools: {rules: [{tool: a, policy: ask}]}\n", once: true},
		{src: "tools: {rules: [{tool: a, policy: ask, },]}\n", policy: bourn.Allow, tier: bourn.TierRead, want: "tools: {rules: [{tool: a, policy: allow, tier: read, },]}\n"},
		{src: "tools:\n  rules:\n  - tool: a # a\n    policy: ask # p\n  # end\n", policy: bourn.Deny, tier: bourn.TierRead, want: "tools:\n  rules:\n  - tool: a # a\n    policy: deny # p\n    tier: read\n  # end\n"},
		{src: "tools:\n  rules:\n  -  policy: ask\n     tool: a\n", policy: bourn.Deny, tier: bourn.TierRead, want: "tools:\n  rules:\n  -  policy: deny\n     tool: a\n     tier: read\n"},
		{src: "tools:\n  rules:\n  - tier: read\n    tool: a\n    policy: ask\n", policy: bourn.Ask, want: "tools:\n  rules:\n  - tool: a\n    policy: ask\n", once: true},
		{src: "tools:\n  rules:\n  - tool: a\n    tier: read # t\n    policy: ask", policy: bourn.Ask, want: "tools:\n  rules:\n  - tool: a\n    policy: ask", once: true},
	} {
		rule := ToolRule{Tool: "a", Policy: test.policy, Tier: test.tier}
		before, err := Parse("p", []byte(head+test.src))
		if err != nil {
			t.Fatal(err)
		}
		got, changed, err := SetTool("p", []byte(head+test.src), rule)
		if err != nil || !changed || string(got) != head+test.want {
			t.Errorf("SetTool(%q, %v) = %q, %v, %v, want %q", test.src, rule, got, changed, err, test.want)
			continue
		}
		back, _, err := SetTool("p", got, unplacedRules(before.Tools.Rules)[0])
		if err != nil || !test.once && string(back) != head+test.src {
			t.Errorf("and back: %q, %v, want %q", back, err, test.src)
		}
	}
}

// TestSetToolRefused: what an edit would spoil is left to a person, and nothing is changed.
func TestSetToolRefused(t *testing.T) {
	for _, src := range []string{
		"tools:\n  rules:\n  - tier: read # why\n    tool: a\n    policy: ask\n",
		"tools: {rules: [{tool: a, policy: ask, # why\n tier: read}]}\n",
	} {
		out, _, err := SetTool("p", []byte(head+src), ToolRule{Tool: "a", Policy: bourn.Ask})
		if out != nil || !errors.Is(err, bourn.ErrInvalid) || !strings.Contains(err.Error(), "edit it by hand") {
			t.Errorf("SetTool(%q) = %q, %v", src, out, err)
		}
	}
	if _, _, err := SetTool("p", []byte(head), ToolRule{Tool: "a b", Policy: bourn.Ask}); !errors.Is(err, bourn.ErrInvalid) {
		t.Errorf("a name that is none: %v", err)
	}
	if _, err := RemoveTool("p", []byte(head), "a"); !errors.Is(err, bourn.ErrNotFound) {
		t.Errorf("a rule that is not there: %v", err)
	}
}

// TestEditsKeepTools: edits of other lists leave the rules as they are, and the other way
// round.
func TestEditsKeepTools(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := []byte(head)
		step := rapid.SampledFrom([]string{"read", "host", "tool", "tool", "tool"})
		pattern := rapid.SampledFrom([]string{"*", "files_*", "files_read", "shell_exec"})
		policy := rapid.SampledFrom([]bourn.Outcome{bourn.Deny, bourn.Ask, bourn.Allow})
		tier := rapid.SampledFrom(append([]bourn.Tier{"", ""}, bourn.Tiers()...))
		want := map[string]ToolRule{}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			var err error
			switch step.Draw(t, "step") {
			case "read":
				src, _, err = Add("p", src, ReadList, fmt.Sprintf("/r%d", rapid.IntRange(0, 3).Draw(t, "path")))
			case "host":
				src, _, err = Add("p", src, HostList, "a.example.org")
			default:
				r := ToolRule{Tool: pattern.Draw(t, "tool"), Policy: policy.Draw(t, "policy"), Tier: tier.Draw(t, "tier")}
				want[r.Tool] = r
				src, _, err = SetTool("p", src, r)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		p, err := Parse("p", src)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]ToolRule{}
		for _, r := range unplacedRules(p.Tools.Rules) {
			got[r.Tool] = r
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s\n(-want +got):\n%s", src, diff)
		}
	})
}

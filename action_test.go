package bourn

import (
	"encoding/json"
	"errors"
	"testing"
)

func TestParseOperation(t *testing.T) {
	for _, o := range Operations() {
		if got, err := ParseOperation(string(o)); got != o || err != nil {
			t.Errorf("%s: %s, %v", o, got, err)
		}
	}
	for _, s := range []string{"", "Read", "read ", "call"} {
		if _, err := ParseOperation(s); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestTiers(t *testing.T) {
	order := []Tier{TierRead, TierWrite, TierEgress, TierSpend, TierDestructive, TierPrivileged}
	for i, a := range order {
		for j, b := range order {
			if a.Above(b) != (i > j) {
				t.Errorf("%s above %s: %t", a, b, a.Above(b))
			}
		}
	}
	for _, unknown := range []Tier{"", "reed"} {
		if !unknown.Above(TierDestructive) || unknown.Above(TierPrivileged) {
			t.Errorf("%q does not count as privileged", unknown)
		}
	}
}

// TestActionDigest shows that a digest changes with every field, and with nothing else.
func TestActionDigest(t *testing.T) {
	whole := func() Action {
		return Action{Person: "p", Agent: "a", Run: "r", Tool: "shell_exec", Tier: TierWrite, Input: "i",
			Targets: []Target{{Write, "x", "/x"}, {Delete, "y", ""}},
			Command: &Command{Text: "t", Cwd: "c", CwdResolved: "/c"}}
	}
	changes := map[string]func(*Action){
		"nothing":         func(*Action) {},
		"person":          func(a *Action) { a.Person = "q" },
		"agent":           func(a *Action) { a.Agent = "b" },
		"run":             func(a *Action) { a.Run = "" },
		"tool":            func(a *Action) { a.Tool += " " },
		"tier":            func(a *Action) { a.Tier = TierRead },
		"input":           func(a *Action) { a.Input = "" },
		"operation":       func(a *Action) { a.Targets[0].Operation = Read },
		"path":            func(a *Action) { a.Targets[0].Path = "x\xff" },
		"path, otherwise": func(a *Action) { a.Targets[0].Path = "x\xfe" },
		"path, replaced":  func(a *Action) { a.Targets[0].Path = "x\ufffd" },
		"path, quoted":    func(a *Action) { a.Targets[0].Path = `"x\xff"` },
		"resolved":        func(a *Action) { a.Targets[1].Resolved = "/y" },
		"order":           func(a *Action) { a.Targets[0], a.Targets[1] = a.Targets[1], a.Targets[0] },
		"fewer":           func(a *Action) { a.Targets = a.Targets[:1] },
		"text":            func(a *Action) { a.Command.Text = "t\n" },
		"argv":            func(a *Action) { a.Command.Argv = []string{"t"} },
		"argv, two":       func(a *Action) { a.Command.Argv = []string{"t", ""} },
		"cwd":             func(a *Action) { a.Command.Cwd = "" },
		"cwd resolved":    func(a *Action) { a.Command.CwdResolved = "" },
		"variable":        func(a *Action) { a.Command.Env = []string{"A"} },
		"variables":       func(a *Action) { a.Command.Env = []string{"A", ""} },
		"no command":      func(a *Action) { a.Command = nil },
	}
	seen := map[string]string{}
	for name, change := range changes {
		a := whole()
		change(&a)
		digest := a.Digest()
		if other, twice := seen[digest]; twice {
			t.Errorf("%s and %s have one digest", name, other)
		}
		seen[digest] = name
		if digest != a.Digest() || len(digest) != 64 {
			t.Errorf("%s: %s", name, digest)
		}
	}
	if seen[whole().Digest()] != "nothing" {
		t.Error("two equal actions have two digests")
	}
}

func TestMutates(t *testing.T) {
	for _, tt := range []struct {
		a    Action
		want bool
	}{
		{Action{}, true},
		{Action{Tool: "mcp_call", Tier: TierEgress}, true},
		{Action{Tool: "whoami", Tier: TierRead}, false},
		{Action{Targets: []Target{{Operation: Read}}}, false},
		{Action{Targets: []Target{{Operation: Read}, {Operation: Delegate}}}, true},
		{Action{Targets: []Target{{Operation: Read}}, Command: &Command{}}, true},
	} {
		if got := tt.a.Mutates(); got != tt.want {
			t.Errorf("%+v: %t", tt.a, got)
		}
	}
}

func TestOutcome(t *testing.T) {
	for outcome, text := range map[Outcome]string{Deny: `"deny"`, Ask: `"ask"`, Allow: `"allow"`, 7: `"deny"`} {
		if got, err := json.Marshal(outcome); string(got) != text || err != nil {
			t.Errorf("%d: %s, %v", outcome, got, err)
		}
	}
	var o Outcome
	if err := json.Unmarshal([]byte(`"allow"`), &o); o != Allow || err != nil {
		t.Errorf("%s, %v", o, err)
	}
	if err := json.Unmarshal([]byte(`"Allow"`), &o); !errors.Is(err, ErrInvalid) {
		t.Errorf("%v", err)
	}
	if Deny >= Ask || Ask >= Allow {
		t.Error("the smaller outcome is not the stricter")
	}
}

func TestBlockers(t *testing.T) {
	v := Verdict{Reasons: []Reason{
		{Code: ReasonHardBlock, Rule: "b"}, {Code: ReasonHardBlock, Rule: "a"}, {Code: ReasonHardBlock, Rule: "b", Target: "x"},
		{Code: ReasonCommandUnclear, Outcome: Ask}, {Code: ReasonBoundariesInvalid},
	}}
	want := []string{"hard_policy_block:user_configured_hard_block:b", "hard_policy_block:user_configured_hard_block:a", "boundaries_invalid"}
	got := v.Blockers()
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%q", got)
		}
	}
}

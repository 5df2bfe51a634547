package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bourn"
	"bourn/internal/review"

	"github.com/google/go-cmp/cmp"
)

// TestPolicies: a profile is read again when it is another, also where its times do not tell
// yet, and what cannot be read lets nobody call anything.
func TestPolicies(t *testing.T) {
	home := t.TempDir()
	at := filepath.Join(home, "agents/mur/profile.yaml")
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	p := newPolicies(home, func() time.Time { return now })
	write := func(text string, when time.Time) {
		t.Helper()
		if err := os.WriteFile(at, []byte("version: 1\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(at, when, when); err != nil {
			t.Fatal(err)
		}
	}
	is := func(what string, want []review.ToolRule) {
		t.Helper()
		got, err := p.of("mur")
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
		}
	}
	refuses := func(what, text string) {
		t.Helper()
		if got, err := p.of("mur"); !errors.Is(err, bourn.ErrDenied) || !strings.Contains(err.Error(), text) || bourn.HintOf(err) == "" || got != nil {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	rule := func(policy string) string {
		return fmt.Sprintf("agent: mur\ntools: {rules: [{tool: a, policy: %s}]}\n", policy)
	}
	of := func(o bourn.Outcome) []review.ToolRule { return []review.ToolRule{{Tool: "a", Policy: o}} }

	if rules, err := p.of(""); rules != nil || err != nil {
		t.Errorf("a run without an agent: %v, %v", rules, err)
	}
	refuses("no profile", "no such file")
	old := now.Add(-time.Hour)
	write(rule("deny"), old)
	is("the first reading", of(bourn.Deny))
	kept := p.kept["mur"]
	is("the second", of(bourn.Deny))
	if !kept.settled || !os.SameFile(kept.file, p.kept["mur"].file) || &kept.rules[0] != &p.kept["mur"].rules[0] {
		t.Error("what did not change is read again")
	}
	write(rule("allow"), old) // another size
	is("of another size", of(bourn.Allow))
	write(rule("ask"), now)
	is("just now", of(bourn.Ask))
	write(strings.Replace(rule("ask"), "tool: a,", "tool: b,", 1), now) // the same size and time
	is("of the same size and time", []review.ToolRule{{Tool: "b", Policy: bourn.Ask}})
	write("agent: other\n", old)
	refuses("another agent's", `the profile is of agent "other"`)
	refuses("the same again", `the profile is of agent "other"`)
	write("agent: mur\n", old)
	is("without rules", nil)
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	refuses("removed", "no such file")
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	refuses("a directory", "it is no file")
}

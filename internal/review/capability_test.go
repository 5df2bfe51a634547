package review

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bourn"

	"pgregory.net/rapid"
)

// A sketch draws receipts: a character is a place in the log. A letter begins an action and
// its second one ends it; small letters change something, and of capitals V verifies, W says
// by its call that it does, and R only reads.
func sketch(drawing string, rule CommitRule) []Receipt {
	var all []Receipt
	for i, c := range drawing {
		if c == '.' {
			continue
		}
		at := slices.IndexFunc(all, func(r Receipt) bool { return r.ID == string(c) && r.Ended == 0 })
		if at >= 0 {
			all[at].Ended = int64(i + 1)
			switch c {
			case 'V':
				all[at].Evidence = rule.Evidence()
			case 'W':
				all[at].Evidence = EvidenceByCall
			}
			continue
		}
		all = append(all, Receipt{ID: string(c), Began: int64(i + 1), Changes: c != 'R'})
	}
	return all
}

func TestCapabilities(t *testing.T) {
	rule := CommitRule{Verified: true, Verify: "make check"}
	byCall := CommitRule{Verified: true}
	write, err := Compile(Boundaries{Version: 1, HardBlocks: []HardBlock{
		{ID: "key", Enabled: true, Type: PathRule, Match: Exact, Pattern: "/w/key", Operations: []bourn.Operation{bourn.Write}, Reason: "not that"},
	}}, Base{Root: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		drawing        string
		rule           CommitRule
		rules          *Compiled
		action, path   string
		mutate, commit bool
		codes, says    string
	}{
		{"", CommitRule{}, write, "commit", "", true, true, "", ""},
		{"", CommitRule{Verify: "make check"}, write, "commit", "", true, true, "", ""}, // nothing requires it
		{"", CommitRule{}, write, "", "", true, false, "step_not_a_commit", "not a commit"},
		{"", CommitRule{}, write, "push", "", true, false, "step_not_a_commit", "not a commit"},
		{"", CommitRule{}, write, "commit", "key", false, false, "hard_policy_block:user_configured_hard_block:key", "not that"},
		{"", CommitRule{}, write, "commit", "other", true, true, "", ""},
		{"", CommitRule{}, Invalid(errors.New("broken")), "commit", "", false, false, "boundaries_invalid", "broken"},
		{"VV", rule, Invalid(errors.New("broken")), "commit", "", false, false, "boundaries_invalid", "broken"},
		{"", rule, write, "", "", true, false, "step_not_a_commit commit_not_verified", ""},

		{"", rule, write, "commit", "", true, false, "commit_not_verified", "no verification has passed"},
		{"aa", rule, write, "commit", "", true, false, "commit_not_verified", "no verification has passed"},
		{"VV", rule, write, "commit", "", true, true, "", ""},
		{"aaVV", rule, write, "commit", "", true, true, "", ""},
		{"aaVVRR", rule, write, "commit", "", true, true, "", ""},
		{"VVR", rule, write, "commit", "", true, true, "", ""}, // who reads has no outcome yet
		{"VVaa", rule, write, "commit", "", true, false, "commit_not_verified", "after the last verification"},
		{"aVaV", rule, write, "commit", "", true, false, "commit_not_verified", "while it ran"},
		{"VaVa", rule, write, "commit", "", true, false, "commit_not_verified", "while it ran"},
		{"aVVa", rule, write, "commit", "", true, false, "commit_not_verified", "while it ran"},
		{"VaaV", rule, write, "commit", "", true, false, "commit_not_verified", "while it ran"},
		{"VaaVVV", rule, write, "commit", "", true, true, "", ""},
		{"aVV", rule, write, "commit", "", true, false, "commit_not_verified", "1 action without an outcome"},
		{"abVV", rule, write, "commit", "", true, false, "commit_not_verified", "2 actions without"},
		{"VVV", rule, write, "commit", "", true, false, "commit_not_verified", "without an outcome"}, // it verifies again
		{"WW", rule, write, "commit", "", true, false, "commit_not_verified", "no verification has passed"},
		{"WW", byCall, write, "commit", "", true, true, "", ""},
		{"WWaa", byCall, write, "commit", "", true, false, "commit_not_verified", "after the last"},
	} {
		k := Capabilities(tt.rules, sketch(tt.drawing, tt.rule), Step{Action: tt.action, Path: tt.path, Rule: tt.rule})
		var codes []string
		says := ""
		for _, m := range k.Reasons {
			codes, says = append(codes, m.Code), says+m.Text+"\n"
			if m.Hint == "" || m.Of != "mutate" && m.Of != "commit" {
				t.Errorf("%q: %+v", tt.drawing, m)
			}
		}
		if k.Mutate != tt.mutate || k.Commit != tt.commit || strings.Join(codes, " ") != tt.codes || !strings.Contains(says, tt.says) {
			t.Errorf("%q %+v: %+v", tt.drawing, tt.rule, k)
		}
	}
	// What another command showed is no evidence for this one.
	if k := Capabilities(write, sketch("VV", CommitRule{Verify: "make test"}), Step{Action: StepCommit, Rule: rule}); k.Commit {
		t.Error("another command verifies")
	}
	if k := Capabilities(write, sketch("VV", rule), Step{Action: StepCommit, Rule: byCall}); k.Commit {
		t.Error("a command verifies where the call has to say so")
	}
}

// TestNever: what was not performed after all is no change.
func TestNever(t *testing.T) {
	p := ProgressOf(sketch("aaVV", CommitRule{}))
	p.Began("x", 5)
	if p.Verified(EvidenceByCall) {
		t.Error("verified while something is done")
	}
	p.Never("x")
	p.Ended("x", 6, "")
	if !p.Verified(EvidenceByCall) {
		t.Error("not verified by what was not done")
	}
}

// TestCommitFollowsVerification holds Capabilities against the sentence that it is to keep.
func TestCommitFollowsVerification(t *testing.T) {
	rule := CommitRule{Verified: true, Verify: "make check"}
	none, err := Compile(NoRules(), Base{Root: "/"})
	if err != nil {
		t.Fatal(err)
	}
	yes := 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 7).Draw(t, "receipts")
		places := rapid.Permutation(func() (all []int64) {
			for i := range 2 * n {
				all = append(all, int64(i+1))
			}
			return all
		}()).Draw(t, "places")
		var all []Receipt
		for i := range n {
			r := Receipt{ID: fmt.Sprint(i), Began: min(places[2*i], places[2*i+1]), Ended: max(places[2*i], places[2*i+1])}
			r.Changes = rapid.IntRange(0, 3).Draw(t, "changes") > 0
			switch rapid.IntRange(0, 9).Draw(t, "is") {
			case 0:
				r.Ended = 0
			case 1, 2, 3, 4:
				r.Changes, r.Evidence = true, rule.Evidence()
			case 5:
				r.Changes, r.Evidence = true, EvidenceByCall
			}
			all = append(all, r)
		}
		want := slices.ContainsFunc(all, func(v Receipt) bool {
			return v.Evidence == rule.Evidence() && !slices.ContainsFunc(all, func(m Receipt) bool {
				return m.Changes && (m.Ended == 0 || m.Evidence == "" && m.Ended > v.Began)
			})
		})
		k := Capabilities(none, all, Step{Action: StepCommit, Rule: rule})
		if k.Commit != want {
			t.Fatalf("%+v of %+v, want %v", k, all, want)
		}
		if !k.Mutate || k.Commit != (len(k.Reasons) == 0) {
			t.Fatalf("%+v", k)
		}
		if want {
			yes++
		}
	})
	if yes == 0 {
		t.Error("nothing that was drawn may be committed: it shows nothing")
	}
}

func TestCommits(t *testing.T) {
	for _, text := range []string{
		"git commit -m x", "git add -A && git commit -m 'x y'", `git -C "$HOME/x" -c user.name=a --no-pager commit`, "/usr/bin/git commit", "/usr/lib/git-core/git-commit -m x",
		"sudo -u me env A=1 nice git commit", "sh -c 'git commit -m x'", "echo 'git commit' | sh", "bash <<< 'git merge topic'", "eval git commit",
		"x=commit; git $x", `git "$VERB"`, "git com$x", "git $OPTIONS commit", "g''it c\\ommit", "$(which git) commit", "echo x | xargs git commit -m", "echo commit | xargs git",
		"git -c alias.x=commit x", "git -c alias.x='!git commit' x", "alias g='git commit'\ng -m x", "if true; then git pull; fi", "(git rebase main)", "git commit --dry-run",
		"git c?mmit -m x", "git merge topic -m --abort", "git commit --quit -m x", "git am <p", "git revert HEAD", "git cherry-pick x", "git commit-tree x", "time git commit", "find . -exec git commit {} ;", "strace git commit", "git commit 'unfinished",
	} {
		why, is := Commits(bourn.Command{Text: text})
		if !is || !strings.HasPrefix(why, "the command has git ") && !strings.HasPrefix(why, "it may make a commit: ") {
			t.Errorf("no commit (%s): %s", why, text)
		}
	}
	for _, text := range []string{
		"git status", "git log --grep=commit", "git add commit", "echo git commit", "grep -r 'git commit' .", "git -C commit status", "git --version", "git", "# git commit", "make commit",
		"git merge --abort", "git rebase --quit", "git show $(git rev-parse HEAD)", "git diff commit", "git log $x", "git help commit", "$RUNNER test", "for f in *; do $f; done", "go test ./...", "unfinished 'text",
	} {
		if where, is := Commits(bourn.Command{Text: text}); is {
			t.Errorf("a commit (%s): %s", where, text)
		}
	}
	for _, tt := range []struct {
		argv []string
		is   bool
	}{
		{[]string{"git", "commit", "-m", "x"}, true}, {[]string{"env", "git", "-C", "/x", "commit"}, true}, {[]string{"sh", "-c", "git commit"}, true},
		{[]string{"git", "status"}, false}, {[]string{"echo", "git commit"}, false}, {[]string{"git commit"}, false},
	} {
		if where, is := Commits(bourn.Command{Argv: tt.argv}); is != tt.is {
			t.Errorf("%q: %v (%s)", tt.argv, is, where)
		}
	}
	// What a variable holds that is set beside the command is not told.
	for _, tt := range []struct {
		command bourn.Command
		is      bool
	}{
		{bourn.Command{Text: "git ci -m x", Env: []string{"GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0"}}, true},
		{bourn.Command{Argv: []string{"git", "ci"}, Env: []string{"GIT_CONFIG_PARAMETERS"}}, true},
		{bourn.Command{Text: "$A $B -m x", Env: []string{"A", "B"}}, true}, {bourn.Command{Text: "$A -m x", Env: []string{"A"}}, true},
		{bourn.Command{Text: `eval "$A"`, Env: []string{"A"}}, true}, {bourn.Command{Argv: []string{"sh", "-c", `eval "$A"`}, Env: []string{"A"}}, true},
		{bourn.Command{Text: "git ci -m x", Env: []string{"CI"}}, false}, {bourn.Command{Text: "$RUNNER test", Env: []string{"CI"}}, false},
		{bourn.Command{Text: `echo "$A"; make test`, Env: []string{"A"}}, false}, {bourn.Command{Text: "make test", Env: []string{"GIT_CONFIG_COUNT"}}, false},
	} {
		if why, is := Commits(tt.command); is != tt.is {
			t.Errorf("%+v: %v (%s)", tt.command, is, why)
		}
	}
	for _, verb := range CommitVerbs() {
		if why, is := Commits(bourn.Command{Text: "git -C x " + verb + " -m secret"}); !is || why != "the command has git "+verb {
			t.Errorf("git %s is no commit (%s)", verb, why)
		}
	}
}

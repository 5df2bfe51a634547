package profile

import (
	"testing"

	"bourn"

	"github.com/google/go-cmp/cmp"
)

const offered = `version: 1
agent: builder
context: {instructions: true, skills: [review, my_1-skill], roots: ["~", ~/src//lib, /opt/x]} # mine
commit: {requires: [verified], verify: "make check"}
delegate: [reviewer, tester]
`

func TestParseContext(t *testing.T) {
	got, err := Parse("p.yaml", []byte(offered))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Context{true, []string{"review", "my_1-skill"},
		[]Path{{"~", Pos{3, 69}}, {"~/src//lib", Pos{3, 74}}, {"/opt/x", Pos{3, 86}}}}, got.Context); diff != "" {
		t.Errorf("context (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&Commit{[]string{Verified}, "make check"}, got.Commit); diff != "" {
		t.Errorf("commit (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]bourn.AgentName{"reviewer", "tester"}, got.Delegate); diff != "" {
		t.Errorf("delegate (-want +got):\n%s", diff)
	}
}

// What declares nothing is nothing: above all no commit whose conditions are empty.
func TestParseContextDefaults(t *testing.T) {
	for _, text := range []string{
		"", "context:\ndelegate:\n", "context: {}\n", "delegate: []\n",
		"context:\n  instructions: false\n  skills:\n  roots: []\n",
	} {
		got, err := Parse("p.yaml", []byte(head+text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got.Context.Instructions || got.Context.Skills != nil || got.Context.Roots != nil || got.Commit != nil || got.Delegate != nil {
			t.Errorf("%q declares %+v %+v %v", text, got.Context, got.Commit, got.Delegate)
		}
	}
	got, err := Parse("p.yaml", []byte(head+"commit: {requires: [verified]}\n"))
	if err != nil || got.Commit == nil || got.Commit.Verify != "" {
		t.Errorf("a commit without a command: %+v, %v", got, err)
	}
}

func TestParseContextErrors(t *testing.T) {
	for _, test := range []struct {
		src  string
		want []string
	}{
		{"context: [review]\n", []string{`3:10: context must be a mapping, not a list`}},
		{"context: {instructions: yes, skils: [a], artifacts: true}\n", []string{
			`3:25: context.instructions must be true or false, not "yes"`, `3:30: unknown key "skils"; did you mean "skills"?`,
			`3:42: unknown key "artifacts"`}},
		{"context:\n  instructions:\n", []string{`4:16: context.instructions has no value`}},
		{"context: {skills: review}\n", []string{`3:19: context.skills must be a list of skills, not "review"`}},
		{"context: {skills: [../x, '', a/b, 7, a, a, _b, 'a\nb']}\n", []string{
			`3:20: invalid skill name "../x": use a-z, 0-9, '-' and '_', beginning with a letter or a digit`,
			`3:26: invalid skill name "": must have 1 to 64 characters`,
			`3:30: invalid skill name "a/b": use a-z, 0-9, '-' and '_', beginning with a letter or a digit`,
			`3:35: an entry of context.skills must be a name, not a number without quotes`,
			`3:41: "a" is listed twice in context.skills; the first is at 3:38`,
			`3:44: invalid skill name "_b": use a-z, 0-9, '-' and '_', beginning with a letter or a digit`,
			`3:48: invalid skill name "a b": use a-z, 0-9, '-' and '_', beginning with a letter or a digit`}},
		{"context: {roots: [src, '~/*', ~bob/x, /a, /a/]}\n", []string{
			`3:19: path "src" is relative; begin it with / or ~/`,
			`3:24: "~/*" is a pattern: read and write take paths, not patterns; only deny takes patterns`,
			`3:31: path "~bob/x" is in another person's home; begin it with / or ~/`,
			`3:43: "/a" is listed twice in context.roots; the first is at 3:39`}},
		{"commit:\n", []string{`3:8: commit has no value`}},
		{"commit: true\n", []string{`3:9: commit must be a mapping, not true or false without quotes`}},
		{"commit: {}\n", []string{`3:9: commit.requires is missing`}},
		{"commit: {verify: make}\n", []string{`3:9: commit.requires is missing`}},
		{"commit: {requires: []}\n", []string{`3:20: commit.requires is empty; leave commit out`}},
		{"commit: {requires: verified}\n", []string{`3:20: commit.requires must be a list like [verified], not "verified"`}},
		{"commit: {requires: [verified, verified, reviewed, verifed, 1], verify: ' '}\n", []string{
			`3:31: "verified" is listed twice in commit.requires; the first is at 3:21`,
			`3:41: unknown entry "reviewed" of commit.requires`,
			`3:51: unknown entry "verifed" of commit.requires; did you mean "verified"?`,
			`3:60: an entry of commit.requires must be verified, not a number without quotes`,
			`3:72: commit.verify is empty; leave the key out`}},
		{"commit: {requires: [verified], verify: [make, check]}\n", []string{`3:40: commit.verify must be a command, not a list`}},
		{"commit: {requires: [verified], verify: \"a\\nb\"}\n", []string{`3:40: commit.verify must be one line`}},
		{"commit:\n  requires: [verified]\n  verify: |\n    make\n", []string{`5:11: commit.verify must be on one line`}},
		{"delegate: reviewer\n", []string{`3:11: delegate must be a list of agents, not "reviewer"`}},
		{"delegate: [b, a, B, b, 1]\n", []string{
			`3:15: delegate names the agent itself, "a"; it needs no leave for its own work`,
			`3:18: invalid agent name "B": use a-z, 0-9, '-' and '_', beginning with a letter or a digit`,
			`3:21: "b" is listed twice in delegate; the first is at 3:12`,
			`3:24: an entry of delegate must be an agent's name, not a number without quotes`}},
	} {
		_, err := Parse("p.yaml", []byte(head+test.src))
		checkErrors(t, test.src, err, test.want)
	}
	// The agent's name may come after it.
	_, err := Parse("p.yaml", []byte("version: 1\ndelegate: [a]\nagent: a\n"))
	checkErrors(t, "delegate before agent", err, []string{`2:12: delegate names the agent itself, "a"; it needs no leave for its own work`})
}

// An edit of another list keeps them as they are.
func TestEditsKeepContext(t *testing.T) {
	src := []byte("context:\n  roots:\n  - /r # mine\ncommit: {requires: [verified]}\ndelegate: [b]\n" + head)
	got, _, err := Add("p", src, ReadList, "/a")
	if err != nil {
		t.Fatal(err)
	}
	back, err := Remove("p", got, ReadList, "/a")
	if err != nil || string(back) != string(src) {
		t.Errorf("%q, %v, want %q", back, err, src)
	}
	p, err := Parse("p", got)
	if err != nil || len(p.Context.Roots) != 1 || p.Commit == nil || len(p.Delegate) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

package run

import (
	"slices"
	"testing"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"
)

// TestTask: a task is one word of the command, or read from its standard input.
func TestTask(t *testing.T) {
	for _, c := range []struct {
		command []string
		task    string
		want    []string
		stdin   bool
		code    bourn.Code
	}{
		{[]string{"sh", "x", "{job}"}, "a 'b'\n{job}", []string{"sh", "x", "a 'b'\n{job}"}, false, ""},
		{[]string{"sh", "{job}", "{job}", "x{job}"}, "a", []string{"sh", "a", "a", "x{job}"}, false, ""},
		{[]string{"make"}, "a", []string{"make"}, true, ""},
		{[]string{"{job}"}, "rm", []string{"{job}"}, false, ""}, // never the program
		{[]string{"/opt/bin/claude", "--model", "m"}, "a", []string{"/opt/bin/claude", "--model", "m", "-p", "a"}, false, ""},
		{[]string{"codex"}, "a", []string{"codex", "exec", "a"}, false, ""},
		{[]string{"opencode"}, "a", []string{"opencode", "run", "a"}, false, ""},
		{[]string{"gemini"}, "a", []string{"gemini", "-p", "a"}, false, ""},
		{[]string{"claude", "-p", "{job}"}, "--settings x", []string{"claude", "-p", " --settings x"}, false, ""},
		{[]string{"claude"}, "-x", []string{"claude", "-p", " -x"}, false, ""},
		{[]string{"sh", "x", "--", "{job}"}, "-x", []string{"sh", "x", "--", "-x"}, false, ""},
		{[]string{"claude", "-p", "of its own"}, "a", nil, false, bourn.CodeInvalid},
		{nil, "a", nil, false, bourn.CodeInvalid},
	} {
		p := &Prepared{Request: &policy.Request{Command: []string{"another"}}, Profile: &profile.Profile{Command: c.command}}
		if c.command == nil {
			p.Request.Command = nil
		}
		got, stdin, err := p.task(c.task)
		if err != nil && c.code != "" && bourn.CodeOf(err) == c.code && bourn.HintOf(err) != "" {
			continue
		}
		if err != nil || c.code != "" || stdin != c.stdin || !slices.Equal(got, c.want) {
			t.Errorf("%q %q: %q %t %v", c.command, c.task, got, stdin, err)
		}
		if slices.Contains(c.command, c.task) {
			t.Errorf("%q was changed", c.command)
		}
	}
	p := &Prepared{Request: &policy.Request{Command: []string{"sh", "done"}}, template: []string{"sh", "{job}"}}
	if got, _, err := p.task("next"); err != nil || !slices.Equal(got, []string{"sh", "next"}) {
		t.Errorf("a child's child: %q %v", got, err)
	}
}

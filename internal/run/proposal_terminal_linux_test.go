package run_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

// At a terminal a person is asked, and what was shown is what is accepted.
func TestAcceptAtTerminal(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		lib := proposing(u)
		at := u.Path(".bourn/profile.yaml")
		text := u.Read(at)
		for _, c := range []struct {
			name, answer, said string
			meanwhile          func()
			status             int
		}{
			{"no answer", "", "the proposal is not accepted", nil, 3},
			{"no", "n", "the proposal is not accepted", nil, 3},
			{"something else", "yess", "the proposal is not accepted", nil, 3},
			{"it changes meanwhile", "y", "has changed since it was shown, and is not accepted", func() { u.Write(at, text+"#") }, 1},
			{"yes", "y", "it is accepted", nil, 0},
		} {
			s := show(t, u.Command(context.Background(), runtest.Binary(t), "accept"))
			s.expect("y/N] ")
			if c.meanwhile != nil {
				c.meanwhile()
			}
			s.typed(c.answer + "\r")
			s.expect(c.said)
			if ws := s.end(); ws.ExitStatus() != c.status {
				t.Errorf("%s: status %d, want %d: %s", c.name, ws.ExitStatus(), c.status, s.text())
			}
			u.Write(at, text)
			want := "ENOENT"
			if c.status == 0 {
				want = "ok*"
			}
			try(t, u, nil, "read "+lib).are(t, want, "read "+lib)
		}
	})
}

// What a preset grants is shown as the host is now: the preset itself is shown, whatever is
// there of it, and so is how much is asked for beside the question, however long the list.
func TestAcceptShowsWhatIsAskedFor(t *testing.T) {
	u := runtest.NewUser(t, os.Getuid())
	u.Write(".bourn/profile.yaml", "version: 1\npresets: [java]\n")
	r := u.Bourn("accept")
	if !strings.Contains(r.Out, "asks for preset java\n") || strings.Contains(r.Out, "add nothing\n") {
		t.Errorf("a preset of which nothing is there: %q", r.Out)
	}
	if r := u.Bourn("accept", "--json"); !strings.Contains(r.Out, `"asks": "preset java"`) {
		t.Errorf("the same as JSON: %q", r.Out)
	}
	s := show(t, u.Command(context.Background(), runtest.Binary(t), "accept"))
	s.expect("It asks for preset java. Accept it for runs in this directory? [y/N] ")
	s.typed("n\r")
	s.end()
	u.Write(".bourn/profile.yaml", "version: 1\nfilesystem: {deny: [.env]}\n")
	if r := u.Bourn("accept"); !strings.Contains(r.Out, "asks for nothing\n") {
		t.Errorf("denies alone: %q", r.Out)
	}
}

// What a proposal names reaches the terminal escaped.
func TestProposalIsPrintedEscaped(t *testing.T) {
	u := runtest.NewUser(t, os.Getuid())
	u.Write(".bourn/profile.yaml", `version: 1
filesystem: {read: ["/usr/\e[2J\u202e", "/usr/a\nbourn: sealed"], deny: ["x\e[1A"]}
network: {mode: restricted, hosts: [api.example.com]}
`)
	for _, args := range [][]string{{"accept"}, {"plan"}, {"run", "--", "true"}} {
		r := u.Bourn(args...)
		for _, c := range r.Out + r.Err {
			if c == 0x1b || c == 0x202e {
				t.Errorf("%v prints %U", args, c)
			}
		}
	}
}

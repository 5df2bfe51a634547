package run_test

import (
	"context"
	"os"
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

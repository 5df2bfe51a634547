package run_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

// Of a run as somebody else a placeholder is theirs, and root's next command removes it.
func TestPlaceholderRunAs(t *testing.T) {
	u := account(t)
	before := tree(t, u.Work)
	runAgent(t, u, "mur", "run_as: "+u.RunAs+"\nfilesystem: {write: ["+u.Work+"], deny: [{path: "+u.Path(".env")+", placeholder: true}, {path: "+u.Path("new/key")+", placeholder: true}]}\n")
	serve := func() *live {
		l := start(t, u.AsRoot(t.Context(), sealed(t, []string{"--agent", "mur"}, "serve")...))
		l.wait("ready")
		return l
	}
	l := serve()
	for _, at := range []string{".env", "new", "new/key"} {
		if uid, _ := owner(t, u.Path(at)); uid != u.UID {
			t.Errorf("%s is of uid %d", at, uid)
		}
	}
	if said := l.ask("openw " + u.Path(".env")); strings.HasPrefix(said, "ok") {
		t.Errorf("it can be written: %s", said)
	}
	if said := l.ask("create " + u.Path("new/own")); said != "ok" {
		t.Errorf("beside a placeholder: %s", said)
	}
	_ = os.Remove(u.Path("new/own"))
	l.finish()
	unchanged(t, "the project", before, tree(t, u.Work))

	killAll(t, serve())
	if !standing(u, ".env") {
		t.Error("it went with the run that was killed: nothing is shown")
	}
	ended(t, u.Wait(u.AsRoot(t.Context(), "plan")))
	unchanged(t, "the project after a kill", before, tree(t, u.Work))
	if data, err := os.ReadFile(filepath.Join(u.BournHome(), "placeholders")); err == nil {
		t.Errorf("the ledger is left: %s", data)
	}
}

// A repository has nothing made on the host that nobody has accepted.
func TestPlaceholderOfProposal(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Mkdir(".git")
		u.Write(".bourn/profile.yaml", "version: 1\nfilesystem: {deny: [{path: .env, placeholder: true}]}\n")
		l := serve(t, u)
		if _, err := os.Lstat(u.Path(".env")); !os.IsNotExist(err) {
			t.Errorf("a placeholder stands: %v", err)
		}
		l.finish()
		accepted(t, u)
		l = serve(t, u)
		if !standing(u, ".env") {
			t.Error("no placeholder stands although it is accepted")
		}
		l.finish()
		noLedger(t, u)

		ended(t, u.Bourn("run", "-q", "--save", "mur", "--", "true"))
		if got := u.Read(filepath.Join(bournHome(u), "agents/mur/profile.yaml")); !strings.Contains(got, "{path: "+u.Path(".env")+", placeholder: true}") {
			t.Errorf("the agent that is made of the run has no placeholder:\n%s", got)
		}
	})
}

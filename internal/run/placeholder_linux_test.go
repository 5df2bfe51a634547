package run_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
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

	l = serve()
	all := descendants(l.cmd.Process.Pid)
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	l.end()
	for _, pid := range all {
		eventually(t, "the processes are gone", func() bool { return !alive(pid) })
	}
	if !standing(u, ".env") {
		t.Error("it went with the run that was killed: nothing is shown")
	}
	ended(t, u.Wait(u.AsRoot(t.Context(), "plan")))
	unchanged(t, "the project after a kill", before, tree(t, u.Work))
	if data, err := os.ReadFile(filepath.Join(u.BournHome(), "placeholders")); err == nil {
		t.Errorf("the journal is left: %s", data)
	}
}

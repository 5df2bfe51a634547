package run_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

// weakHosts are ways to start a command on a host that lacks something. Each changes
// nothing outside namespaces or processes of its own.
var weakHosts = []struct {
	name  string
	start func(t *testing.T, u *runtest.User, args ...string) runtest.Result
	step  string // what the refusal names
	mend  string // what its hint names
}{
	{"no user namespaces", func(t *testing.T, u *runtest.User, args ...string) runtest.Result {
		// The limit is set in a user namespace of the test's own and binds what is below it.
		script := `echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"`
		return u.Do("unshare", append([]string{"--user", "--map-root-user", "sh", "-c", script, "sh", runtest.Binary(t)}, args...)...)
	}, "cannot make namespaces", "user.max_user_namespaces"},
	{"no Landlock", func(t *testing.T, u *runtest.User, args ...string) runtest.Result {
		return u.Do(nolandlock(t), append([]string{runtest.Binary(t)}, args...)...)
	}, "cannot install Landlock", "lsm="},
	{"a masked /proc", func(t *testing.T, u *runtest.User, args ...string) runtest.Result {
		// As containers have it: something is mounted over a part of /proc.
		script := `mount --bind /dev/null /proc/meminfo && exec "$@"`
		return u.Do("unshare", append([]string{"--user", "--map-root-user", "--mount", "--propagation", "private", "sh", "-c", script, "sh", runtest.Binary(t)}, args...)...)
	}, "cannot mount /proc", "unmasked /proc"},
}

// nolandlock builds the helper that hides Landlock from a command.
func nolandlock(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "bourn-nolandlock-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	at := filepath.Join(dir, "nolandlock")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-o", at, "bourn/internal/run/testdata/nolandlock")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot build nolandlock: %v: %s", err, out)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return at
}

func TestWeakHostRefuses(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		for _, h := range weakHosts {
			t.Run(h.name, func(t *testing.T) {
				r := h.start(t, u, "run", "--", "sh", "-c", "echo ran > ran")
				if r.Status != 125 {
					t.Errorf("status %d, want 125", r.Status)
				}
				if !strings.Contains(r.Err, h.step) || !strings.Contains(r.Err, h.mend) {
					t.Errorf("the refusal must name %q and %q: %s", h.step, h.mend, r.Err)
				}
				if _, err := os.Stat(u.Path("ran")); err == nil {
					t.Error("the command was executed")
				}
			})
		}
	})
}

func TestWeakHostAdvisory(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write(filepath.Join(u.Home, ".bourn/agents/weak/profile.yaml"),
			"version: 1\nagent: weak\nfilesystem:\n  write: ["+u.Work+"]\n  deny: ["+u.Work+"/.env]\nsandbox: {fail_closed_on_sandbox_error: false}\n")
		u.Mkdir(filepath.Join(u.Home, ".bourn/agents/weak/home"))
		u.Write(".env", "SECRET")
		for _, h := range weakHosts {
			t.Run(h.name, func(t *testing.T) {
				report := filepath.Join(u.Home, "report.json")
				r := h.start(t, u, "run", "--agent", "weak", "--report", report, "--", "sh", "-c", "echo ran; exit 5")
				if r.Status != 5 || r.Out != "ran\n" {
					t.Errorf("status %d, out %q, err %q", r.Status, r.Out, r.Err)
				}
				if !strings.Contains(r.Err, "ADVISORY") {
					t.Errorf("nothing says ADVISORY: %q", r.Err)
				}
				rep := u.Read(report)
				if !strings.Contains(rep, `"state": "advisory"`) || strings.Contains(rep, `"fate": "enforced"`) {
					t.Errorf("an advisory report must claim nothing: %s", rep)
				}
			})
		}
	})
}

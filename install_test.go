package bourn_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

// script returns a copy of a script that every user can read.
func script(t *testing.T, u *runtest.User, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("scripts", name))
	if err != nil {
		t.Fatal(err)
	}
	return u.Write(filepath.Join(u.Dir, name), string(data))
}

// TestInstall installs into a prefix, and looks at what is there: the program, a page for
// it, and completions that their shells can read.
func TestInstall(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		install, prefix := script(t, u, "install.sh"), filepath.Join(u.Dir, "prefix")
		u.Mkdir(prefix)
		if r := u.Do("sh", install, runtest.Binary(t), prefix); r.Status != 0 || !strings.Contains(r.Out, "manual pages (man bourn) and completions in "+prefix+"/share") {
			t.Fatalf("it is not installed: %d\n%s%s", r.Status, r.Out, r.Err)
		}
		for _, name := range []string{"man/man1/bourn.1", "man/man1/bourn-run.1", "man/man1/bourn-agent-perm-allow-read.1", "man/man5/bourn-profile.5",
			"bash-completion/completions/bourn", "zsh/site-functions/_bourn", "fish/vendor_completions.d/bourn.fish"} {
			info, err := os.Stat(filepath.Join(prefix, "share", name))
			if err != nil || info.Size() < 100 {
				t.Errorf("%s: %v", name, err)
			}
		}
		if r := u.Do("sh", "-c", "command -v bash"); r.Status == 0 {
			if r := u.Do("bash", "-n", filepath.Join(prefix, "share/bash-completion/completions/bourn")); r.Status != 0 {
				t.Errorf("bash cannot read its completion: %s", r.Err)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(prefix, "share/*/*/*.[0-9][0-9]*")); len(left) > 0 {
			t.Errorf("it leaves %v", left)
		}
	})
}

// TestInstallWithoutShare sees that the program is installed where its pages cannot be, and
// that this is said.
func TestInstallWithoutShare(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		install, prefix := script(t, u, "install.sh"), filepath.Join(u.Dir, "prefix")
		u.Write(prefix+"/share", "a file, where a directory should be\n")
		r := u.Do("sh", install, runtest.Binary(t), prefix)
		if r.Status != 0 || !strings.Contains(r.Out, "installed "+prefix+"/bin/") || !strings.Contains(r.Out, "not installed: "+prefix+"/share cannot be written") {
			t.Errorf("status %d\n%s%s", r.Status, r.Out, r.Err)
		}
	})
}

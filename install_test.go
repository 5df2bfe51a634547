package bourn_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"bourn/internal/daemon/instance"
	"bourn/internal/run/runtest"
	"bourn/internal/store/storetest"
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

// TestInstall installs into a prefix, and looks at what is there: the programs, pages for
// them, and completions that their shells can read. A second time nothing is changed, and
// with --remove nothing is left.
func TestInstall(t *testing.T) {
	runtest.Daemon(t)
	helperProgram(t)
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		install, prefix := script(t, u, "install.sh"), filepath.Join(u.Dir, "prefix")
		u.Mkdir(prefix)
		programs := 2
		if u.UID == 0 {
			programs = 3 // and the helper
		}
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
		// Below a directory where others can write nothing becomes setuid.
		info, err := os.Stat(filepath.Join(prefix, "libexec/bourn/bourn-posix-helper"))
		if u.UID == 0 && (err != nil || info.Mode() != 0o700) || u.UID != 0 && err == nil {
			t.Errorf("the helper: %v, %v", info, err)
		}
		if left, _ := filepath.Glob(filepath.Join(prefix, "share/*/*/*.[0-9][0-9]*")); len(left) > 0 {
			t.Errorf("it leaves %v", left)
		}
		before := inodes(t, prefix)
		if r := u.Do("sh", install, runtest.Binary(t), prefix); r.Status != 0 || strings.Count(r.Out, "is up to date") != programs || inodes(t, prefix) != before {
			t.Errorf("a second time: %d, from %s to %s\n%s%s", r.Status, before, inodes(t, prefix), r.Out, r.Err)
		}
		if r := u.Do("sh", install, "--remove", "bourn", prefix); r.Status != 0 {
			t.Errorf("it is not removed: %d\n%s%s", r.Status, r.Out, r.Err)
		}
		err = filepath.WalkDir(prefix, func(at string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				t.Errorf("%s is left", at)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// inodes are the files that the programs in a prefix are.
func inodes(t *testing.T, prefix string) string {
	t.Helper()
	var all []string
	for _, name := range []string{"bourn", "bournd"} {
		info, err := os.Stat(filepath.Join(prefix, "bin", name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s %v", name, info.Sys().(*syscall.Stat_t).Ino))
	}
	return strings.Join(all, ", ")
}

// TestControlPlaneScript is the last step of make up: it starts the control plane once,
// again when it was killed, and anew when its program was replaced.
func TestControlPlaneScript(t *testing.T) {
	storetest.Need(t)
	runtest.Accounts(t, func(t *testing.T, u *runtest.User) {
		u.Serves()
		bin := u.Mkdir(filepath.Join(u.Home, "built"))
		for _, program := range []string{runtest.Binary(t), runtest.Daemon(t)} {
			if r := u.Do("cp", program, bin); r.Status != 0 {
				t.Fatal(r.Err)
			}
		}
		script := script(t, u, "control-plane.sh")
		up := func(says string) int {
			t.Helper()
			r := u.Do("sh", append([]string{script, filepath.Join(bin, "bourn"), "--no-http"}, u.DatabaseUser()...)...)
			if r.Status != 0 || !strings.Contains(r.Out, says) {
				t.Fatalf("status %d\n%s%s", r.Status, r.Out, r.Err)
			}
			running, err := instance.Find(filepath.Join(u.Home, ".bourn"))
			if err != nil || running == nil {
				t.Fatalf("none runs: %v", err)
			}
			t.Cleanup(func() { running.Close() })
			return running.Pid
		}
		first := up("runs in the background")
		if again := up("runs already"); again != first {
			t.Errorf("process %d, and then %d", first, again)
		}
		if r := u.Do("kill", "-KILL", fmt.Sprint(first)); r.Status != 0 {
			t.Fatal(r.Err)
		}
		second := up("")
		if r := u.Do("sh", "-c", "cp $0 $0.new && mv $0.new $0", filepath.Join(bin, "bournd")); r.Status != 0 {
			t.Fatal(r.Err)
		}
		if third := up("is stopped"); third == second || second == first {
			t.Errorf("processes %d, %d, %d", first, second, third)
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

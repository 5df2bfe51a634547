package run_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

// A symlink that a run leaves in its write grant shows the next run nothing: neither as
// the command, nor in a directory of PATH, nor the package around what it leads to.
func TestPlantedProgramShowsNothing(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		other := u.Mkdir(filepath.Join(u.Home, "other/scripts"))
		u.Write(filepath.Join(u.Home, "other/package.json"), "{}")
		u.Write(filepath.Join(u.Home, "other/.env"), secret)
		script := u.Write(filepath.Join(other, "b.sh"), "#!/bin/sh\necho foreign\n")
		if err := os.Chmod(script, 0o755); err != nil {
			t.Fatal(err)
		}
		u.Env = append(u.Env, "PATH="+u.Path("bin")+":"+os.Getenv("PATH"))
		if r := u.Sh("mkdir -p bin && ln -s " + script + " bin/zz && ln -s " + script + " zz"); r.Status != 0 {
			t.Fatal(r)
		}
		for _, command := range [][]string{{"zz"}, {"./zz"}, {"sh", "-c", "cat " + u.Home + "/other/.env; zz"}} {
			r := u.Bourn(append([]string{"run", "-q", "--"}, command...)...)
			if strings.Contains(r.Out, "foreign") || strings.Contains(r.Out, secret) {
				t.Errorf("%v: %q", command, r.Out)
			}
		}
	})
}

// What was denied and renamed stays denied, whatever runs elsewhere with the same pattern.
func TestDenyIsNotForgottenElsewhere(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write("a/sub/key", secret)
		u.Write("b/x", "")
		at := u.Path("a/sub/key")
		run := func(dir, script string) runtest.Result {
			cmd := u.Command(t.Context(), runtest.Binary(t), "run", "-q", "--deny", at, "--", "sh", "-c", script)
			cmd.Dir = u.Path(dir)
			return u.Wait(cmd)
		}
		if r := run("a", "mv sub sub2"); r.Status != 0 {
			t.Fatal(r)
		}
		run("b", "true")
		noSecret(t, "after a run elsewhere", run("a", "cat sub2/key").Out)
	})
}

// $BOURN_HOME below a grant keeps its place, and so does the bourn program.
func TestBournInsideGrantKeepsItsPlace(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		home := u.Mkdir("cfg/deep/bourn")
		if err := os.Chmod(home, 0o700); err != nil {
			t.Fatal(err)
		}
		u.Env = append(u.Env, "BOURN_HOME="+home)
		data, err := os.ReadFile(runtest.Binary(t))
		if err != nil {
			t.Fatal(err)
		}
		program := u.Write("tools/bin/bourn", string(data))
		if err := os.Chmod(program, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, script := range []string{"mv cfg cfg2", "mv cfg/deep cfg/d2", "echo evil > tools/bin/bourn", "rm tools/bin/bourn", "mv tools/bin tools/b2", "mv tools t2"} {
			if r := u.Do(program, "run", "-q", "--", "sh", "-c", script); r.Status == 0 {
				t.Errorf("%s succeeded: %v", script, r)
			}
		}
	})
}

// A fifo, or something huge, in the place of .git holds up no start.
func TestOddGitDoesNotHang(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		for _, make := range []string{"mkfifo .git", "truncate -s 20G .git", "mkdir -p s && mkfifo s/.git"} {
			t.Run(make, func(t *testing.T) {
				u := runtest.NewUser(t, u.UID)
				if r := u.Do("sh", "-c", make); r.Status != 0 {
					t.Fatal(r)
				}
				if r := u.Sh("echo started"); r.Out != "started\n" {
					t.Errorf("%v", r)
				}
			})
		}
	})
}

// The report replaces what stands at its path: a symlink there is not followed.
func TestReportFollowsNoSymlink(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		victim := u.Write(filepath.Join(u.Home, "victim"), "mine")
		u.Sh("ln -s " + victim + " report.json")
		r := u.Bourn("run", "-q", "--report", "report.json", "--", "true")
		if r.Status != 0 || u.Read(victim) != "mine" || !strings.Contains(u.Read("report.json"), `"items"`) {
			t.Errorf("%v, victim %q", r, u.Read(victim))
		}
	})
}

// The command cannot take away what pid 1 needs to renew masks.
func TestPid1KeepsItsLimits(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		r := u.Sh("prlimit --pid 1 --nofile=0:0 && echo lowered; prlimit --pid $$ --nofile=64:64 && ulimit -n")
		if strings.Contains(r.Out, "lowered") || !strings.Contains(r.Out, "64") {
			t.Errorf("%v", r)
		}
	})
}

// A value that is most likely a mistake is refused before anything runs.
func TestForgottenValuesAreRefused(t *testing.T) {
	u := runtest.NewUser(t, os.Getuid())
	for _, args := range [][]string{
		{"--agent", ""}, {"--write", ""}, {"--read", ""}, {"--deny", ""}, {"--report", ""}, {"--env", "A=b"}, {"--deny", "--"},
	} {
		r := u.Bourn(append(append([]string{"run"}, args...), "--", "sh", "-c", "echo ran")...)
		if r.Status != 125 || strings.Contains(r.Out, "ran") || !strings.Contains(r.Err, "hint: ") {
			t.Errorf("%v: %v", args, r)
		}
	}
}

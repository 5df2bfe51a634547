package run_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"bourn/internal/run/runtest"
)

// The ways in which a run can end, each with processes that try to stay behind.
var endings = []struct {
	name string
	mode string // of the probe's daemon
	kill func(t *testing.T, l *live)
}{
	{"the command exits", "exit", func(*testing.T, *live) {}},
	{"SIGKILL of bourn", "wait", func(_ *testing.T, l *live) { syscall.Kill(l.cmd.Process.Pid, syscall.SIGKILL) }},
	{"SIGTERM of bourn", "wait", func(_ *testing.T, l *live) { syscall.Kill(l.cmd.Process.Pid, syscall.SIGTERM) }},
	{"SIGINT of bourn", "wait", func(_ *testing.T, l *live) { syscall.Kill(l.cmd.Process.Pid, syscall.SIGINT) }},
	{"SIGHUP of bourn", "wait", func(_ *testing.T, l *live) { syscall.Kill(l.cmd.Process.Pid, syscall.SIGHUP) }},
	{"SIGQUIT of bourn", "wait", func(_ *testing.T, l *live) { syscall.Kill(l.cmd.Process.Pid, syscall.SIGQUIT) }},
	{"SIGABRT of bourn", "wait", func(_ *testing.T, l *live) { syscall.Kill(l.cmd.Process.Pid, syscall.SIGABRT) }},
	{"SIGKILL of pid 1", "wait", func(t *testing.T, l *live) {
		if kids := children(l.cmd.Process.Pid); len(kids) != 1 {
			t.Errorf("bourn has children %v", kids)
		} else {
			syscall.Kill(kids[0], syscall.SIGKILL)
		}
	}},
	{"SIGSTOP and SIGKILL of bourn", "wait", func(_ *testing.T, l *live) {
		syscall.Kill(l.cmd.Process.Pid, syscall.SIGSTOP)
		syscall.Kill(l.cmd.Process.Pid, syscall.SIGKILL)
	}},
	{"SIGKILL of the command", "wait", func(t *testing.T, l *live) {
		for _, kid := range children(l.cmd.Process.Pid) {
			for _, pid := range children(kid) {
				command, _ := os.ReadFile("/proc/" + itoa(pid) + "/cmdline")
				if strings.Contains(string(command), "daemon") {
					syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
	}},
}

func TestNothingIsLeft(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		for _, e := range endings {
			t.Run(e.name, func(t *testing.T) {
				u := runtest.NewUser(t, u.UID)
				u.Write(".env", secret)
				u.Write("private/key", secret)
				home := filepath.Join(u.Home, ".bourn")
				agent(t, u, home, "stayer", "{write: ["+u.Work+"], read: ["+u.Home+"/lib], deny: ["+u.Path(".env")+", "+u.Path("private")+", "+u.Path("missing/later")+", "+u.Home+"/denied]}")
				u.Write(filepath.Join(u.Home, "lib/f"), "lib")
				mark := "bourn-mark-" + filepath.Base(u.Dir)
				u.Env = append(u.Env, "MARK="+mark)
				try(t, u, []string{"--agent", "stayer"}, "ids") // makes .bourn's lasting files
				before, mounts := tree(t, u.Work, u.Home), mountTable(t)
				tmp := names(t, "/tmp", "/var/tmp", "/dev/shm", "/run")
				l := startBourn(t, u, sealed(t, []string{"--agent", "stayer", "--env", "MARK"}, "daemon", e.mode)...)
				l.wait("left")
				if e.mode == "wait" && len(marked(t, mark)) < 4 {
					t.Errorf("the daemons do not run: %v", marked(t, mark))
				}
				all := descendants(l.cmd.Process.Pid)
				e.kill(t, l)
				l.end()
				eventually(t, "no process is left", func() bool { return len(marked(t, mark)) == 0 })
				// Pid 1 has another environment. Until it is gone its record counts as live.
				eventually(t, "bourn's own processes are gone", func() bool { return !slices.ContainsFunc(all, alive) })
				if mountTable(t) != mounts {
					t.Errorf("mounts changed")
				}
				// What a killed run left in the agent's home, the next command removes.
				if r := u.Bourn("plan"); r.Status != 0 {
					t.Errorf("plan: %d %q", r.Status, r.Err)
				}
				after := tree(t, u.Work, u.Home)
				for at := range after {
					if strings.Contains(at, "/runs/") || strings.HasSuffix(at, "denied") || strings.HasSuffix(at, "journal.jsonl") {
						delete(after, at)
					}
				}
				for at := range before {
					if strings.Contains(at, "/runs/") || strings.HasSuffix(at, "denied") || strings.HasSuffix(at, "journal.jsonl") {
						delete(before, at)
					}
				}
				unchanged(t, "work and home", lessTimes(before), lessTimes(after))
				for name := range names(t, "/tmp", "/var/tmp", "/dev/shm", "/run") {
					if !tmp[name] && strings.Contains(name, "bourn") && !strings.Contains(name, "/bourn-test-") && !strings.Contains(name, "/bourn-binary-") && !strings.Contains(name, "/bourn-probe-") && !strings.Contains(name, "/bourn-postgres-") {
						t.Errorf("%s is left", name)
					}
				}
			})
		}
	})
}

// lessTimes leaves out what a new record in a directory changes.
func lessTimes(tree map[string]string) map[string]string {
	for at := range tree {
		if strings.HasSuffix(at, "/runs") || strings.HasSuffix(at, "/stayer") {
			tree[at] = "directory"
		}
	}
	return tree
}

func names(t *testing.T, dirs ...string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			out[filepath.Join(dir, e.Name())] = true
		}
	}
	return out
}

// While a run goes on the host sees no stub of it in the project.
func TestNothingIsSeenOnTheHost(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write(".env", secret)
		before, mounts := tree(t, u.Work), mountTable(t)
		l := serve(t, u, "--deny", ".env", "--deny", "missing", "--deny", "a/b/missing", "--deny", "**/*.pem")
		unchanged(t, "the project while the run goes on", before, tree(t, u.Work))
		if mountTable(t) != mounts {
			t.Error("mounts are seen on the host")
		}
		l.finish()
		unchanged(t, "the project", before, tree(t, u.Work))
	})
}

// The mount points in an agent's home go with the last of its runs.
func TestMountPointsInAgentHome(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		home := filepath.Join(u.Home, ".bourn")
		lib := u.Write(filepath.Join(u.Home, "deep/lib/f"), "lib")
		file := u.Write(filepath.Join(u.Home, "conf.toml"), "conf")
		agent(t, u, home, "homely", "{write: ["+u.Work+"], read: ["+filepath.Dir(lib)+", "+file+"], deny: ["+u.Home+"/stub]}")
		own := filepath.Join(home, "agents/homely/home")
		start := func() *live { return serve(t, u, "--agent", "homely") }
		t.Run("at the end", func(t *testing.T) {
			l := start()
			if got := l.ask("read " + lib); got != "ok lib" {
				t.Errorf("the grant: %q", got)
			}
			l.finish()
			if left := names(t, own); len(left) > 0 {
				t.Errorf("left in the agent's home: %v", left)
			}
		})
		t.Run("with a second run", func(t *testing.T) {
			a, b := start(), start()
			a.finish()
			if got := b.ask("read " + lib); got != "ok lib" {
				t.Errorf("after the end of another run the grant is %q", got)
			}
			b.finish()
			if left := names(t, own); len(left) > 0 {
				t.Errorf("left in the agent's home: %v", left)
			}
		})
		t.Run("after SIGKILL", func(t *testing.T) {
			l := start()
			pids := descendants(l.cmd.Process.Pid)
			syscall.Kill(l.cmd.Process.Pid, syscall.SIGKILL)
			l.end()
			eventually(t, "the run has ended", func() bool {
				for _, pid := range pids {
					if alive(pid) {
						return false
					}
				}
				return true
			})
			u.Bourn("plan")
			if left := names(t, own); len(left) > 0 {
				t.Errorf("left in the agent's home: %v", left)
			}
		})
		t.Run("what the agent made stays", func(t *testing.T) {
			l := start()
			if got := l.ask("create " + u.Home + "/deep/mine"); got != "ok" {
				t.Errorf("cannot write in the agent's home: %s", got)
			}
			l.finish()
			if u.Read(filepath.Join(own, "deep/mine")) != "probe" {
				t.Error("what the agent wrote is gone")
			}
		})
	})
}

// Killed before the command runs: nothing stays either.
func TestKilledAtAnyMoment(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		u.Write(".env", secret)
		mark := "bourn-mark-" + filepath.Base(u.Dir)
		u.Env = append(u.Env, "MARK="+mark)
		mounts := mountTable(t)
		for range 15 {
			ctx, cancel := context.WithCancel(context.Background())
			cmd := u.Command(ctx, runtest.Binary(t), sealed(t, []string{"--deny", ".env", "--env", "MARK"}, "daemon", "wait")...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			// As soon as there is a child, which is before or while it seals.
			eventually(t, "a child is there", func() bool { return len(children(cmd.Process.Pid)) > 0 || !alive(cmd.Process.Pid) })
			cancel()
			_ = cmd.Wait()
			eventually(t, "no process is left", func() bool { return len(marked(t, mark)) == 0 })
		}
		if mountTable(t) != mounts {
			t.Error("mounts changed")
		}
	})
}

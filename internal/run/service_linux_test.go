package run_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bourn/internal/run/runtest"
)

// A background is an agent of one user that is started in the background.
type background struct {
	t    *testing.T
	u    *runtest.User
	name string
	mark string // in the environment of all that is its
}

// inBackground makes an agent whose command is a shell script. Whatever is left when the
// test ends is a failure, and is ended.
func inBackground(t *testing.T, uid int, service bool, script string) *background {
	t.Helper()
	u := runtest.NewUser(t, uid)
	b := &background{t: t, u: u, name: "keeper-test", mark: "bourn-mark-" + filepath.Base(u.Dir)}
	u.Env = append(u.Env, "MARK="+b.mark)
	agent(t, u, filepath.Join(u.Home, ".bourn"), b.name, "{}")
	b.profile(service, script)
	t.Cleanup(func() {
		u.Bourn("agent", "stop", b.name, "--all", "--grace", "0s")
		for pid, command := range marked(t, b.mark) {
			t.Errorf("process %d is left: %s", pid, command)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return b
}

func (b *background) dir() string { return filepath.Join(b.u.Home, ".bourn/agents", b.name) }

// profile writes the profile anew.
func (b *background) profile(service bool, script string) {
	b.t.Helper()
	b.u.Write(filepath.Join(b.dir(), "profile.yaml"), "version: 1\nagent: "+b.name+"\ncommand: [sh, -c, "+strconv.Quote(script)+"]\n"+
		"filesystem: {write: ["+b.u.Work+"]}\nenv: {pass: [MARK]}\nservice: "+strconv.FormatBool(service)+"\n")
}

// do runs bourn agent VERB and wants a status.
func (b *background) do(status int, verb string, args ...string) runtest.Result {
	b.t.Helper()
	r := b.u.Bourn(append([]string{"agent", verb, b.name}, args...)...)
	if r.Status != status {
		b.t.Fatalf("bourn agent %s %v: status %d, want %d; out %q, err %q", verb, args, r.Status, status, r.Out, r.Err)
	}
	return r
}

// A shown agent is what bourn agent show says.
type shown struct {
	State    string
	How      string
	Pid      int
	ByHand   int `json:"by_hand"`
	Restarts int
	Next     time.Time
	Ended    struct{ Status, Signal int }
}

func (b *background) activity() shown {
	b.t.Helper()
	var out struct{ Activity shown }
	if r := b.do(0, "show", "--json"); json.Unmarshal([]byte(r.Out), &out) != nil {
		b.t.Fatalf("agent show: %q", r.Out)
	}
	return out.Activity
}

// becomes waits until the agent is in a state.
func (b *background) becomes(state string, also func(shown) bool) (last shown) {
	b.t.Helper()
	eventually(b.t, "the agent is "+state, func() bool {
		last = b.activity()
		return last.State == state && (also == nil || also(last))
	})
	if b.t.Failed() {
		b.t.Fatalf("the agent is %+v; log %q", last, b.log())
	}
	return last
}

func (b *background) log() string {
	data, _ := os.ReadFile(filepath.Join(b.dir(), "logs/current"))
	return string(data)
}

// says waits until the log holds a text.
func (b *background) says(text string) {
	b.t.Helper()
	if !eventually(b.t, "the log says "+text, func() bool { return strings.Contains(b.log(), text) }) {
		b.t.Fatalf("log: %q", b.log())
	}
}

// nothing wants no process and no file of the service.
func (b *background) nothing() {
	b.t.Helper()
	if !eventually(b.t, "no process is left", func() bool { return len(marked(b.t, b.mark)) == 0 }) {
		b.t.Fatalf("left: %v", marked(b.t, b.mark))
	}
	if a := b.activity(); a.State != "stopped" {
		b.t.Errorf("the agent is %+v", a)
	}
	for at := range names(b.t, b.dir()) {
		if strings.Contains(at, "service.json") {
			b.t.Errorf("%s is left", at)
		}
	}
}

// launcherOf and pid1Of find the processes below a keeper.
func (b *background) launcherOf(keeper int) int {
	b.t.Helper()
	kids := children(keeper)
	if len(kids) != 1 {
		b.t.Fatalf("the keeper has children %v", kids)
	}
	return kids[0]
}

func (b *background) pid1Of(keeper int) int {
	b.t.Helper()
	kids := children(b.launcherOf(keeper))
	if len(kids) != 1 {
		b.t.Fatalf("bourn run has children %v", kids)
	}
	return kids[0]
}

// stays is a script that does not end, with a process that tries to stay behind.
const stays = `setsid sleep 600 & echo up; while :; do sleep 0.05; done`

// Whichever process is killed: without service nothing is left, and the next command finds
// the agent stopped; with it the agent is started again, unless the keeper itself was
// killed.
func TestBackgroundKilled(t *testing.T) {
	victims := []struct {
		name   string
		victim func(b *background, keeper int) int
	}{
		{"keeper", func(_ *background, keeper int) int { return keeper }},
		{"launcher", (*background).launcherOf},
		{"pid 1", (*background).pid1Of},
	}
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		for _, v := range victims {
			for _, service := range []bool{false, true} {
				t.Run(v.name+"/service "+strconv.FormatBool(service), func(t *testing.T) {
					b := inBackground(t, u.UID, service, stays)
					b.do(0, "start")
					b.says("\nup\n")
					keeper := b.activity().Pid
					all := descendants(keeper)
					if len(all) < 5 {
						t.Errorf("the processes are %v", all)
					}
					if err := syscall.Kill(v.victim(b, keeper), syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
					if v.name == "keeper" || !service {
						eventually(t, "all processes have ended", func() bool { return !slices.ContainsFunc(all, alive) })
						b.nothing()
						b.do(0, "start") // nothing stands in its way
						b.becomes("running", nil)
						b.do(0, "stop", "--grace", "0s")
						b.nothing()
						return
					}
					eventually(t, "the run has ended", func() bool { return !slices.ContainsFunc(all[1:], alive) })
					got := b.becomes("running", func(s shown) bool { return s.Restarts == 1 })
					if got.Pid != keeper {
						t.Errorf("the keeper is %d, not %d", got.Pid, keeper)
					}
					b.do(0, "stop", "--grace", "0s")
					b.nothing()
				})
			}
		}
	})
}

// The command gets TERM and ends in peace; one that takes no notice is killed when its
// grace is over, and what it left with it.
func TestBackgroundStop(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		t.Run("in peace", func(t *testing.T) {
			b := inBackground(t, u.UID, true, `trap 'echo bye; exit 0' TERM; `+stays)
			b.do(0, "start")
			b.says("\nup\n")
			if r := b.do(0, "stop"); strings.Contains(r.Out, "killed") {
				t.Errorf("stop: %q", r.Out)
			}
			if !strings.Contains(b.log(), "\nbye\n") {
				t.Errorf("log: %q", b.log())
			}
			b.nothing()
			b.do(0, "stop")
		})
		t.Run("killed", func(t *testing.T) {
			b := inBackground(t, u.UID, true, `trap '' TERM; `+stays)
			b.do(0, "start")
			b.says("\nup\n")
			if r := b.do(0, "stop", "--grace", "200ms"); !strings.Contains(r.Out, "was killed") {
				t.Errorf("stop: %q", r.Out)
			}
			b.nothing()
		})
		t.Run("a keeper that does not answer", func(t *testing.T) {
			b := inBackground(t, u.UID, true, stays)
			b.do(0, "start")
			b.says("\nup\n")
			if err := syscall.Kill(b.activity().Pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			b.do(0, "stop", "--grace", "0s")
			b.nothing()
		})
		t.Run("by hand", func(t *testing.T) {
			b := inBackground(t, u.UID, false, stays)
			hand := startBourn(t, b.u, "run", "-q", "--agent", b.name, "--", "sh", "-c", `trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done`)
			hand.wait("up")
			if r := b.do(0, "start"); !strings.Contains(r.Err, "runs by hand as well (1)") {
				t.Errorf("start: %q", r.Err)
			}
			if a := b.becomes("running", nil); a.How != "background" || a.ByHand != 1 {
				t.Errorf("the agent is %+v", a)
			}
			if r := b.do(0, "stop"); !strings.Contains(r.Err, "goes on") {
				t.Errorf("stop: %q", r.Err)
			}
			if a := b.activity(); a.State != "running" || a.How != "by hand" {
				t.Errorf("the agent is %+v", a)
			}
			b.do(0, "stop", "--all")
			ws := hand.end()
			for line := range hand.lines {
				hand.heard = append(hand.heard, line)
			}
			if ws.ExitStatus() != 7 || !slices.Contains(hand.heard, "bye") {
				t.Errorf("the run by hand ended with %v, said %q", ws, hand.heard)
			}
			b.nothing()
		})
		t.Run("by hand, killed", func(t *testing.T) {
			b := inBackground(t, u.UID, false, stays)
			hand := startBourn(t, b.u, "run", "-q", "--agent", b.name, "--", "sh", "-c", `trap '' TERM; echo up; while :; do sleep 0.05; done`)
			hand.wait("up")
			if r := b.do(0, "restart", "--grace", "100ms"); !strings.Contains(r.Err, "1 by hand); it did not end by itself and was killed") {
				t.Errorf("restart: %q", r.Err)
			}
			hand.end()
			if a := b.becomes("running", nil); a.How != "background" || a.ByHand != 0 {
				t.Errorf("the agent is %+v", a)
			}
		})
	})
}

// Of many starts at once one wins.
func TestBackgroundStartsAtOnce(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		b := inBackground(t, u.UID, true, stays)
		for range 3 {
			var wg sync.WaitGroup
			results := make([]runtest.Result, 6)
			for i := range results {
				wg.Go(func() { results[i] = b.u.Bourn("agent", "start", b.name) })
			}
			wg.Wait()
			won := 0
			for _, r := range results {
				switch {
				case r.Status == 0:
					won++
				case r.Status != 1 || !strings.Contains(r.Err, "in the background already"):
					t.Errorf("start: %d %q", r.Status, r.Err)
				}
			}
			if won != 1 {
				t.Errorf("%d starts won", won)
			}
			b.do(0, "stop", "--grace", "0s")
			b.nothing()
		}
	})
}

// A stop that comes while the next start is due leaves no run behind.
func TestBackgroundStopAtRestart(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		for _, before := range []time.Duration{20, 10, 5, 2, 0, -5, -15, -30} {
			b := inBackground(t, u.UID, true, `[ -e again ] && exec sleep 600; touch again; exit 3`)
			b.do(0, "start")
			got := b.becomes("restarting", func(s shown) bool { return !s.Next.IsZero() })
			if got.Ended.Status != 3 {
				t.Errorf("the agent is %+v", got)
			}
			eventually(t, "the start is due", func() bool { return time.Until(got.Next) < before*time.Millisecond })
			b.do(0, "stop", "--grace", "0s")
			if left := marked(t, b.mark); len(left) > 0 {
				t.Errorf("left when stop has returned: %v", left)
			}
			b.nothing()
		}
	})
}

// A profile that has become invalid is said, and tried again.
func TestBackgroundInvalidProfile(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		b := inBackground(t, u.UID, true, `exit 3`)
		b.do(0, "start")
		b.becomes("restarting", nil)
		b.u.Write(filepath.Join(b.dir(), "profile.yaml"), "version: 1\nagent: "+b.name+"\nfilesytem: {}\n")
		b.says(`profile.yaml:3:1: unknown key "filesytem"`)
		b.profile(true, stays)
		b.says("\nup\n")
		if a := b.becomes("running", nil); a.Restarts < 2 {
			t.Errorf("the agent is %+v", a)
		}
		// Without service it ends with its run.
		b.profile(false, stays)
		if err := syscall.Kill(b.launcherOf(b.activity().Pid), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		b.nothing()
	})
}

// A keeper ends with its agent, and does not take one of the same name for it.
func TestBackgroundDeleted(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		for name, script := range map[string]string{"running": stays, "waiting": "exit 3"} {
			t.Run(name, func(t *testing.T) {
				b := inBackground(t, u.UID, true, script)
				b.do(0, "start")
				if name == "waiting" {
					b.becomes("restarting", nil)
				}
				if r := b.do(1, "delete", "--yes"); !strings.Contains(r.Err, "bourn agent stop") {
					t.Errorf("delete: %q", r.Err)
				}
				if err := os.Rename(b.dir(), b.dir()+"-gone"); err != nil {
					t.Fatal(err)
				}
				agent(t, b.u, filepath.Join(b.u.Home, ".bourn"), b.name, "{}")
				b.nothing()
			})
		}
	})
}

// The agent goes on when the terminal closes in which it was started.
func TestBackgroundTerminalCloses(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		b := inBackground(t, u.UID, false, `[ -t 0 ] || [ -t 1 ] && echo terminal; readlink /proc/self/fd/0; `+stays)
		s := inTerminal(t, b.u, "sh", "-i")
		s.typed(runtest.Binary(t) + " agent start " + b.name + "; echo do''ne\n")
		s.expect("sealed by the kernel")
		s.expect("done")
		keeper := b.activity().Pid
		// The end of a session's leader hangs its terminal up.
		if err := s.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-s.done
		if !alive(keeper) || b.becomes("running", nil).Pid != keeper {
			t.Errorf("the keeper has ended: %q", b.log())
		}
		b.says("\nup\n")
		if log := b.log(); strings.Contains(log, "terminal") || !strings.Contains(log, "/dev/null") {
			t.Errorf("log: %q", log)
		}
		for _, pid := range descendants(keeper) {
			stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
			_, rest, _ := strings.Cut(string(stat), ") ")
			if f := strings.Fields(rest); len(f) > 4 && f[4] != "0" {
				t.Errorf("process %d has terminal %s", pid, f[4])
			}
		}
		b.do(0, "stop", "--grace", "0s")
		b.nothing()
	})
}

// A log is rotated while the run goes on, and is followed to its end.
func TestBackgroundLog(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		b := inBackground(t, u.UID, false, `printf 'first\033[2J\n'; until [ -e go ]; do sleep 0.02; done; seq 1 2000000; echo last`)
		b.do(0, "start")
		b.says("first\x1b[2J\n")
		follow := start(t, b.u.Command(context.Background(), runtest.Binary(t), "agent", "logs", b.name, "-f", "-n", "1000"))
		follow.wait("first\x1b[2J")
		s := inTerminal(t, b.u, runtest.Binary(t), "agent", "logs", b.name, "-n", "1")
		s.expect(`first\x1b[2J`)
		b.u.Write("go", "")
		next := 1
		for line := range follow.lines {
			if line == strconv.Itoa(next) {
				next++
			} else if n, err := strconv.Atoi(line); err == nil {
				t.Fatalf("%d was followed by %d", next-1, n)
			}
			follow.heard = append(follow.heard[:min(len(follow.heard), 10)], line)
		}
		if next != 2000001 {
			t.Errorf("the log ended with %d: %q", next-1, follow.heard)
		}
		b.nothing()
		for _, name := range []string{"logs/current", "logs/previous"} {
			info, err := os.Stat(filepath.Join(b.dir(), name))
			if err != nil || info.Mode().Perm() != 0o600 || info.Size() > 10<<20+64<<10 {
				t.Errorf("%s: %v, %v", name, info, err)
			}
		}
		if left := names(t, filepath.Join(b.dir(), "logs")); len(left) != 2 {
			t.Errorf("the logs are %v", left)
		}
		if r := b.do(0, "logs", "-n", "400000"); strings.Count(r.Out, "\n") != 400000 {
			t.Errorf("logs -n 400000 printed %d lines", strings.Count(r.Out, "\n"))
		}
	})
}

// A keeper that nobody has started does nothing, whatever its descriptors are.
func TestKeeperByHand(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		b := inBackground(t, u.UID, true, stays)
		before := tree(t, b.u.Home)
		for _, script := range []string{`exec "$0" agent keep ` + b.name, `echo go | exec "$0" agent keep ` + b.name + ` 3<&0 4>&1 | cat`,
			`"$0" agent keep ` + b.name + ` 3</dev/null 4>/dev/null`, `"$0" agent keep nobody 3<&- 4>&-`} {
			if r := b.u.Do("sh", "-c", script, runtest.Binary(t)); !strings.Contains(r.Err, "started by bourn agent start only") || r.Out != "" {
				t.Errorf("%s: %d %q %q", script, r.Status, r.Out, r.Err)
			}
		}
		unchanged(t, "the home", before, tree(t, b.u.Home))
	})
}

package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bourn"
	"bourn/internal/workspace"

	"golang.org/x/sys/unix"
)

// waist looks at the processes of the service: which of their threads lack no_new_privs.
func waist(t testing.TB) (free map[int]string, all int) {
	t.Helper()
	free = map[int]string{}
	for _, pid := range processesOf(t, serviceUID) {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		for _, at := range tasks {
			status, err := os.ReadFile(at)
			if err != nil {
				continue // it has ended
			}
			all++
			if statusLine(status, "NoNewPrivs", 0) != "1" {
				free[pid] = strings.ReplaceAll(string(line), "\x00", " ")
			}
		}
	}
	return free, all
}

// TestNarrowWaist: of everything that is the service's user one process can gain anything by
// executing a setuid program, and nobody can take that over or keep it alive.
func TestNarrowWaist(t *testing.T) {
	onSharedHost(t, func(t *testing.T) {
		p := serveShared(t)
		ann := p.caller(annUID, "builder", annWork)
		ann.does("", "files_write", args{"path": "note", "content": "x"})
		free, all := waist(t)
		if len(free) != 1 || all < 20 {
			t.Fatalf("%d threads of the service were seen; without no_new_privs are %v", all, free)
		}
		runner := 0
		for pid, line := range free {
			runner = pid
			if !strings.Contains(line, HelperRole) {
				t.Errorf("%q is without no_new_privs", line)
			}
		}
		for name, pid := range map[string]int{"the runner": runner, "the control plane": p.cmd.Process.Pid} {
			var st unix.Stat_t
			must(t, unix.Stat(fmt.Sprintf("/proc/%d/fd", pid), &st))
			if st.Uid != 0 {
				t.Errorf("%s is dumpable", name)
			}
			if out, err := as(serviceUID, "cat", fmt.Sprintf("/proc/%d/environ", pid)); err == nil {
				t.Errorf("the service's user sees into %s: %q", name, out)
			}
		}
		if out, err := as(annUID, worldHelper, "kill", bobName); err == nil || !strings.Contains(out+err.Error(), "ermission denied") {
			t.Errorf("ann executes the helper: %v %s", err, out)
		}
		// Killed, it takes everybody along: the launchers by their sockets, the runner with its parent.
		go ann.call("shell_exec", shell("exec sleep 98765"))
		until(t, 20*time.Second, "ann's command runs", func() bool { return running(t, annUID, "98765") != 0 })
		must(t, p.cmd.Process.Kill())
		until(t, 10*time.Second, "nothing of ann's runs, nor the runner", func() bool {
			return len(processesOf(t, annUID)) == 0 && !slices.Contains(processesOf(t, serviceUID), runner)
		})
	})
}

// TestSharedHostHung: a launcher that does not end is ended through the helper, also when the
// control plane ends.
func TestSharedHostHung(t *testing.T) {
	onSharedHost(t, func(t *testing.T) {
		p := serveShared(t)
		ann, bob := p.caller(annUID, "builder", annWork), p.caller(bobUID, "builder", bobWork)
		ann.does("", "files_write", args{"path": "note", "content": "x"})
		bob.does("", "files_write", args{"path": "note", "content": "x"})
		for _, pid := range processesOf(t, annUID) {
			must(t, syscall.Kill(pid, syscall.SIGSTOP))
		}
		must(t, p.stop())
		if left := append(processesOf(t, annUID), processesOf(t, bobUID)...); len(left) > 0 {
			t.Errorf("processes of people are left: %v", left)
		}
		if !strings.Contains(p.said.String(), "a person's actor does not end") || strings.Contains(p.said.String(), "cannot be ended") {
			t.Errorf("the log does not say it:\n%s", p.said)
		}
	})
}

// TestRunnerGone: what executes the helper and is killed is said, and nothing waits for it.
func TestRunnerGone(t *testing.T) {
	onSharedHost(t, func(t *testing.T) {
		w := newPeopleWork(t)
		a := w.start(worldPeople().People[0], "")
		for _, pid := range processesOf(t, 0) {
			if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(line), HelperRole) {
				must(t, syscall.Kill(pid, syscall.SIGKILL))
			}
		}
		<-w.runner.ended
		end, _ := a.wait(w.people)
		if end.Error == "" {
			t.Errorf("the actor's end is told as %+v", end)
		}
		if _, err := w.people.start(t.Context(), worldPeople().People[0], workspace.Spec{}); bourn.CodeOf(err) != bourn.CodeUnavailable {
			t.Errorf("an actor starts: %v", err)
		}
		must(t, a.client.Close())
	})
}

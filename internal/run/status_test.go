package run_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"bourn/internal/run/runtest"
)

func TestExitStatus(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		p := probe(t)
		script := u.Write("plain-script", "echo script $1; exit 5\n")
		if err := os.Chmod(script, 0o755); err != nil {
			t.Fatal(err)
		}
		u.Write("not-executable", "x")
		u.Mkdir("directory")
		for _, c := range []struct {
			name   string
			args   []string
			status int
			signal syscall.Signal
			out    string
		}{
			{"0", []string{"true"}, 0, 0, ""},
			{"7", []string{"sh", "-c", "exit 7"}, 7, 0, ""},
			{"255", []string{p, "status", "255"}, 255, 0, ""},
			{"SIGTERM", []string{"sh", "-c", "ulimit -c 0; kill -TERM $$"}, -1, syscall.SIGTERM, ""},
			{"SIGSEGV", []string{"sh", "-c", "ulimit -c 0; kill -SEGV $$"}, -1, syscall.SIGSEGV, ""},
			{"SIGKILL", []string{"sh", "-c", "ulimit -c 0; kill -KILL $$"}, -1, syscall.SIGKILL, ""},
			{"SIGPIPE", []string{"sh", "-c", "ulimit -c 0; kill -PIPE $$"}, -1, syscall.SIGPIPE, ""},
			{"SIGABRT", []string{"sh", "-c", "ulimit -c 0; kill -ABRT $$"}, -1, syscall.SIGABRT, ""},
			{"SIGHUP", []string{"sh", "-c", "ulimit -c 0; kill -HUP $$"}, -1, syscall.SIGHUP, ""},
			{"SIGUSR1", []string{"sh", "-c", "ulimit -c 0; kill -USR1 $$"}, -1, syscall.SIGUSR1, ""},
			{"SIGQUIT", []string{"sh", "-c", "ulimit -c 0; kill -QUIT $$"}, -1, syscall.SIGQUIT, ""},
			{"a real-time signal", []string{"sh", "-c", "ulimit -c 0; kill -40 $$"}, -1, syscall.Signal(40), ""},
			{"not found", []string{"no-such-command-here"}, 127, 0, ""},
			{"no such path", []string{"./no/such"}, 127, 0, ""},
			{"not executable", []string{"./not-executable"}, 126, 0, ""},
			{"a directory", []string{"./directory"}, 126, 0, ""},
			{"a script without #!", []string{"./plain-script", "arg"}, 5, 0, "script arg\n"},
			{"120 kB argument", []string{p, "argv", strings.Repeat("x", 120000), "y"}, 0, 0, "2 120001\n"},
			{"2000 arguments", append([]string{p, "argv"}, strings.Fields(strings.Repeat("abcdefgh ", 2000))...), 0, 0, "2000 16000\n"},
			{"flags after the command", []string{"echo", "--deny", "-q", "--"}, 0, 0, "--deny -q --\n"},
		} {
			t.Run(c.name, func(t *testing.T) {
				r := u.Bourn(append([]string{"run", "-q", "--read", p, "--"}, c.args...)...)
				if r.Status != c.status || r.Signal != c.signal || r.Out != c.out {
					t.Errorf("status %d signal %v out %q err %q, want %d %v %q", r.Status, r.Signal, r.Out, r.Err, c.status, c.signal, c.out)
				}
			})
		}
		t.Run("bourn's own failures", func(t *testing.T) {
			for _, args := range [][]string{{"run", "-q"}, {"run", "--no-such-flag", "--", "true"}, {"run", "--read", "/proc", "--", "true"}, {"run", "--agent", "nobody", "--", "true"}, {"run", "--deny", "[", "--", "true"}} {
				if r := u.Bourn(args...); r.Status != 125 && r.Status != 2 || r.Err == "" {
					t.Errorf("%v: status %d, err %q", args, r.Status, r.Err)
				}
			}
			if r := u.Bourn("run", "--agent", "nobody", "--", "true"); r.Status != 125 {
				t.Errorf("status %d", r.Status)
			}
		})
		t.Run("the signals of the command", func(t *testing.T) {
			in, out := u.Bourn("run", "-q", "--read", p, "--", p, "signals"), u.Do(p, "signals")
			if in.Out != out.Out {
				t.Errorf("inside %q, outside %q", in.Out, out.Out)
			}
		})
	})
}

// A signal to bourn reaches the program's handler, and its status is kept.
func TestSignalsReachTheProgram(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM} {
			t.Run(sig.String(), func(t *testing.T) {
				l := startBourn(t, u, sealed(t, nil, "catch", itoa(int(sig)))...)
				l.wait("ready")
				if err := syscall.Kill(l.cmd.Process.Pid, sig); err != nil {
					t.Fatal(err)
				}
				l.wait("caught")
				if ws := l.end(); ws.ExitStatus() != 42 {
					t.Errorf("status %d, signal %v, err %q", ws.ExitStatus(), ws.Signal(), l.err.String())
				}
			})
		}
		t.Run("twice", func(t *testing.T) {
			l := startBourn(t, u, sealed(t, nil, "catch", "15")...)
			l.wait("ready")
			for range 3 {
				syscall.Kill(l.cmd.Process.Pid, syscall.SIGINT)
				l.wait("caught SIGINT")
			}
			syscall.Kill(l.cmd.Process.Pid, syscall.SIGTERM)
			if ws := l.end(); ws.ExitStatus() != 42 {
				t.Errorf("status %d", ws.ExitStatus())
			}
		})
		t.Run("without a handler", func(t *testing.T) {
			l := startBourn(t, u, sealed(t, nil, "hold", "ids")...)
			l.wait("held")
			syscall.Kill(l.cmd.Process.Pid, syscall.SIGTERM)
			if ws := l.end(); !ws.Signaled() || ws.Signal() != syscall.SIGTERM {
				t.Errorf("signaled %v, status %d", ws.Signaled(), ws.ExitStatus())
			}
		})
	})
}

func TestStandardStreams(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		b := runtest.Binary(t)
		big := u.Write("big", strings.Repeat("0123456789abcdef", 1<<16))
		for _, c := range []struct{ name, script, out string }{
			{"a pipe as input", "echo hello | $B run -q -- cat", "hello\n"},
			{"a file as input", "$B run -q -- wc -c < big", "1048576\n"},
			{"a big pipe", "cat big | $B run -q -- cat | wc -c", "1048576\n"},
			{"/dev/null as input", "$B run -q -- wc -c </dev/null", "0\n"},
			{"no input", "$B run -q -- sh -c 'echo in; wc -c <&0 2>/dev/null || echo closed' <&- | head -1", "in\n"},
			{"no output", "$B run -q -- sh -c 'exit 4' >&- 2>&-; echo $?", "4\n"},
			{"nothing open", "$B run -q -- sh -c 'exit 4' <&- >&- 2>&-; echo $?", "4\n"},
			{"a closed pipe as output", "set -o pipefail; $B run -q -- yes 2>/dev/null | head -n 1; echo ${PIPESTATUS[0]}", "y\n141\n"},
			{"outside the same", "yes | head -n 1; echo ${PIPESTATUS[0]}", "y\n141\n"},
			{"errors apart", "$B run -q -- sh -c 'echo out; echo err >&2' 2>/dev/null", "out\n"},
			{"a file as output", "$B run -q -- echo hello > ../out; cat ../out", "hello\n"},
			{"nothing but the command's output", "$B run -q -- echo hello 2>&1", "hello\n"},
		} {
			t.Run(c.name, func(t *testing.T) {
				u.Env = append(u.Env, "B="+b)
				u.Write(filepath.Join(u.Dir, "out"), "")
				r := u.Do("bash", "-c", c.script)
				if strings.TrimLeft(r.Out, " ") != c.out {
					t.Errorf("out %q err %q status %d, want %q", r.Out, r.Err, r.Status, c.out)
				}
			})
		}
		_ = big
	})
}

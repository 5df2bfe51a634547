package run_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bourn/internal/run/runtest"

	"github.com/creack/pty"
)

// A screen is a person at a terminal: they see everything that appears and type.
type screen struct {
	t    *testing.T
	cmd  *exec.Cmd
	ptmx *os.File

	mu   sync.Mutex
	all  []byte
	from int // what was seen up to here has been expected
	news chan struct{}
	done chan struct{}
}

// inTerminal starts a command as the session leader of a new terminal.
func inTerminal(t *testing.T, u *runtest.User, name string, args ...string) *screen {
	t.Helper()
	return show(t, u.Command(context.Background(), name, args...))
}

func show(t *testing.T, cmd *exec.Cmd) *screen {
	t.Helper()
	cmd.Env = append(cmd.Env, "TERM=dumb", "PS1=$ ", "BASH_SILENCE_DEPRECATION_WARNING=1")
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	ptmx, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 && cmd.SysProcAttr.Credential != nil {
		if err := tty.Chown(int(cmd.SysProcAttr.Credential.Uid), -1); err != nil {
			t.Fatal(err)
		}
	}
	if err := pty.Setsize(ptmx, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty, cmd.SysProcAttr.Ctty = true, true, 0
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	s := &screen{t: t, cmd: cmd, ptmx: ptmx, news: make(chan struct{}, 1), done: make(chan struct{})}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := ptmx.Read(buf)
			s.mu.Lock()
			s.all = append(s.all, buf[:n]...)
			s.mu.Unlock()
			select {
			case s.news <- struct{}{}:
			default:
			}
			if err != nil {
				break
			}
		}
		_ = cmd.Wait()
		close(s.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		ptmx.Close()
		<-s.done
	})
	return s
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.all)
}

func (s *screen) typed(text string) {
	s.t.Helper()
	if _, err := s.ptmx.WriteString(text); err != nil {
		s.t.Fatalf("cannot type: %v", err)
	}
}

// expect waits until text appears after what was expected before.
func (s *screen) expect(text string) {
	s.t.Helper()
	after := time.After(patience)
	for {
		s.mu.Lock()
		i := strings.Index(string(s.all[s.from:]), text)
		if i >= 0 {
			s.from += i + len(text)
		}
		s.mu.Unlock()
		if i >= 0 {
			return
		}
		select {
		case <-s.news:
		case <-s.done:
			if !strings.Contains(s.text()[s.from:], text) {
				s.t.Fatalf("%v ended without showing %q; the screen: %q", s.cmd.Args, text, s.text())
			}
		case <-after:
			s.t.Fatalf("%q did not appear; the screen: %q", text, s.text())
		}
	}
}

// hangUp takes the terminal away. The reader holds it until it has read once more.
func (s *screen) hangUp() {
	s.t.Helper()
	name, err := os.Readlink("/proc/" + itoa(s.cmd.Process.Pid) + "/fd/0")
	if err != nil {
		s.t.Fatal(err)
	}
	tty, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = s.ptmx.Close()
	_, _ = tty.WriteString("x")
	_ = tty.Close()
}

// end waits for the session leader's end.
func (s *screen) end() syscall.WaitStatus {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(patience):
		s.t.Fatalf("%v did not end; the screen: %q", s.cmd.Args, s.text())
	}
	return s.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// shell starts an interactive bash in a terminal, as a person's shell outside.
func shell(t *testing.T, u *runtest.User) *screen {
	t.Helper()
	s := inTerminal(t, u, "bash", "--norc", "--noprofile", "-i")
	s.typed("PS1='READY> '; unset HISTFILE; bind 'set enable-bracketed-paste off' 2>/dev/null; b=" + runtest.Binary(t) + "; p=" + probe(t) + "\n")
	s.expect("READY> ")
	return s
}

// Nothing that stays behind reads what the person types next.
func TestTerminalThief(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		s := shell(t, u)
		loot := u.Path("loot")
		s.typed("$b run -q --read $p -- $p thief " + loot + " leave; echo over-$?\n")
		s.expect("over-0")
		s.expect("READY> ")
		for range 5 {
			s.typed("echo typed-'for-me' only\n")
			s.expect("typed-for-me only")
			s.expect("READY> ")
		}
		if data, err := os.ReadFile(loot); err == nil && len(data) > 0 {
			t.Errorf("a process left behind read %q", data)
		}
		if left := marked(t, loot); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
		// While a run is stopped, nothing in it reads either.
		s.typed("$b run -q --read $p -- sh -c '$0 thief " + loot + " leave; exec cat >/dev/null' $p\n")
		s.expect("thief started")
		s.typed("\x1a")
		s.expect("Stopped")
		for range 5 {
			s.typed("echo typed-'for-me' again\n")
			s.expect("typed-for-me again")
			s.expect("READY> ")
		}
		if data, err := os.ReadFile(loot); err == nil && strings.Contains(string(data), "again") {
			t.Errorf("a stopped run read %q", data)
		}
		s.typed("kill -9 %1\n")
		eventually(t, "the stopped run is gone", func() bool {
			// That it was stopped and that it was killed can reach bash as one SIGCHLD, of which
			// it takes in the first alone: another child's end makes it look again.
			s.typed("/bin/true\n")
			return strings.Contains(s.text(), "Killed")
		})
		s.typed("exit\n")
		s.end()
	})
}

func TestCtrlC(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		s := inTerminal(t, u, runtest.Binary(t), sealed(t, nil, "catch", "2")...)
		s.expect("ready")
		s.typed("\x03")
		s.expect("caught SIGINT")
		if ws := s.end(); ws.ExitStatus() != 42 {
			t.Errorf("status %v", ws)
		}
		// A program without a handler dies by it, and so does bourn.
		s = inTerminal(t, u, runtest.Binary(t), sealed(t, nil, "hold", "ids")...)
		s.expect("held")
		s.typed("\x03")
		if ws := s.end(); !ws.Signaled() || ws.Signal() != syscall.SIGINT {
			t.Errorf("after Ctrl-C: signaled %v, signal %v, status %d; the screen: %q", ws.Signaled(), ws.Signal(), ws.ExitStatus(), s.text())
		}
	})
}

func TestResize(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		s := inTerminal(t, u, runtest.Binary(t), "run", "-q", "--read", probe(t), "--", "sh", "-c", `stty size; trap : INT; "$0" catch 2; stty size; "$0" size`, probe(t))
		s.expect("24 80")
		s.expect("ready")
		if err := pty.Setsize(s.ptmx, &pty.Winsize{Rows: 41, Cols: 133}); err != nil {
			t.Fatal(err)
		}
		s.expect("caught SIGWINCH")
		s.typed("\x03")
		s.expect("caught SIGINT")
		s.expect("41 133")
		s.expect("41 133")
	})
}

// An interactive shell inside has job control.
func TestJobControlInside(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		s := inTerminal(t, u, runtest.Binary(t), "run", "-q", "--read", probe(t), "--", "bash", "--norc", "--noprofile", "-i")
		s.typed("PS1='IN> '; bind 'set enable-bracketed-paste off' 2>/dev/null; unset HISTFILE\n")
		s.expect("IN> ")
		s.typed(probe(t) + " catch 2\n")
		s.expect("ready")
		s.typed("\x1a")
		s.expect("Stopped")
		s.expect("IN> ")
		s.typed("jobs\n")
		s.expect("Stopped")
		s.expect("catch 2")
		s.typed("fg\n")
		s.expect("caught SIGCONT")
		s.typed("\x03")
		s.expect("caught SIGINT")
		s.expect("IN> ")
		s.typed("echo status-$?\n")
		s.expect("status-42")
		s.typed("sleep 1000 & echo bg-$!\n")
		s.expect("bg-")
		s.typed("kill %1; wait %1; echo waited-$?\n")
		s.expect("waited-143")
		s.typed("tty; exit 9\n")
		s.expect("/dev/")
		if ws := s.end(); ws.ExitStatus() != 9 {
			t.Errorf("status %d", ws.ExitStatus())
		}
		if strings.Contains(s.text(), "no job control") || strings.Contains(s.text(), "cannot set terminal process group") {
			t.Errorf("the shell has no job control: %q", s.text())
		}
	})
}

// ^Z stops bourn itself, as the person's shell sees, and fg goes on.
func TestStopAndContinue(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		s := shell(t, u)
		s.typed("stty -a | tr ';' '\\n' | md5sum; $b run -q --read $p -- $p catch 2\n")
		s.expect("ready")
		for range 3 {
			s.typed("\x1a")
			s.expect("Stopped")
			s.expect("READY> ")
			s.typed("jobs -l; echo 'still 'mine\n")
			s.expect("Stopped")
			s.expect("still mine")
			s.expect("READY> ")
			s.typed("fg\n")
			s.expect("caught SIGCONT")
		}
		s.typed("\x03")
		s.expect("caught SIGINT")
		s.expect("READY> ")
		s.typed("echo status-$?\n")
		s.expect("status-42")
		// In the background and back.
		s.typed("$b run -q --read $p -- $p catch 2 &\n")
		s.expect("ready")
		s.typed("echo 'in front'\n")
		s.expect("in front")
		s.expect("READY> ")
		s.typed("fg\n")
		s.expect("catch 2")
		// The shell prints the command before it hands the terminal over: what is typed in
		// between interrupts the shell, without bourn as well.
		before := strings.Count(s.text(), "caught SIGINT")
		eventually(t, "the command in front is interrupted", func() bool {
			s.typed("\x03")
			return strings.Count(s.text(), "caught SIGINT") > before
		})
		s.expect("caught SIGINT")
		s.expect("READY> ")
		// The modes are as they were.
		s.typed("stty -a | grep -c -- '-icanon'; echo modes-'seen'\n")
		s.expect("0")
		s.expect("modes-seen")
		s.typed("exit\n")
		s.end()
	})
}

// In a pipeline the terminal belongs to who reads it.
func TestPipelineInTerminal(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		s := shell(t, u)
		s.typed("$b run -q -- sh -c 'echo one; echo two >&2; exit 3' | cat; echo st-${PIPESTATUS[0]}\n")
		s.expect("st-3")
		s.typed("echo hello | $b run -q -- tr a-z A-Z; echo st-$?\n")
		s.expect("HELLO")
		s.expect("st-0")
		s.typed("$b run -q -- yes | head -n1; echo st-${PIPESTATUS[0]}\n")
		s.expect("st-141")
		s.typed("exit\n")
		s.end()
	})
}

// The terminal goes away: so does everything.
func TestHangup(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		mark := "bourn-mark-" + filepath.Base(u.Dir)
		u.Env = append(u.Env, "MARK="+mark)
		s := inTerminal(t, u, runtest.Binary(t), sealed(t, []string{"--env", "MARK"}, "daemon", "wait")...)
		s.expect("left")
		s.hangUp()
		if !eventually(t, "nothing is left after the terminal went away", func() bool { return len(marked(t, mark)) == 0 }) {
			t.Errorf("left: %v", marked(t, mark))
		}
	})
}

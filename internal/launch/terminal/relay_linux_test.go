package terminal

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// The processes of a test. Each arrow is a socket with a line for each request and for
// each reply; the person's terminal is the controlling terminal of shell and host.
//
//	test (the person) ──▶ shell, session leader ── forks ──▶ host, a job with the Relay
//	       │                                                  ▲        │ forks
//	       └──────────────────────────────────────────────────┘        ▼
//	                                                     agent, leader on the run's pty
const roleVariable = "BOURN_TERMINAL_TEST_ROLE"

const (
	patience  = 3 * time.Minute // before a test fails for want of an event
	floodSize = 50 << 20
	wordsSize = 60 << 10 // more than two ptys hold
	noteSize  = 6 << 10  // less than one holds
)

var roles = map[string]func() error{
	"shell":       shell,
	"host":        host,
	"agent-echo":  echoAgent,
	"agent-modes": modesAgent,
	"agent-size":  sizeAgent,
	"agent-int":   interruptAgent,
	"agent-deaf":  deafAgent,
	"agent-flood": func() error { return flood(floodSize) },
	"agent-words": func() error { return flood(wordsSize) },
	"agent-note":  func() error { return flood(noteSize) },
	"agent-spout": spoutAgent,
}

func TestMain(m *testing.M) {
	role, ok := os.LookupEnv(roleVariable)
	if !ok {
		os.Exit(m.Run())
	}
	if err := roles[role](); err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		os.Exit(1)
	}
}

func roleCommand(role string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	// A race ends the process, and with it the test, whose wire it closes.
	cmd.Env = append(os.Environ(), roleVariable+"="+role, "GORACE=halt_on_error=1 atexit_sleep_ms=0")
	return cmd
}

// A wire carries lines between two processes.
type wire struct {
	io.Writer
	lines *bufio.Scanner
}

func newWire(f *os.File) (*wire, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return &wire{c, bufio.NewScanner(c)}, nil
}

// serve answers each line with what answer returns, until the other end closes.
func (w *wire) serve(answer func(line string) (string, error)) error {
	for w.lines.Scan() {
		reply, err := answer(w.lines.Text())
		if err != nil {
			reply = "error: " + err.Error()
		}
		if _, err := fmt.Fprintln(w, reply); err != nil {
			return err
		}
	}
	return w.lines.Err()
}

// A startRequest is the line that starts a host.
type startRequest struct {
	Agent      string
	Background bool
	Lazy       bool
}

func shell() error {
	w, err := newWire(os.NewFile(3, "wire"))
	if err != nil {
		return err
	}
	hostWire := os.NewFile(4, "host's wire")
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP)
	stdin := bufio.NewReader(os.Stdin)
	var job *exec.Cmd
	return w.serve(func(line string) (string, error) {
		switch line {
		case "mine":
			return "ok", setForeground(unix.Getpgrp())
		case "give":
			return "ok", setForeground(job.Process.Pid)
		case "stop":
			return "ok", unix.Kill(-job.Process.Pid, unix.SIGSTOP)
		case "continue":
			return "ok", unix.Kill(-job.Process.Pid, unix.SIGCONT)
		case "stopped": // waits until it is
			var status unix.WaitStatus
			_, err := unix.Wait4(job.Process.Pid, &status, unix.WUNTRACED, nil)
			return fmt.Sprint(status.Stopped()), err
		case "changed": // does not wait
			var status unix.WaitStatus
			pid, err := unix.Wait4(job.Process.Pid, &status, unix.WUNTRACED|unix.WNOHANG, nil)
			return fmt.Sprint(pid != 0), err
		case "read":
			text, err := stdin.ReadString('\n')
			return strings.TrimRight(text, "\n"), err
		}
		var request startRequest
		if err := json.Unmarshal([]byte(line), &request); err != nil {
			return "", err
		}
		job = roleCommand("host")
		job.Args = []string{"host", line}
		job.Stdin, job.Stdout, job.Stderr = os.Stdin, os.Stdout, os.Stderr
		job.ExtraFiles = []*os.File{hostWire}
		job.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Foreground: !request.Background, Ctty: 0}
		err := job.Start()
		hostWire.Close()
		return "ok", err
	})
}

// setForeground is tcsetpgrp(3) as shells call it: with SIGTTOU blocked, not ignored,
// since jobs would inherit that.
func setForeground(group int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	block := unix.Sigset_t{Val: [16]uint64{1 << (unix.SIGTTOU - 1)}}
	var old unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, &old); err != nil {
		return err
	}
	return errors.Join(unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, group), unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil))
}

func host() error {
	w, err := newWire(os.NewFile(3, "wire"))
	if err != nil {
		return err
	}
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP)
	var request startRequest
	if err := json.Unmarshal([]byte(os.Args[1]), &request); err != nil {
		return err
	}
	master, slave, err := pty.Open()
	if err != nil {
		return err
	}
	relay, err := Start(Config{Outer: os.Stdin, Output: os.Stdout, Master: master, Lazy: request.Lazy})
	if err != nil {
		return err
	}
	agent := roleCommand("agent-" + request.Agent)
	agent.Stdin, agent.Stdout, agent.Stderr = slave, slave, slave
	agent.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: unix.SIGKILL}
	runtime.LockOSThread() // on which the parent-death signal depends
	if err := agent.Start(); err != nil {
		return err
	}
	slave.Close()
	requests := map[string]func() error{
		"ping":    func() error { return nil },
		"suspend": relay.Suspend,
		"resume":  relay.Resume,
		"resize":  relay.Resize,
		"take":    relay.Take,
		"discard": relay.Discard,
		"close":   relay.Close,
		"signal":  func() error { return agent.Process.Signal(unix.SIGUSR1) },
		"wait":    agent.Wait,
		"hangup":  func() error { <-relay.Hangup(); return nil },
		"kill": func() error {
			err := agent.Process.Kill()
			agent.Wait() // its status says that it was killed
			return err
		},
	}
	return w.serve(func(line string) (string, error) { return "ok", requests[line]() })
}

func echoAgent() error {
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Printf("got <%s>\n", lines.Text())
	}
	return nil
}

func modesAgent() error {
	modes, err := readModes(0)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(modes)
}

func sizeAgent() error {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, unix.SIGWINCH)
	for {
		rows, columns, err := pty.Getsize(os.Stdin)
		if err != nil {
			return err
		}
		fmt.Printf("size %dx%d\n", rows, columns)
		<-changes
	}
}

func interruptAgent() error {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, unix.SIGINT)
	fmt.Println("ready")
	<-interrupts
	fmt.Println("interrupted")
	return nil
}

// deafAgent never reads its input; it says how much of that there is when asked.
func deafAgent() error {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGUSR1)
	if err := makeRaw(); err != nil {
		return err
	}
	fmt.Print("ready")
	for range asked {
		n, err := unix.IoctlGetInt(0, unix.TIOCINQ)
		if err != nil {
			return err
		}
		fmt.Printf("<unread %d>", n)
	}
	return nil
}

// spoutAgent prints for ever.
func spoutAgent() error {
	lines := bytes.Repeat([]byte("spout\n"), 10000)
	for {
		if _, err := os.Stdout.Write(lines); err != nil {
			return err
		}
	}
}

func flood(size int64) error {
	if err := makeRaw(); err != nil {
		return err
	}
	_, err := io.CopyN(os.Stdout, noise(), size)
	return err
}

func noise() io.Reader { return rand.NewChaCha8([32]byte{}) }

func makeRaw() error {
	modes, err := readModes(0)
	if err != nil {
		return err
	}
	raw := rawModes(*modes)
	return setModes(0, &raw)
}

// A person sits at a terminal that shell and host run on.
type person struct {
	*testing.T
	ptmx, tty   *os.File
	shell, host *wire

	mu      sync.Mutex
	screen  []byte
	changed *sync.Cond
	late    bool // patience is over
	ended   bool // nothing more will appear
}

// sit gives the person a terminal with uncommon modes and a shell on it.
func sit(t *testing.T) *person {
	t.Helper()
	p := &person{T: t}
	p.changed = sync.NewCond(&p.mu)
	ptmx, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer ptmx.Close()
	p.tty = tty
	// Non-blocking, which pty.Open's is not, so that closing it ends a Read.
	fd, err := duplicate(ptmx)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	p.ptmx = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { p.tty.Close(); p.ptmx.Close() })
	modes := p.modes()
	modes.Iflag |= unix.IUTF8
	modes.Iflag &^= unix.IXON
	modes.Lflag &^= unix.ECHOE
	modes.Cc[unix.VQUIT] = 'Q' - '@'
	p.setModes(modes)
	if err := pty.Setsize(p.tty, &pty.Winsize{Rows: 33, Cols: 101}); err != nil {
		t.Fatal(err)
	}
	var theirs [2]*os.File
	for i, w := range []**wire{&p.shell, &p.host} {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		theirs[i] = os.NewFile(uintptr(fds[1]), "theirs")
		if *w, err = newWire(os.NewFile(uintptr(fds[0]), "ours")); err != nil {
			t.Fatal(err)
		}
		c := (*w).Writer.(net.Conn)
		c.SetDeadline(time.Now().Add(patience))
		t.Cleanup(func() { c.Close() })
	}
	sh := roleCommand("shell")
	sh.Stdin, sh.Stdout, sh.Stderr = p.tty, p.tty, p.tty
	sh.ExtraFiles = theirs[:]
	sh.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := sh.Start(); err != nil {
		t.Fatal(err)
	}
	theirs[0].Close()
	theirs[1].Close()
	// The job may be stopped, and a hang-up alone does not end it.
	t.Cleanup(func() { sh.Process.Kill(); sh.Wait() })
	return p
}

// look begins to read the terminal.
func (p *person) look() {
	read := make(chan struct{})
	// Runs before the cleanup of sit: closing the person's side ends the reading.
	p.Cleanup(func() { p.ptmx.Close(); <-read })
	guard := time.AfterFunc(patience, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.late = true
		p.changed.Broadcast()
	})
	p.Cleanup(func() { guard.Stop() })
	go func() {
		defer close(read)
		var buf [64 << 10]byte
		for {
			n, err := p.ptmx.Read(buf[:])
			p.mu.Lock()
			p.screen = append(p.screen, buf[:n]...)
			p.ended = err != nil
			p.changed.Broadcast()
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
}

// await returns what the screen shows once seen says so.
func (p *person) await(what string, seen func(screen []byte) bool) []byte {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !seen(p.screen) {
		if p.late || p.ended {
			p.Fatalf("the terminal never showed %s; it ends in %q", what, p.screen[max(0, len(p.screen)-300):])
		}
		p.changed.Wait()
	}
	return p.screen
}

func (p *person) sees(text string) {
	p.Helper()
	p.await(fmt.Sprintf("%q", text), func(screen []byte) bool { return bytes.Contains(screen, []byte(text)) })
}

func (p *person) types(text string) {
	p.Helper()
	if _, err := p.ptmx.WriteString(text); err != nil {
		p.Fatal(err)
	}
}

func (p *person) start(r startRequest) {
	p.Helper()
	line, err := json.Marshal(r)
	if err != nil {
		p.Fatal(err)
	}
	p.ask(p.shell, string(line), "ok")
	p.ask(p.host, "ping", "ok") // Start has returned
}

// ask sends request and checks that the reply is want.
func (p *person) ask(w *wire, request, want string) {
	p.Helper()
	p.send(w, request)
	p.answered(w, request, want)
}

func (p *person) send(w *wire, request string) {
	p.Helper()
	if _, err := fmt.Fprintln(w, request); err != nil {
		p.Fatalf("cannot ask for %s: %v", request, err)
	}
}

func (p *person) answered(w *wire, request, want string) {
	p.Helper()
	if !w.lines.Scan() {
		p.Fatalf("no answer to %s: %v", request, w.lines.Err())
	}
	if got := w.lines.Text(); got != want {
		p.Fatalf("%s: got %q, want %q", request, got, want)
	}
}

func (p *person) modes() unix.Termios {
	p.Helper()
	modes, err := readModes(int(p.tty.Fd()))
	if err != nil {
		p.Fatal(err)
	}
	return *modes
}

func (p *person) setModes(t unix.Termios) {
	p.Helper()
	if err := setModes(int(p.tty.Fd()), &t); err != nil {
		p.Fatal(err)
	}
}

func (p *person) wantModes(when string, want unix.Termios) {
	p.Helper()
	if diff := cmp.Diff(want, p.modes()); diff != "" {
		p.Errorf("modes %s (-want +got):\n%s", when, diff)
	}
}

func TestRoundTrip(t *testing.T) {
	p := sit(t)
	before := p.modes()
	p.look()
	p.start(startRequest{Agent: "echo"})
	p.wantModes("after Start", rawModes(before))
	p.sees("ready\r\n")
	p.types("hello\r")
	p.sees("hello\r\ngot <hello>\r\n")
	p.types("\x04")
	p.ask(p.host, "wait", "ok")
	p.ask(p.host, "close", "ok")
	p.wantModes("after Close", before)
	p.ask(p.host, "close", "ok")
	for _, late := range []string{"suspend", "resume", "resize", "take", "discard"} {
		p.ask(p.host, late, "error: file already closed")
	}
	p.wantModes("after all", before)
}

func TestModesReachTheAgent(t *testing.T) {
	p := sit(t)
	before := p.modes()
	p.look()
	p.start(startRequest{Agent: "modes"})
	p.ask(p.host, "wait", "ok")
	p.ask(p.host, "close", "ok")
	screen := p.await("a line", func(screen []byte) bool { return bytes.HasSuffix(screen, []byte("\r\n")) })
	var got unix.Termios
	if err := json.Unmarshal(screen, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, got); diff != "" {
		t.Errorf("modes of the run's pty (-want +got):\n%s", diff)
	}
}

func TestWindowSize(t *testing.T) {
	p := sit(t)
	p.look()
	p.start(startRequest{Agent: "size"})
	p.sees("size 33x101\r\n")
	if err := pty.Setsize(p.tty, &pty.Winsize{Rows: 40, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	p.ask(p.host, "resize", "ok")
	p.sees("size 40x80\r\n")
}

func TestInterruptReachesTheAgentAlone(t *testing.T) {
	p := sit(t)
	p.look()
	p.start(startRequest{Agent: "int"})
	p.sees("ready")
	p.types("\x03")
	p.sees("interrupted\r\n")
	p.ask(p.host, "wait", "ok") // by a host which lives
	p.ask(p.host, "close", "ok")
}

func TestBackground(t *testing.T) {
	for _, announced := range []bool{false, true} {
		t.Run(fmt.Sprintf("announced=%v", announced), func(t *testing.T) {
			p := sit(t)
			before := p.modes()
			p.look()
			p.start(startRequest{Agent: "echo", Background: true})
			p.sees("ready")
			p.wantModes("in the background", before)
			p.types("for the shell\r")
			p.ask(p.shell, "read", "for the shell")
			p.ask(p.host, "resume", "ok")
			p.wantModes("after Resume in the background", before)
			p.ask(p.shell, "changed", "false")

			p.ask(p.shell, "give", "ok")
			if announced {
				p.ask(p.shell, "continue", "ok")
				p.ask(p.host, "resume", "ok")
				p.wantModes("after Resume in the foreground", rawModes(before))
			}
			p.types("for the agent\r")
			p.sees("got <for the agent>")
			p.ask(p.host, "close", "ok")
			p.wantModes("after Close", before)
		})
	}
}

func TestCloseInTheBackground(t *testing.T) {
	p := sit(t)
	p.look()
	p.start(startRequest{Agent: "echo"})
	p.sees("ready")
	p.ask(p.shell, "mine", "ok")
	shells := p.modes()
	shells.Lflag ^= unix.ECHOK
	p.setModes(shells)
	p.ask(p.host, "kill", "ok")
	p.ask(p.host, "close", "ok")
	p.wantModes("which the shell has set", shells)
	p.ask(p.shell, "changed", "false")
}

func TestSuspendAndResume(t *testing.T) {
	p := sit(t)
	before := p.modes()
	p.look()
	p.start(startRequest{Agent: "echo"})
	p.sees("ready")
	p.ask(p.host, "suspend", "ok")
	p.wantModes("after Suspend", before)
	p.ask(p.shell, "stop", "ok")
	p.ask(p.shell, "stopped", "true")
	p.ask(p.shell, "mine", "ok")
	p.types("for the shell\r")
	p.ask(p.shell, "read", "for the shell")
	changed := before
	changed.Lflag ^= unix.ECHOK
	p.setModes(changed)

	p.ask(p.shell, "give", "ok")
	p.ask(p.shell, "continue", "ok")
	p.ask(p.host, "resume", "ok")
	p.wantModes("after Resume", rawModes(changed))
	p.types("again\r")
	p.sees("got <again>")
	p.ask(p.host, "close", "ok")
	p.wantModes("after Close", changed)
}

// What the agent printed before it stopped is on the screen before the shell's prompt.
func TestSuspendShowsWhatWasPrinted(t *testing.T) {
	p := sit(t)
	p.look()
	p.start(startRequest{Agent: "note"})
	p.ask(p.host, "suspend", "ok")
	p.ask(p.host, "wait", "ok") // the pty holds what it printed meanwhile
	p.ask(p.host, "resume", "ok")
	p.ask(p.host, "suspend", "ok")
	screen := p.await("6 KiB", func(screen []byte) bool { return len(screen) >= noteSize })
	wantNoise(t, screen, noteSize)
}

// The terminal is the person's again although Resume never came.
func TestCloseWhileSuspended(t *testing.T) {
	p := sit(t)
	before := p.modes()
	p.look()
	p.start(startRequest{Agent: "echo"})
	p.sees("ready")
	p.ask(p.host, "suspend", "ok")
	p.types("for the shell\r")
	before.Lflag ^= unix.ECHOK
	p.setModes(before)
	p.ask(p.host, "kill", "ok")
	p.ask(p.host, "close", "ok")
	p.wantModes("after Close", before)
	p.ask(p.shell, "mine", "ok")
	p.ask(p.shell, "read", "for the shell")
}

func TestCloseShowsWhatWaited(t *testing.T) {
	p := sit(t)
	p.look()
	p.start(startRequest{Agent: "modes"})
	p.ask(p.host, "suspend", "ok")
	p.ask(p.host, "wait", "ok")
	p.ask(p.host, "close", "ok")
	p.sees("Iflag")
}

// After kill -STOP the terminal is raw and the shell remembers that as the job's modes.
func TestStopWithoutSuspend(t *testing.T) {
	p := sit(t)
	before := p.modes()
	p.look()
	p.start(startRequest{Agent: "echo"})
	p.sees("ready")
	p.ask(p.shell, "stop", "ok")
	p.ask(p.shell, "stopped", "true")
	p.ask(p.shell, "mine", "ok")
	jobs := p.modes()
	p.setModes(before)
	p.ask(p.shell, "continue", "ok") // bg
	p.types("for the shell\r")
	p.ask(p.host, "resize", "ok") // time for a wrong read
	p.ask(p.shell, "changed", "false")
	p.ask(p.shell, "read", "for the shell")
	p.ask(p.host, "resume", "ok")
	p.wantModes("in the background", before)
	p.ask(p.shell, "changed", "false")

	p.setModes(jobs)
	p.ask(p.shell, "give", "ok") // fg
	p.ask(p.host, "resume", "ok")
	p.types("again\r")
	p.sees("got <again>")
	p.ask(p.host, "close", "ok")
	p.wantModes("after Close", before)
}

func TestTypeAheadStays(t *testing.T) {
	t.Run("after Close", func(t *testing.T) {
		p := sit(t)
		p.look()
		p.start(startRequest{Agent: "echo"})
		p.sees("ready")
		p.ask(p.host, "close", "ok")
		p.types("next\r")
		p.ask(p.shell, "mine", "ok")
		p.ask(p.shell, "read", "next")
	})
	t.Run("after the agent", func(t *testing.T) {
		p := sit(t)
		p.look()
		p.start(startRequest{Agent: "echo"})
		p.sees("ready")
		p.ask(p.host, "kill", "ok")
		p.types("next\n") // the terminal is raw, so nothing makes \n of \r
		p.ask(p.host, "ping", "ok")
		p.ask(p.host, "resize", "ok")
		p.ask(p.host, "close", "ok")
		p.ask(p.shell, "mine", "ok")
		p.ask(p.shell, "read", "next")
	})
}

func TestLazy(t *testing.T) {
	p := sit(t)
	before := p.modes()
	p.look()
	p.start(startRequest{Agent: "echo", Lazy: true})
	p.sees("ready")
	p.wantModes("after Start", before)
	p.types("one\r")
	p.ask(p.host, "resume", "ok")
	p.wantModes("after Resume", before)
	p.ask(p.host, "take", "ok")
	p.wantModes("after Take", rawModes(before))
	p.sees("got <one>") // typed while the terminal was in line mode
	p.types("two\r")
	p.sees("got <two>")
	p.ask(p.host, "close", "ok")
	p.wantModes("after Close", before)
}

func TestFlood(t *testing.T) {
	p := sit(t)
	p.look()
	p.start(startRequest{Agent: "flood"})
	began := time.Now()
	p.ask(p.host, "wait", "ok")
	p.ask(p.host, "close", "ok")
	screen := p.await("50 MiB", func(screen []byte) bool { return len(screen) >= floodSize })
	t.Logf("%.0f MB/s", floodSize/1e6/time.Since(began).Seconds())
	wantNoise(t, screen, floodSize)
}

// The last words of an agent wait for a terminal that takes none for now.
func TestLastWords(t *testing.T) {
	p := sit(t)
	p.start(startRequest{Agent: "words"})
	p.send(p.host, "wait")
	p.send(p.host, "close")
	p.look()
	p.answered(p.host, "wait", "ok")
	p.answered(p.host, "close", "ok")
	screen := p.await("60 KiB", func(screen []byte) bool { return len(screen) >= wordsSize })
	wantNoise(t, screen, wordsSize)
}

func wantNoise(t *testing.T, got []byte, size int64) {
	t.Helper()
	want := sha256.New()
	if _, err := io.CopyN(want, noise(), size); err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(got); int64(len(got)) != size || !bytes.Equal(sum[:], want.Sum(nil)) {
		t.Errorf("got %d bytes with sum %x, want %d with sum %x", len(got), sum, size, want.Sum(nil))
	}
}

func TestDiscard(t *testing.T) {
	p := sit(t)
	before := p.modes()
	p.start(startRequest{Agent: "spout"}) // and nobody reads the terminal
	for stuck := false; !stuck; {
		began := time.Now()
		p.ask(p.host, "suspend", "ok")
		p.ask(p.host, "resume", "ok")
		stuck = time.Since(began) >= suspendPatience
	}
	p.ask(p.host, "kill", "ok")
	p.ask(p.host, "discard", "ok")
	p.ask(p.host, "close", "ok")
	p.wantModes("after Close", before)
}

func TestCloseDespiteSurvivor(t *testing.T) {
	p := sit(t)
	p.look()
	p.start(startRequest{Agent: "spout"})
	p.sees("spout")
	p.ask(p.host, "suspend", "ok")
	p.ask(p.host, "resume", "ok")
	p.ask(p.host, "close", "ok") // while the agent prints on
	p.ask(p.host, "kill", "ok")
}

func TestPasteIntoDeafAgent(t *testing.T) {
	p := sit(t)
	before := p.modes()
	p.look()
	p.start(startRequest{Agent: "deaf"})
	p.sees("ready")
	pasted := make(chan struct{})
	t.Cleanup(func() { p.ptmx.Close(); <-pasted })
	go func() {
		defer close(pasted)
		p.ptmx.Write(bytes.Repeat([]byte("x"), 1<<20)) // ends when ptmx is closed
	}()
	// The agent's line discipline is full, and it can still print.
	for full := false; !full; {
		p.mu.Lock()
		seen := len(p.screen)
		p.mu.Unlock()
		p.ask(p.host, "signal", "ok")
		screen := p.await("an answer", func(screen []byte) bool { return bytes.HasSuffix(screen[seen:], []byte(">")) })
		full = bytes.HasSuffix(screen, []byte("<unread 4095>"))
	}
	p.ask(p.host, "close", "ok") // while the agent lives
	p.wantModes("after Close", before)
	p.ask(p.host, "kill", "ok")
}

func TestHangup(t *testing.T) {
	for _, request := range []startRequest{
		{Agent: "spout"},
		{Agent: "spout", Background: true},
		{Agent: "int"},
		{Agent: "int", Background: true},
	} {
		t.Run(fmt.Sprintf("%s,background=%v", request.Agent, request.Background), func(t *testing.T) {
			p := sit(t)
			p.look()
			p.start(request)
			p.await("anything", func(screen []byte) bool { return len(screen) > 0 })
			p.ptmx.Close()
			p.ask(p.host, "hangup", "ok")
			p.ask(p.host, "suspend", "ok")
			p.ask(p.host, "kill", "ok")
			p.ask(p.host, "close", "ok")
		})
	}
}

func TestStartWithoutTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer slave.Close()
	_, err = Start(Config{Outer: null, Master: master})
	if want := "cannot relay the terminal: cannot read its modes: inappropriate ioctl for device"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

package launch

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"bourn"
	"bourn/internal/launch/terminal"

	"golang.org/x/sys/unix"
)

// grace is how long a command has between TERM and KILL when its time is over.
const grace = 10 * time.Second

// parent is the outer half of a run.
type parent struct {
	config  Config
	link    *link
	pid     int
	pidfd   int
	relay   *terminal.Relay
	outer   outer
	gate    net.Listener
	serving sync.WaitGroup

	messages chan received
	result   Result
}

type received struct {
	m   message
	fds []int
	err error
}

func run(c Config) (Result, error) {
	// The child dies with the thread that started it (prctl(2), PR_SET_PDEATHSIG), so
	// that thread must live as long as the run.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	p := &parent{config: c, messages: make(chan received)}
	p.outer = findTerminal(c)
	defer p.outer.close()
	// Before the child exists: a signal that comes early must not end this process and
	// leave the terminal or the caller's record as they are.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded...)
	if !p.outer.any() {
		signal.Notify(signals, unix.SIGTSTP)
	}
	defer signal.Stop(signals)

	if err := p.start(); err != nil {
		return Result{}, err
	}
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() { p.read(stop) })
	err := p.converse(signals)
	close(stop)
	p.end()
	reader.Wait()
	unix.Close(p.link.fd)
	return p.result, err
}

// start forks the child into its namespaces.
func (p *parent) start() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot make a control socket: %w", err)
	}
	control := os.NewFile(uintptr(pair[1]), "control")
	defer control.Close()
	p.link = &link{fd: pair[0]}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		unix.Close(pair[0])
		return err
	}
	defer null.Close()
	attr := &syscall.ProcAttr{Dir: "/", Env: []string{"GOGC=off"}, Sys: namespaces()}
	for _, f := range []*os.File{orNull(p.config.Stdin, null), orNull(p.config.Stdout, null), orNull(p.config.Stderr, null), control} {
		attr.Files = append(attr.Files, f.Fd())
	}
	attr.Sys.PidFD = new(int)
	// Not os.StartProcess: it forks once more to find out whether pidfds work.
	pid, _, err := syscall.StartProcess("/proc/self/exe", []string{Role}, attr)
	if err != nil {
		unix.Close(pair[0])
		return weak(stepNamespaces, err)
	}
	p.pid, p.pidfd = pid, *attr.Sys.PidFD
	return nil
}

// kill ends the child and with it everything inside. The pidfd names this child alone,
// also when its pid is used again.
func (p *parent) kill() {
	if p.pidfd >= 0 && unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0) == nil {
		return
	}
	_ = unix.Kill(p.pid, unix.SIGKILL)
}

// reap waits for the child.
func (p *parent) reap() {
	for {
		if _, err := unix.Wait4(p.pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if p.pidfd >= 0 {
		unix.Close(p.pidfd)
	}
}

func orNull(f, null *os.File) *os.File {
	if f == nil {
		return null
	}
	return f
}

// namespaces asks for all of them, the ids mapped to themselves: a run by root keeps
// its uid, and loses every capability when it is sealed. A uid other than 0 needs its
// capabilities kept across the execve, which is what the ambient set is for.
func namespaces() *syscall.SysProcAttr {
	uid, gid := os.Getuid(), os.Getgid()
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
			unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		Setsid:      true,
		Pdeathsig:   unix.SIGKILL,
	}
	if uid != 0 {
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP,
			unix.CAP_SYS_CHROOT, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_KILL}
	}
	return attr
}

// read hands over what the child says, until it has nothing more to say.
func (p *parent) read(stop <-chan struct{}) {
	for {
		m, fds, err := p.link.recv()
		select {
		case p.messages <- received{m, fds, err}:
		case <-stop:
			for _, fd := range fds {
				unix.Close(fd)
			}
		}
		if err != nil {
			return
		}
	}
}

// converse carries out the parent's half of the conversation drawn in the package
// comment, and returns when the command has ended or could not be executed.
func (p *parent) converse(signals <-chan os.Signal) error {
	err := p.link.send(message{Kind: kindOrder, Order: &order{Plan: p.config.Plan, Program: p.config.Program, Terminal: p.outer.streams}})
	if err != nil {
		return p.broken(err)
	}
	var early []os.Signal
	for {
		select {
		case sig := <-signals:
			early = append(early, sig)
		case r := <-p.messages:
			done, err := p.hear(r)
			if done || err != nil {
				return err
			}
			if r.m.Kind == kindStarted {
				for _, sig := range early {
					p.forward(sig)
				}
				return p.attend(signals)
			}
		}
	}
}

// attend sees to a command that runs.
func (p *parent) attend(signals <-chan os.Signal) error {
	var over <-chan time.Time
	if limit := p.config.Plan.Limits.Time; limit > 0 {
		t := time.NewTimer(limit)
		defer t.Stop()
		over = t.C
	}
	var hangup <-chan struct{}
	if p.relay != nil {
		hangup = p.relay.Hangup()
	}
	for {
		select {
		case sig := <-signals:
			p.forward(sig)
		case <-hangup:
			hangup = nil
			p.tell(kindGroup, unix.SIGHUP)
			p.tell(kindContinue, unix.SIGCONT)
		case <-over:
			if p.result.TimedOut {
				p.kill()
				over = nil
				continue
			}
			p.result.TimedOut = true
			p.tell(kindGroup, unix.SIGTERM)
			p.tell(kindContinue, unix.SIGCONT)
			over = time.After(grace)
		case r := <-p.messages:
			if done, err := p.hear(r); done || err != nil {
				if err != nil && p.result.TimedOut {
					p.result.Signal, err = int(unix.SIGKILL), nil
				}
				return err
			}
		}
	}
}

// hear answers one message. It reports whether the conversation is over.
func (p *parent) hear(r received) (done bool, err error) {
	if r.err != nil {
		return true, p.broken(r.err)
	}
	m := r.m
	switch m.Kind {
	case kindReady:
		return false, p.ready(r.fds)
	case kindFailed:
		return true, weak(m.Step, stepFailure(m))
	case kindSealed:
		if p.config.Sealed != nil {
			if err := p.config.Sealed(p.pid, m.Number); err != nil {
				return true, err
			}
		}
		if p.config.Probe {
			return true, nil
		}
		return false, p.link.send(message{Kind: kindGo})
	case kindNoExec:
		return true, notExecuted(m)
	case kindStopped:
		p.stopped()
	case kindNotice:
		if p.config.Notice != nil && m.Notice != nil {
			p.config.Notice(*m.Notice)
		}
	case kindExited:
		ws := syscall.WaitStatus(m.Status)
		if ws.Signaled() {
			p.result.Signal = int(ws.Signal())
		} else {
			p.result.Status = ws.ExitStatus()
		}
		return true, nil
	}
	return false, nil
}

// ready takes the gate's listener and the terminal, and hands over the report.
func (p *parent) ready(fds []int) error {
	want := 1
	if p.outer.any() {
		want = 2
	}
	if len(fds) != want {
		return p.broken(fmt.Errorf("%d descriptors came, not %d", len(fds), want))
	}
	if err := p.serveGate(fds[0]); err != nil {
		return err
	}
	if p.outer.any() {
		master := os.NewFile(uintptr(fds[1]), "pty master")
		relay, err := terminal.Start(terminal.Config{Outer: p.outer.input, Output: p.outer.output, Master: master, Lazy: p.outer.lazy})
		if err = errors.Join(err, master.Close()); err != nil {
			return fmt.Errorf("cannot relay the terminal: %w", err)
		}
		p.relay = relay
	}
	var report []byte
	if p.config.Report != nil {
		var err error
		if report, err = p.config.Report(p.pid); err != nil {
			return err
		}
	}
	return p.link.send(message{Kind: kindReport, Data: report})
}

func (p *parent) serveGate(fd int) error {
	f := os.NewFile(uintptr(fd), "gate")
	l, err := net.FileListener(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("cannot serve the gate: %w", err)
	}
	p.gate = l
	p.serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if p.config.Gate == nil {
				conn.Close()
				continue
			}
			p.serving.Go(func() { p.config.Gate(conn) })
		}
	})
	return nil
}

// end kills what is left and waits until all is still.
func (p *parent) end() {
	if p.result == (Result{}) || p.result.TimedOut {
		p.kill() // the command never ran, or the child is to end in any case
	}
	p.reap()
	if p.gate != nil {
		p.gate.Close()
	}
	if p.relay != nil {
		p.relay.Close()
	}
}

// broken is the error for a child that ended without a word.
func (p *parent) broken(err error) error {
	return bourn.WithHint(fmt.Errorf("%w: the sealed child ended unexpectedly: %w", bourn.ErrUnavailable, err),
		"something outside may have killed it; start again")
}

func stepFailure(m message) error {
	if m.Errno != 0 {
		return detailed{syscall.Errno(m.Errno), m.Detail}
	}
	return errors.New(m.Detail)
}

// detailed carries an errno with a longer text.
type detailed struct {
	errno syscall.Errno
	text  string
}

func (d detailed) Error() string { return d.text }
func (d detailed) Unwrap() error { return d.errno }

func notExecuted(m message) error {
	errno := syscall.Errno(m.Errno)
	if errno == syscall.ENOENT || errno == syscall.ENOTDIR {
		return fmt.Errorf("%w: %s", ErrCommandNotFound, m.Detail)
	}
	return fmt.Errorf("%w: %s", ErrCommandNotExecutable, m.Detail)
}

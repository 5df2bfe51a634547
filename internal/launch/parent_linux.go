package launch

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"bourn"
	"bourn/internal/launch/terminal"
	"bourn/internal/policy"

	"golang.org/x/sys/unix"
)

// acceptAgain is how long the gate waits when it could not accept a connection.
const acceptAgain = 10 * time.Millisecond

// parent is the outer half of a run.
type parent struct {
	config    Config
	child     *Child
	link      *link
	relay     *terminal.Relay
	outer     outer
	gateFD    int // the gate's listener until it is served, -1 for none
	gate      net.Listener
	listeners []*os.File // of the run's network, until they are served
	master    *os.File
	serving   sync.WaitGroup

	signals   chan os.Signal
	messages  chan received
	report    []byte
	reportErr error
	result    Result
}

type received struct {
	m   message
	fds []int
	err error
}

// A Child is a child process that waits in its namespaces for its order.
type Child struct {
	link  *link
	pid   int
	pidfd int

	forked chan error    // holds one error, or nil, once the fork is over
	quit   chan struct{} // closed when the child has been waited for
}

// spawn forks on a thread that lives until the child has been waited for, since the child
// dies with the thread that started it (prctl(2), PR_SET_PDEATHSIG): on the main one,
// which lives as long as the process, or else on one of its own.
func spawn(stdin, stdout, stderr *os.File, open bool, user *policy.User) *Child {
	c := &Child{pidfd: -1, forked: make(chan error, 1), quit: make(chan struct{})}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if unix.Gettid() == unix.Getpid() {
		c.forked <- c.fork(stdin, stdout, stderr, open, user)
		return c
	}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := c.fork(stdin, stdout, stderr, open, user)
		c.forked <- err
		if err == nil {
			<-c.quit
		}
	}()
	return c
}

func (c *Child) discard() {
	if <-c.forked == nil {
		c.kill()
		c.reap()
	}
}

func (c *Child) fork(stdin, stdout, stderr *os.File, open bool, user *policy.User) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot make a control socket: %w", err)
	}
	defer unix.Close(pair[1])
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		unix.Close(pair[0])
		return err
	}
	defer null.Close()
	attr := &syscall.ProcAttr{Dir: "/", Env: []string{"GOGC=off"}, Sys: namespaces(open, user)}
	for _, f := range []*os.File{stdin, stdout, stderr} {
		attr.Files = append(attr.Files, orNull(f, null).Fd())
	}
	attr.Files = append(attr.Files, uintptr(pair[1]))
	attr.Sys.PidFD = &c.pidfd
	// Not os.StartProcess: it forks once more to find out whether pidfds work.
	if c.pid, _, err = syscall.StartProcess("/proc/self/exe", []string{Role}, attr); err != nil {
		unix.Close(pair[0])
		return weak(stepNamespaces, err)
	}
	c.link = &link{fd: pair[0]}
	if err := mapIDs(c.pid, user); err != nil {
		c.kill()
		c.reap()
		if user != nil {
			return weak(stepUser, err)
		}
		return weak(stepNamespaces, err)
	}
	return nil
}

// kill ends the child and with it everything inside. The pidfd names this child alone,
// also when its pid is used again.
func (c *Child) kill() {
	if c.pidfd >= 0 && unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, 0) == nil {
		return
	}
	_ = unix.Kill(c.pid, unix.SIGKILL)
}

// reap waits for the child and lets its thread go.
func (c *Child) reap() {
	for {
		if _, err := unix.Wait4(c.pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if c.pidfd >= 0 {
		unix.Close(c.pidfd)
	}
	unix.Close(c.link.fd)
	close(c.quit)
}

func run(c Config) (Result, error) {
	p := &parent{config: c, gateFD: -1, child: c.Child, messages: make(chan received), signals: make(chan os.Signal, 16)}
	open := c.Plan.Network.Mode == policy.NetworkOpen
	// It has left the host's network behind, or its ids are mapped already.
	if (open || c.Plan.User != nil) && p.child != nil {
		p.child.discard()
		p.child = nil
	}
	if p.child == nil {
		p.child = spawn(c.Stdin, c.Stdout, c.Stderr, open, c.Plan.User)
	}
	if err := <-p.child.forked; err != nil {
		return Result{}, err
	}
	p.link = p.child.link
	p.outer = findTerminal(c)
	defer p.outer.close()
	err := checkStreams(c.Plan, [3]*os.File{c.Stdin, c.Stdout, c.Stderr})
	if err == nil {
		err = p.converse()
	}
	p.end()
	return p.result, err
}

func orNull(f, null *os.File) *os.File {
	if f == nil {
		return null
	}
	return f
}

// namespaces asks for all of them, for an open network for all but that. The child borrows
// this process's memory until its execve, since a copy costs most of a millisecond (CLONE_VM
// and CLONE_VFORK; package syscall leaves them out with a user namespace, because its own
// way to map ids would then wait for ever). So the ids are mapped after the execve, and the
// capabilities are kept across it by the ambient set.
func namespaces(open bool, user *policy.User) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
			unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_VM | unix.CLONE_VFORK,
		Setsid:    true,
		Pdeathsig: unix.SIGKILL,
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP,
			unix.CAP_SYS_CHROOT, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_KILL, unix.CAP_NET_BIND_SERVICE},
	}
	if open {
		attr.Cloneflags &^= unix.CLONE_NEWNET
	}
	if user != nil {
		attr.AmbientCaps = append(attr.AmbientCaps, changeCapabilities...)
	}
	return attr
}

// converse carries out the parent's half of the conversation drawn in the package
// comment, and returns when the command has ended or could not be executed. Until the
// command runs there is nothing to do but to listen, so no other goroutine takes part.
func (p *parent) converse() error {
	if err := p.link.limit(sealTime); err != nil {
		return err
	}
	outside, err := mountNamespace()
	if err != nil {
		return err
	}
	plan := *p.config.Plan
	plan.Items = nil // the child carries the plan out; what it says of it is the parent's
	err = p.link.send(message{Kind: kindOrder, Order: &order{Plan: &plan, Outside: outside, Program: p.config.Program, Terminal: p.outer.streams, Lazy: p.outer.lazy, Watch: p.config.Accessed != nil}})
	if err != nil {
		return p.broken(err)
	}
	// While the child builds. An error waits: if the child has ended meanwhile, what it said
	// is the reason.
	if p.config.Report != nil {
		p.report, p.reportErr = p.config.Report(p.child.pid)
	}
	for {
		var r received
		r.m, r.fds, r.err = p.link.recv()
		if done, err := p.hear(r); done || err != nil {
			return err
		}
		if r.m.Kind == kindStarted {
			break
		}
	}
	if err := p.link.limit(0); err != nil {
		return err
	}
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() { p.read(stop) })
	err = p.attend(p.signals)
	close(stop)
	_ = unix.Shutdown(p.link.fd, unix.SHUT_RDWR)
	reader.Wait()
	return err
}

// sealTime bounds each wait for a child that builds its root: a file system that does
// not answer must not hold a start up for ever.
const sealTime = 60 * time.Second

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

// hear answers one message. It reports whether the conversation is over.
func (p *parent) hear(r received) (done bool, err error) {
	if r.err != nil {
		return true, p.broken(r.err)
	}
	m := r.m
	switch m.Kind {
	case kindReady:
		return false, p.ready(r.fds, m.Data)
	case kindFailed:
		if m.Step == stepWatch { // the seal does not need it
			return true, bourn.WithHint(fmt.Errorf("%w: cannot %s: %w", bourn.ErrUnavailable, m.Step, stepFailure(m)),
				"leave out --watch; it needs Linux 5.5, and that nothing else listens to the system calls of this process")
		}
		return true, weak(m.Step, stepFailure(m))
	case kindSealed:
		if p.config.Sealed != nil {
			if err := p.config.Sealed(p.child.pid, m.Number); err != nil {
				return true, err
			}
		}
		if p.config.Probe {
			return true, nil
		}
		return false, p.release()
	case kindNoExec:
		return true, notExecuted(m)
	case kindStopped:
		p.stopped(syscall.Signal(m.Number))
	case kindNotice:
		if p.config.Notice != nil && m.Notice != nil {
			p.config.Notice(*m.Notice)
		}
	case kindAccess:
		if p.config.Accessed != nil {
			p.config.Accessed(policy.Operation(m.Step), m.Data)
		}
	case kindExited:
		ws := syscall.WaitStatus(m.Status)
		if ws.Signaled() {
			p.result.Signal = int(ws.Signal())
		} else {
			p.result.Status = ws.ExitStatus()
		}
		return true, nil
	case kindStarted:
	default:
		return true, p.broken(fmt.Errorf("an unexpected message %q came", m.Kind))
	}
	return false, nil
}

// ready takes the gate's listener, the terminal and the listeners of the network, of which
// marks says which were made, and hands over the report.
func (p *parent) ready(fds []int, marks string) error {
	if p.reportErr != nil {
		for _, fd := range fds {
			unix.Close(fd)
		}
		return p.reportErr
	}
	want := 1 + strings.Count(marks, string(made))
	if p.outer.any() {
		want++
	}
	if len(fds) != want || len(marks) != len(p.config.Plan.Listen) {
		return p.broken(fmt.Errorf("%d descriptors came, not %d", len(fds), want))
	}
	p.gateFD = fds[0]
	if p.outer.any() {
		p.master = os.NewFile(uintptr(fds[1]), "pty master")
	}
	left := fds[len(fds)-strings.Count(marks, string(made)):]
	for _, mark := range marks {
		var f *os.File
		if mark == made {
			f, left = os.NewFile(uintptr(left[0]), "listener"), left[1:]
		}
		p.listeners = append(p.listeners, f)
	}
	err := p.link.send(message{Kind: kindReport, Data: string(p.report)})
	p.catch()
	return err
}

// catch catches the signals that are passed on, while the child seals: one that ended
// bourn from then on would end the command without its knowledge, or leave the terminal
// raw. Until then they end bourn, and the child with it.
func (p *parent) catch() {
	if p.config.Aside {
		return
	}
	for _, sig := range append(forwarded, p.alsoForwarded()...) {
		if !signal.Ignored(sig) { // what was ignored outside stays ignored inside
			signal.Notify(p.signals, sig)
		}
	}
}

// release lets the command start.
func (p *parent) release() error {
	if p.outer.any() {
		relay, err := terminal.Start(terminal.Config{Outer: p.outer.input, Output: p.outer.output, Master: p.master, Lazy: p.outer.lazy})
		if err != nil {
			return fmt.Errorf("cannot relay the terminal: %w", err)
		}
		p.relay = relay
	}
	if err := p.serveNetwork(); err != nil {
		return err
	}
	return errors.Join(p.link.send(message{Kind: kindGo}), p.serveGate())
}

// serveNetwork hands over the listeners, before the command can connect to one.
func (p *parent) serveNetwork() error {
	if len(p.listeners) == 0 || p.config.Network == nil {
		return nil
	}
	files := p.listeners
	p.listeners = nil
	if err := p.config.Network(files); err != nil {
		return fmt.Errorf("cannot serve the network: %w", err)
	}
	return nil
}

func (p *parent) serveGate() error {
	f := os.NewFile(uintptr(p.gateFD), "gate")
	p.gateFD = -1
	l, err := net.FileListener(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("cannot serve the gate: %w", err)
	}
	p.gate = l
	p.serving.Go(func() {
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // no descriptors are left: some will be
				time.Sleep(acceptAgain)
				continue
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

// end kills what is left and waits for it. A question to the gate that is being answered
// ends with its connection, whose other end is gone.
func (p *parent) end() {
	if p.result == (Result{}) || p.cutShort() {
		p.child.kill() // the command never ran, or the child is to end in any case
	}
	p.child.reap()
	if p.gate != nil {
		p.gate.Close()
	}
	if p.gateFD >= 0 {
		unix.Close(p.gateFD)
	}
	for _, f := range p.listeners {
		if f != nil {
			f.Close()
		}
	}
	if p.relay != nil {
		p.relay.Close()
	}
	if p.master != nil {
		p.master.Close()
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

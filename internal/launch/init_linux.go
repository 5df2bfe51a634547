package launch

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"bourn/internal/policy"
	"bourn/internal/sandbox/namespace"

	"golang.org/x/sys/unix"
)

// controlFD is where the child finds the control socket.
const controlFD = 3

// exitBroken is the status of a child that could not do its part; the parent knows the
// reason from the control socket, so only a person who starts the role by hand sees it.
const exitBroken = 125

// child is pid 1 of a run.
type child struct {
	link     *link
	order    *order
	tree     *namespace.Tree
	terminal *pty
	pid      int // the command, once it runs

	listeners []int // what the parent serves
	umask     int   // the command's, where it is not the child's as well
}

func initRole() {
	if err := assertControl(); err != nil {
		fmt.Fprintln(os.Stderr, "bourn: cannot seal: this role is started by bourn run only:", err)
		os.Exit(exitBroken)
	}
	c := &child{link: &link{fd: controlFD}}
	if err := c.serve(); err != nil {
		c.fail(err)
		os.Exit(exitBroken)
	}
	os.Exit(0)
}

// assertControl refuses unless descriptor 3 is an unnamed socketpair whose other end
// was made by a process outside this pid namespace, as only a parent can pass it.
func assertControl() error {
	for option, want := range map[int]int{unix.SO_DOMAIN: unix.AF_UNIX, unix.SO_TYPE: unix.SOCK_STREAM} {
		if got, err := unix.GetsockoptInt(controlFD, unix.SOL_SOCKET, option); err != nil || got != want {
			return errors.New("descriptor 3 is not a control socket")
		}
	}
	for _, call := range []uintptr{unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME} {
		if n, errno := nameLength(call); errno != 0 || n != familyLength {
			return errors.New("descriptor 3 is not one end of a socketpair")
		}
	}
	peer, err := unix.GetsockoptUcred(controlFD, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || peer.Pid != 0 || os.Getppid() != 0 {
		return errors.New("descriptor 3 does not lead to a parent outside")
	}
	unix.CloseOnExec(controlFD)
	return nil
}

// mountNamespace identifies the caller's mount namespace.
func mountNamespace() (policy.Object, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/mnt", &st); err != nil {
		return policy.Object{}, err
	}
	return policy.Object{Dev: uint64(st.Dev), Ino: st.Ino}, nil
}

// familyLength is the length of an address that has no name: its family alone (unix(7)).
const familyLength = 2

// nameLength returns the length of descriptor 3's own or peer's address. The typed
// wrappers cannot tell an unnamed socket from an abstract one.
func nameLength(call uintptr) (uint32, syscall.Errno) {
	var raw unix.RawSockaddrAny
	size := uint32(unix.SizeofSockaddrAny)
	_, _, errno := unix.Syscall(call, controlFD, uintptr(unsafe.Pointer(&raw)), uintptr(unsafe.Pointer(&size)))
	return size, errno
}

// serve carries out the child's half of the conversation drawn in the package comment.
func (c *child) serve() error {
	m, _, err := c.link.recv()
	if err != nil {
		return stepError(stepAssert, err)
	}
	if m.Kind != kindOrder || m.Order == nil || m.Order.Plan == nil {
		return stepError(stepAssert, errors.New("no order came"))
	}
	c.order = m.Order
	// An owner of its own is not enough: a role started by hand in somebody's user
	// namespace would share their mounts.
	if own, err := mountNamespace(); err != nil || c.order.Outside == (policy.Object{}) || own == c.order.Outside {
		return stepError(stepAssert, errors.Join(err, errors.New("the mount namespace is the parent's")))
	}
	if err := namespace.Assert(); err != nil {
		return stepError(stepAssert, err)
	}
	if c.order.Plan.User != nil { // what is made here must be readable for somebody else
		c.umask = unix.Umask(0o022)
	}
	go makeRoom(c.order.Plan.Watches)
	gate, err := c.build()
	if err != nil {
		return err
	}
	ready := []int{gate}
	if c.terminal != nil {
		ready = append(ready, c.terminal.master)
	}
	made := ""
	for _, fd := range c.listeners {
		made += string(madeMark(fd))
		if fd >= 0 {
			ready = append(ready, fd)
		}
	}
	if err := c.link.send(message{Kind: kindReady, Data: made}, ready...); err != nil {
		return err
	}
	unix.Close(gate)
	for _, fd := range c.listeners {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	if c.terminal != nil {
		unix.Close(c.terminal.master)
	}
	if m, _, err = c.link.recv(); err != nil || m.Kind != kindReport {
		return stepError(stepReport, errors.Join(err, errors.New("no report came")))
	}
	if err := os.WriteFile("/run/bourn/report.json", []byte(m.Data), 0o444); err != nil {
		return stepError(stepReport, err)
	}
	if err := c.tree.Seal(); err != nil {
		return err
	}
	return c.supervise()
}

// build makes everything that must exist before the root becomes read-only, and
// returns the gate's listener.
func (c *child) build() (gate int, err error) {
	if c.tree, err = namespace.Build(c.order.Plan, c.order.Program); err != nil {
		return -1, err
	}
	if c.order.Plan.Network.Mode != policy.NetworkOpen {
		if err := namespace.LoopbackUp(); err != nil {
			return -1, stepError(stepLoopback, err)
		}
	}
	if c.listeners, err = listen(c.order.Plan); err != nil {
		return -1, stepError(stepNetwork, err)
	}
	if c.order.terminal() {
		if c.terminal, err = openPty(); err != nil {
			return -1, stepError(stepTerminal, err)
		}
	}
	if gate, err = listenGate(c.order.Plan.User); err != nil {
		return -1, stepError(stepGate, err)
	}
	return gate, nil
}

// listenGate makes the listener inside, so that the host's file system never sees it.
// Another user than the child needs leave to write to it (unix(7)); nobody else is inside.
func listenGate(user *policy.User) (int, error) {
	const at = "/run/bourn/gate.sock"
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: at})
	if err == nil && user != nil {
		err = unix.Chmod(at, 0o666)
	}
	if err = errors.Join(err, unix.Listen(fd, 64)); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// supervise seals, starts and outlives the command.
func (c *child) supervise() error {
	var watch *watcher
	if len(c.order.Plan.Watches) > 0 {
		watch = newWatcher(c)
	}
	// The main thread stays pid 1's own: what seals must be another one, and no other
	// goroutine may ever run on it.
	runtime.LockOSThread()
	started := make(chan error)
	release := make(chan struct{})
	go c.sealAndStart(started, release)
	if err := <-started; err != nil { // sealed, waiting for the word
		return err
	}
	m, _, err := c.link.recv()
	if err != nil || m.Kind != kindGo {
		return errors.Join(err, errors.New("not released"))
	}
	close(release)
	if err := <-started; err != nil {
		return c.notExecuted(err)
	}
	if err := c.link.send(message{Kind: kindStarted, Number: c.pid}); err != nil {
		return err
	}
	if c.terminal != nil {
		unix.Close(c.terminal.slave)
	}
	if watch != nil {
		go watch.run()
	}
	go c.obey()
	return c.reap()
}

// obey delivers what the parent forwards, and ends everything when the parent is gone.
func (c *child) obey() {
	for {
		m, _, err := c.link.recv()
		if err != nil {
			os.Exit(exitBroken)
		}
		switch m.Kind {
		case kindSignal:
			_ = unix.Kill(c.pid, syscall.Signal(m.Number))
		case kindGroup:
			_ = unix.Kill(-c.pid, syscall.Signal(m.Number))
		case kindContinue:
			_ = unix.Kill(-c.pid, unix.SIGCONT)
		case kindForeground:
			c.foreground()
			_ = unix.Kill(-c.pid, unix.SIGCONT)
		default: // not of this conversation: nothing that follows can be trusted
			os.Exit(exitBroken)
		}
	}
}

// foreground makes the command's group the foreground group of the run's terminal. Pid 1
// is in another group, so SIGTTOU must be blocked meanwhile (tcsetpgrp(3)).
func (c *child) foreground() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tty, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(tty)
	var block, old unix.Sigset_t
	block.Val[0] = 1 << (unix.SIGTTOU - 1)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &block, &old) != nil {
		return
	}
	_ = unix.IoctlSetPointerInt(tty, unix.TIOCSPGRP, c.pid)
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
}

// reap waits for whatever ends until the command does. Then pid 1 returns, and with it
// everything that the command left behind.
func (c *child) reap() error {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("cannot wait for the command: %w", err)
		case pid != c.pid:
			continue
		case ws.Stopped():
			if err := c.link.send(message{Kind: kindStopped, Number: int(ws.StopSignal())}); err != nil {
				return err
			}
		default:
			return c.link.send(message{Kind: kindExited, Status: uint32(ws)})
		}
	}
}

// notExecuted tells the parent why the command could not be executed in a seal that
// holds. It is no failure of the child's.
func (c *child) notExecuted(err error) error {
	var errno syscall.Errno
	errors.As(err, &errno)
	return c.link.send(message{Kind: kindNoExec, Errno: int(errno), Detail: err.Error()})
}

func (c *child) notice(n Notice) { _ = c.link.send(message{Kind: kindNotice, Notice: &n}) }

// fail tells the parent which step could not be done.
func (c *child) fail(err error) {
	m := message{Kind: kindFailed, Step: "seal", Detail: err.Error()}
	var s *namespace.StepError
	if errors.As(err, &s) {
		m.Step, m.Detail = s.Step, s.Err.Error()
		if s.Path != "" {
			m.Detail = strconv.Quote(s.Path) + ": " + m.Detail
		}
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		m.Errno = int(errno)
	}
	_ = c.link.send(m)
}

func stepError(step string, err error) error {
	return &namespace.StepError{Step: step, Err: err}
}

// pty is the run's own terminal.
type pty struct{ master, slave int }

// openPty opens a terminal in the run's own devpts and makes it the session's.
func openPty() (*pty, error) {
	master, err := unix.Open("/dev/pts/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return nil, err
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return nil, err
	}
	slave, err := unix.Open("/dev/pts/"+strconv.Itoa(n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlSetInt(slave, unix.TIOCSCTTY, 0); err != nil {
		return nil, err
	}
	return &pty{master, slave}, nil
}

// streams returns the command's standard streams: the run's own terminal where the
// person has one.
func (c *child) streams() []uintptr {
	fds := []uintptr{0, 1, 2}
	for i := range fds {
		if c.order.Terminal[i] {
			fds[i] = uintptr(c.terminal.slave)
		}
	}
	return fds
}

package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"bourn/internal/posix"

	"golang.org/x/sys/unix"
)

// A runner is the control plane's side of the process that executes the helper.
type runner struct {
	fd    int           // seqpacket: a message is an order or an end
	ended chan struct{} // closed when it has ended
	told  chan struct{} // closed when everybody who waited knows

	sending sync.Mutex // held while something is sent, or fd is closed; never with mu
	closed  bool       // of sending

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan helperEnd
	gone    bool
}

// An execution is one of the helper. Conn is the other end of its descriptors 0 and 1; done
// gets one end, when what the helper said is all there.
type execution struct {
	conn net.Conn
	said *newest
	done chan helperEnd
}

// errRunnerGone is why the helper cannot be executed any more.
var errRunnerGone = errors.New("the process that executes it has ended")

// startRunner starts the process that executes the helper. It dies with the control plane:
// when its socket ends and, should it hang, with the thread that started it (PR_SET_PDEATHSIG),
// which waits for it and so lives as long.
func startRunner(helper string) (*runner, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(pair[1]), "runner")
	defer theirs.Close()
	cmd := exec.Command("/proc/self/exe", HelperRole)
	cmd.Env, cmd.Dir, cmd.ExtraFiles = []string{}, "/", []*os.File{theirs}
	// A session of its own: what a terminal sends to the control plane ends that first.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	r := &runner{fd: pair[0], ended: make(chan struct{}), told: make(chan struct{}), waiting: map[uint64]chan helperEnd{}}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		defer close(r.ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how is of no interest: r.read says that it has gone
		}
	}()
	if err := <-started; err != nil {
		unix.Close(pair[0])
		return nil, err
	}
	go r.read()
	if err := r.send(helperOrder{Helper: helper}, nil); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *runner) send(o helperOrder, fds []int) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	r.sending.Lock()
	defer r.sending.Unlock()
	for {
		if r.closed {
			return errRunnerGone
		}
		if err = unix.Sendmsg(r.fd, text, rights, nil, unix.MSG_NOSIGNAL); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// read hands out how executions ended, until the runner has gone.
func (r *runner) read() {
	defer close(r.told)
	buf := make([]byte, maxOrder)
	for {
		n, err := unix.Read(r.fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		var e helperEnd
		if err != nil || n == 0 || json.Unmarshal(buf[:n], &e) != nil {
			break
		}
		r.mu.Lock()
		done := r.waiting[e.ID]
		delete(r.waiting, e.ID)
		r.mu.Unlock()
		if done != nil {
			done <- e
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = true
	for id, done := range r.waiting {
		delete(r.waiting, id)
		done <- helperEnd{ID: id, Error: errRunnerGone.Error()}
	}
}

// close ends the runner, and waits for it.
func (r *runner) close() {
	_ = unix.Shutdown(r.fd, unix.SHUT_RDWR) // which ends what is being sent, too
	<-r.ended
	<-r.told
	r.sending.Lock()
	defer r.sending.Unlock()
	if !r.closed {
		r.closed = true
		unix.Close(r.fd)
	}
}

// execute has the helper executed. Whoever asks closes conn.
func (r *runner) execute(q posix.Request) (*execution, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(pair[1])
	ours := os.NewFile(uintptr(pair[0]), "person")
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		return nil, err
	}
	saysAt, says, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	defer says.Close()
	ended := make(chan helperEnd, 1)
	r.mu.Lock()
	if r.gone {
		r.mu.Unlock()
		return nil, errors.Join(errRunnerGone, conn.Close(), saysAt.Close())
	}
	r.next++
	id := r.next
	r.waiting[id] = ended
	r.mu.Unlock()
	if err := r.send(helperOrder{ID: id, Args: q.Args()}, []int{pair[1], int(says.Fd())}); err != nil {
		r.mu.Lock()
		delete(r.waiting, id)
		r.mu.Unlock()
		return nil, errors.Join(err, conn.Close(), saysAt.Close())
	}
	x := &execution{conn: conn, said: &newest{}, done: make(chan helperEnd, 1)}
	go func() { // it ends with the helper, or at the latest with the runner
		defer saysAt.Close()
		all := make(chan struct{})
		go func() { defer close(all); _, _ = io.Copy(x.said, saysAt) }()
		end := <-ended
		select {
		case <-all:
		case <-time.After(saidWithin): // a process that the person has started holds the pipe
		}
		x.done <- end
	}()
	return x, nil
}

// saidWithin is how long what the helper has said may take to come after its end.
const saidWithin = time.Second

// runnerFD is where the runner has its socket.
const runnerFD = 3

// helperRunner is the runner. It ignores what a terminal or an administrator sends to the
// control plane: that ends it.
func helperRunner() int {
	kind, err := unix.GetsockoptInt(runnerFD, unix.SOL_SOCKET, unix.SO_TYPE)
	peer, peerErr := unix.GetsockoptUcred(runnerFD, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || peerErr != nil || kind != unix.SOCK_SEQPACKET || int(peer.Pid) != os.Getppid() || int(peer.Uid) != os.Getuid() {
		fmt.Fprintln(os.Stderr, "bournd: "+HelperRole+" is started by the control plane alone")
		return 2
	}
	unix.CloseOnExec(runnerFD)
	// Whoever is the service's user, too, is not to take this process over, nor the socket.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return 1
	}
	first, _, err := receiveOrder()
	if err != nil || first.Helper == "" {
		return 1
	}
	w := &runnerWork{helper: first.Helper, running: map[int]uint64{}, some: make(chan struct{}, 1)}
	go w.reap()
	for {
		o, fds, err := receiveOrder()
		if err != nil {
			return 0
		}
		w.carryOut(o, fds)
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
}

// receiveOrder returns the next order with its descriptors; an error is the end.
func receiveOrder() (o helperOrder, fds []int, err error) {
	buf, rights := make([]byte, maxOrder), make([]byte, unix.CmsgSpace(4*4))
	for {
		n, rn, _, _, err := unix.Recvmsg(runnerFD, buf, rights, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && n == 0 {
			err = io.EOF
		}
		if err != nil {
			return o, nil, err
		}
		messages, err := unix.ParseSocketControlMessage(rights[:rn])
		for _, m := range messages {
			got, rightsErr := unix.ParseUnixRights(&m)
			fds, err = append(fds, got...), errors.Join(err, rightsErr)
		}
		return o, fds, errors.Join(err, json.Unmarshal(buf[:n], &o))
	}
}

// runnerWork is what the runner has begun.
type runnerWork struct {
	helper string
	some   chan struct{} // gets one when there is something to wait for

	mu      sync.Mutex
	running map[int]uint64 // by process
}

// carryOut starts the helper. The request is read here as the helper reads it.
func (w *runnerWork) carryOut(o helperOrder, fds []int) {
	q, err := posix.ParseRequest(append([]string{"bourn-posix-helper"}, o.Args...))
	if err == nil && (len(fds) != 2 || !slices.Equal(q.Args(), o.Args)) {
		err = errors.New("an order takes a socket and a pipe")
	}
	w.mu.Lock()
	defer w.mu.Unlock() // so that reap knows whom it has waited for
	if err == nil {
		var pid int
		pid, err = syscall.ForkExec(w.helper, append([]string{"bourn-posix-helper"}, o.Args...), &syscall.ProcAttr{
			Dir: "/", Env: []string{}, Files: []uintptr{uintptr(fds[0]), uintptr(fds[0]), uintptr(fds[1])}})
		if err == nil {
			w.running[pid] = o.ID
		}
	}
	if err != nil {
		endOrder(helperEnd{ID: o.ID, Error: err.Error()})
		return
	}
	select {
	case w.some <- struct{}{}:
	default:
	}
}

// reap waits for whatever was started, and says how it ended.
func (w *runnerWork) reap() {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			<-w.some
			continue
		}
		end := helperEnd{Status: ws.ExitStatus()}
		if ws.Signaled() {
			end.Status = 128 + int(ws.Signal())
		}
		w.mu.Lock()
		id, known := w.running[pid]
		delete(w.running, pid)
		w.mu.Unlock()
		if end.ID = id; known {
			endOrder(end)
		}
	}
}

func endOrder(e helperEnd) {
	text, err := json.Marshal(e)
	if err != nil {
		return
	}
	for errors.Is(unix.Send(runnerFD, text, unix.MSG_NOSIGNAL), unix.EINTR) {
	}
}

// giveUpPrivileges sets no_new_privs on every thread: nothing that this process executes from
// here on gains anything by it (prctl(2)). Without cgo alone that can be done. Nor can what it
// executes take this process over, which is the same user's, and ask the runner as it.
func giveUpPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); errno != 0 {
		return errno
	}
	return nil
}

// checkHelper looks at the file of the helper, and at this process before it has given up
// anything: an error is why nobody can be become, with what to do.
func checkHelper(at string) error {
	const mend = "install it as Bourn's package does: owner root, the service's group, mode 4750"
	var st unix.Stat_t
	var fs unix.Statfs_t
	if err := unix.Lstat(at, &st); err != nil {
		return unavailable("install bourn-posix-helper there, beside bournd, and start the control plane again", fmt.Sprintf("there is no helper at %s: %v", at, err))
	}
	set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	fsErr := unix.Statfs(at, &fs)
	groups, groupsErr := unix.Getgroups()
	ours := append(groups, unix.Getegid())
	switch {
	case err != nil || fsErr != nil || groupsErr != nil:
		return unavailable(mend, fmt.Sprintf("cannot look at the helper %s: %v", at, errors.Join(err, fsErr, groupsErr)))
	case set != 0:
		return unavailable("of a systemd unit, take NoNewPrivileges= off, and the settings that imply it (systemd.exec(5)); then start it again",
			"the control plane was started under no_new_privs, so that the kernel ignores the helper's setuid bit")
	case st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != 0 || st.Mode&unix.S_ISUID == 0:
		return unavailable(mend, fmt.Sprintf("the helper %s is not setuid root (owner %d, mode %04o)", at, st.Uid, st.Mode&0o7777))
	case st.Mode&0o022 != 0 || st.Mode&0o001 != 0:
		return unavailable(mend, fmt.Sprintf("others may execute or change the helper %s (mode %04o)", at, st.Mode&0o7777))
	case st.Mode&0o010 == 0 || !slices.Contains(ours, int(st.Gid)):
		return unavailable(mend, fmt.Sprintf("the control plane may not execute the helper %s (group %d, mode %04o)", at, st.Gid, st.Mode&0o7777))
	case fs.Flags&unix.ST_NOSUID != 0:
		return unavailable("mount it without nosuid, or install Bourn elsewhere", fmt.Sprintf("the helper %s stands on a file system that is mounted nosuid", at))
	}
	return checkWay(at)
}

// checkWay looks at the directories above the helper. Who can put another program in its place
// has the one process execute it that can become anybody.
func checkWay(at string) error {
	for dir := filepath.Dir(at); ; dir = filepath.Dir(dir) {
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err != nil {
			return unavailable("look at the directories above the helper", fmt.Sprintf("cannot look at %s: %v", dir, err))
		}
		sticky := st.Mode&unix.S_ISVTX != 0 && dir != filepath.Dir(at) // what is root's in it stays
		if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != 0 || st.Mode&0o022 != 0 && !sticky {
			return unavailable("make each directory above it root's, and writable by nobody else; or install Bourn elsewhere",
				fmt.Sprintf("others can exchange the helper %s: %s is of %d with mode %04o", at, dir, st.Uid, st.Mode&0o7777))
		}
		if dir == "/" {
			return nil
		}
	}
}

// tryDirectly executes the helper from this process, and returns an error unless that gained
// nothing.
func tryDirectly(ctx context.Context, helper string, q posix.Request) error {
	cmd := exec.CommandContext(ctx, helper, q.Args()...)
	cmd.Env, cmd.Dir = []string{}, "/"
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return nil
	}
	reason, _ := posix.ReasonOf(cmd.ProcessState.ExitCode())
	if err == nil || reason != posix.RuntimeUnavailable || !bytes.Contains(out, []byte("no_new_privs")) {
		return fmt.Errorf("the helper could be executed beside the process for it: %v: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// stampOf tells a file from one that has taken its place, or was written to since.
func stampOf(info os.FileInfo) [2]int64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return [2]int64{}
	}
	return [2]int64{int64(st.Ino), st.Ctim.Nano()}
}

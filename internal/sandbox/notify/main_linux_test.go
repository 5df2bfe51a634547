//go:build amd64 || arm64

package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What is watched runs in a child, which is this test binary under another name:
//
//	test ── request ──▶ child: lock a thread, no_new_privs, Install, do
//	     ◀─ listener ──
//	     ◀── answer ───
//
// over an unnamed socket pair on descriptor 3. The listener is sent where the test itself
// serves; else the child does, in its other threads, and the answer has the events.
const (
	childName  = "bourn-notify-test-child"
	openerName = "bourn-notify-test-opener" // opens a file again and again
)

// unprivileged is a user that owns nothing on the machine.
const unprivileged = 12345

type request struct {
	Do   string // of body
	Dir  string
	Argv []string // of which the first is the program
	Name string   // what the program is told to be, if not that
	// Send has the test serve. The child executes Argv instead of starting it.
	Send bool
	// Forget keeps no events.
	Forget bool
	// Plain installs nothing.
	Plain bool
}

type answer struct {
	Err    string
	Events []Event
	Out    string
}

func TestMain(m *testing.M) {
	switch os.Args[0] {
	case childName:
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case openerName:
		opener()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A started child has a request and may not have answered.
type started struct {
	cmd    *exec.Cmd
	ours   *os.File
	fd     int // the listener, if it was sent
	stderr strings.Builder
}

// start starts a child that runs as uid.
func start(t testing.TB, uid int, env []string, req request) *started {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &started{ours: os.NewFile(uintptr(pair[0]), "child"), fd: -1}
	theirs := os.NewFile(uintptr(pair[1]), "parent")
	defer theirs.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	t.Cleanup(func() { s.ours.Close() })
	// Through /proc, as the directory that go test builds in is closed to other users.
	s.cmd = exec.CommandContext(ctx, "/proc/self/exe")
	s.cmd.Args = []string{childName}
	s.cmd.Dir = "/"
	s.cmd.Env = append(env, "GORACE=atexit_sleep_ms=0", "PATH=/usr/bin:/bin", "LC_ALL=C")
	s.cmd.ExtraFiles = []*os.File{theirs}
	s.cmd.Stderr = &s.stderr
	s.cmd.WaitDelay = time.Second
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if uid != os.Getuid() {
		s.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(s.ours).Encode(req); err != nil {
		t.Fatal(err)
	}
	if req.Send {
		s.fd = receiveFD(t, int(s.ours.Fd()))
	}
	return s
}

func receiveFD(t testing.TB, from int) int {
	t.Helper()
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(from, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d messages, %v", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		t.Fatal(err)
	}
	return fds[0]
}

// answer waits for the child.
func (s *started) answer(t testing.TB) answer {
	t.Helper()
	var ans answer
	decodeErr := json.NewDecoder(s.ours).Decode(&ans)
	if err := s.cmd.Wait(); err != nil {
		t.Fatalf("child: %v\n%s", err, s.stderr.String())
	}
	if decodeErr != nil && decodeErr != io.EOF { // a program that was executed says nothing
		t.Fatalf("cannot read the child's answer: %v\n%s", decodeErr, s.stderr.String())
	}
	if ans.Err != "" {
		t.Fatalf("child: %s\n%s", ans.Err, s.stderr.String())
	}
	return ans
}

// watched returns what a child that serves itself answers.
func watched(t testing.TB, uid int, req request) answer {
	t.Helper()
	return start(t, uid, nil, req).answer(t)
}

func child() error {
	runtime.LockOSThread() // whatever thread this is, what is watched gets another
	peer, err := unix.GetsockoptUcred(3, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || int(peer.Pid) != os.Getppid() {
		return errors.New("this is run by a test only")
	}
	control := os.NewFile(3, "control")
	unix.CloseOnExec(3)
	var req request
	if err := json.NewDecoder(control).Decode(&req); err != nil {
		return err
	}
	var ans answer
	if err := perform(req, &ans); err != nil {
		ans.Err = err.Error()
	}
	return json.NewEncoder(control).Encode(ans)
}

// perform does the request on a thread that ends with it, and serves it meanwhile.
func perform(req request, ans *answer) error {
	listener, done := make(chan int), make(chan error, 1)
	go func() {
		for unix.Gettid() == unix.Getpid() { // the first thread never ends
			hold := make(chan struct{})
			go func() { runtime.LockOSThread(); <-hold }()
			runtime.Gosched()
		}
		runtime.LockOSThread()
		fd := -1
		if !req.Plain {
			err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
			if err == nil {
				fd, err = Install()
			}
			if err != nil {
				close(listener)
				done <- err
				return
			}
		}
		listener <- fd
		<-listener // the reader is there
		done <- body(req.Do)(req, ans)
	}()
	fd, ok := <-listener
	if !ok {
		return <-done
	}
	if req.Send {
		if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(fd), nil, 0); err != nil {
			return err
		}
		unix.Close(fd)
		listener <- 0
		return <-done
	}
	listener <- 0
	var served error
	if !req.Plain {
		served = Serve(fd, func(e Event) {
			if !req.Forget {
				ans.Events = append(ans.Events, e)
			}
		})
	}
	return errors.Join(<-done, served)
}

// body returns what a child can do on its watched thread.
func body(do string) func(request, *answer) error {
	switch do {
	case "run":
		return func(req request, ans *answer) error { return run(req, &ans.Out) }
	case "calls":
		return makeCalls
	case "exec":
		return execute
	case "many":
		return startMany
	case "again":
		return installAgain
	case "refused":
		return makeRefused
	case "open":
		return openFile
	}
	return func(request, *answer) error { return errors.New("no such body") }
}

// run starts a program from the calling thread and waits for it.
func run(req request, out *string) error {
	argv := slices.Clone(req.Argv)
	if req.Name != "" {
		argv[0] = req.Name
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	var text []byte
	var reading sync.WaitGroup
	reading.Go(func() { text, _ = io.ReadAll(read) })
	var pid int
	err = Fork(func() (err error) {
		attr := &syscall.ProcAttr{Dir: req.Dir, Files: []uintptr{0, write.Fd(), 2}, Env: os.Environ()}
		pid, err = syscall.ForkExec(req.Argv[0], argv, attr)
		return err
	})
	write.Close()
	defer reading.Wait()
	if err != nil {
		return err
	}
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &status, 0, nil)
		if err == unix.EINTR {
			continue
		}
		reading.Wait()
		*out = string(text)
		if err != nil || status.Exited() && status.ExitStatus() == 0 {
			return err
		}
		return fmt.Errorf("it ended with %#x: %s", status, text)
	}
}

// need skips the test when the machine lacks what it needs, and fails it instead when
// BOURN_TEST_NEED names that.
func need(t testing.TB, what string, has bool) {
	t.Helper()
	if has {
		return
	}
	if slices.Contains(strings.Split(os.Getenv("BOURN_TEST_NEED"), ","), what) {
		t.Fatalf("this machine has no %s", what)
	}
	t.Skipf("this machine has no %s", what)
}

// needNotify skips without the kernel's feature, which the tests are about.
func needNotify(t testing.TB) {
	t.Helper()
	action := uint32(unix.SECCOMP_RET_USER_NOTIF)
	need(t, "unotify", actionAvailable(&action))
}

// asEachUser runs body as the current user and, when that is root, as one without
// privileges.
func asEachUser(t *testing.T, body func(t *testing.T, uid int)) {
	needNotify(t)
	t.Run("current user", func(t *testing.T) { body(t, os.Getuid()) })
	t.Run("unprivileged", func(t *testing.T) {
		need(t, "root", os.Getuid() == 0)
		body(t, unprivileged)
	})
}

// newDir returns an empty directory that the user may write, without links in its path.
func newDir(t testing.TB, uid int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify") // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if uid != os.Getuid() {
		if err := os.Chown(dir, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func actionAvailable(action *uint32) bool {
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(action)))
	return errno == 0
}

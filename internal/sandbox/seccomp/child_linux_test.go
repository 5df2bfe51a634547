//go:build amd64 || arm64

package seccomp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Real enforcement runs in a child, which is this test binary under another name:
//
//	test ── request ──▶ child: lock thread, no_new_privs, Install, try operations
//	     ◀── answer ──
//
// over an unnamed socket pair on descriptor 3. Without it the child does nothing.
const childName = "bourn-seccomp-test-child"

// unprivileged is a user that owns nothing on the machine.
const unprivileged = 12345

type request struct {
	NoNewPrivs bool
	Install    bool
	Nested     bool
	Tries      []try
}

// A try is one operation that the child attempts: a system call when Do is empty.
type try struct {
	Do   string
	Argv []string
	Nr   uintptr
	Args [6]uintptr
	// Path takes the place of thePath among the arguments, and the file, opened, that of theFile.
	Path string
	// Free runs it on a thread that has no filter.
	Free bool
}

const (
	thePath = uintptr(0x7ead0001)
	theFile = uintptr(0x7ead0002)
)

type answer struct {
	Err    string
	Errnos []string // by index of Tries: "ok" or the name of the error
}

func TestMain(m *testing.M) {
	if os.Args[0] == childName {
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// sealed asks a child, running as uid, for an answer.
func sealed(t testing.TB, uid int, req request) answer {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "child"), os.NewFile(uintptr(pair[1]), "parent")
	defer ours.Close()
	defer theirs.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// Through /proc, as the directory that go test builds in is closed to other users.
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{childName}
	cmd.Dir = "/"
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0", "PATH=/usr/bin:/bin"} // else each child of a -race test takes a second
	cmd.ExtraFiles = []*os.File{theirs}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal to hang up or to type into
	if uid != os.Getuid() {
		id := uint32(uid)
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: id, Gid: id}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	if err := json.NewEncoder(ours).Encode(req); err != nil {
		t.Error(err)
	}
	var ans answer
	decodeErr := json.NewDecoder(ours).Decode(&ans)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("child: %v\n%s", err, stderr.String())
	}
	if decodeErr != nil {
		t.Fatalf("cannot read the child's answer: %v\n%s", decodeErr, stderr.String())
	}
	return ans
}

func child() error {
	runtime.LockOSThread()
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
	if req.NoNewPrivs {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	var ans answer
	if req.Install {
		filter, err := Filter(Options{Nested: req.Nested})
		if err == nil {
			err = Install(filter)
		}
		if err != nil {
			ans.Err = err.Error()
		}
	}
	for _, try := range req.Tries {
		ans.Errnos = append(ans.Errnos, attempt(try))
	}
	return json.NewEncoder(control).Encode(ans)
}

func attempt(t try) string {
	var err error
	if t.Free {
		done := make(chan struct{})
		go func() { defer close(done); err = operate(t) }()
		<-done
	} else {
		err = operate(t)
	}
	var errno syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	default:
		return err.Error()
	}
}

func operate(t try) error {
	switch t.Do {
	case "":
		path := append([]byte(t.Path), 0)
		defer runtime.KeepAlive(&path)
		for i, arg := range t.Args {
			switch arg {
			case thePath:
				t.Args[i] = uintptr(unsafe.Pointer(&path[0]))
			case theFile:
				fd, err := unix.Open(t.Path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
				if err != nil {
					return fmt.Errorf("open: %s", err)
				}
				defer unix.Close(fd)
				t.Args[i] = uintptr(fd)
			}
		}
		_, _, errno := unix.Syscall6(t.Nr, t.Args[0], t.Args[1], t.Args[2], t.Args[3], t.Args[4], t.Args[5])
		if errno != 0 {
			return errno
		}
		return nil
	case "type": // into a terminal of its own, with a command given in full
		return typeInto(t.Args[0])
	case "program":
		return run(t.Argv, 0)
	case "program in namespaces":
		return run(t.Argv, t.Args[0])
	case "time": // how many nanoseconds a call takes, as the error
		return timeCalls(t)
	}
	return errors.New("no such operation")
}

func typeInto(cmd uintptr) error {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("ptmx: %s", err)
	}
	defer unix.Close(master)
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return fmt.Errorf("unlock: %s", err)
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return fmt.Errorf("number: %s", err)
	}
	slave, err := unix.Open(fmt.Sprintf("/dev/pts/%d", n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("slave: %s", err)
	}
	defer unix.Close(slave)
	char := byte('x')
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(slave), cmd, uintptr(unsafe.Pointer(&char)))
	if errno != 0 {
		return errno
	}
	return nil
}

// run forks from the calling thread, so that the program is under its filter.
func run(argv []string, namespaces uintptr) error {
	attr := &syscall.ProcAttr{Files: []uintptr{0, 2, 2}, Env: os.Environ()}
	if namespaces != 0 {
		attr.Sys = &syscall.SysProcAttr{Cloneflags: namespaces}
	}
	pid, err := syscall.ForkExec(argv[0], argv, attr)
	if err != nil {
		return err
	}
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &status, 0, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || status.Exited() && status.ExitStatus() == 0 {
			return err
		}
		if status.Signaled() {
			return fmt.Errorf("killed by %s", unix.SignalName(status.Signal()))
		}
		return fmt.Errorf("exit %d", status.ExitStatus())
	}
}

func timeCalls(t try) error {
	best := time.Hour
	const rounds, calls = 20, 100_000
	for range rounds {
		start := time.Now()
		for range calls {
			unix.RawSyscall(t.Nr, t.Args[0], t.Args[1], t.Args[2])
		}
		best = min(best, time.Since(start))
	}
	return fmt.Errorf("%.1f", float64(best.Nanoseconds())/calls)
}

// need skips the test when the machine lacks what it needs, and fails it instead when
// BOURN_TEST_NEED names that.
func need(t *testing.T, what string, has bool) {
	t.Helper()
	if has {
		return
	}
	if slices.Contains(strings.Split(os.Getenv("BOURN_TEST_NEED"), ","), what) {
		t.Fatalf("this machine has no %s", what)
	}
	t.Skipf("this machine has no %s", what)
}

// asEachUser runs body as the current user and, when that is root, as one without
// privileges.
func asEachUser(t *testing.T, body func(t *testing.T, uid int)) {
	t.Run("current user", func(t *testing.T) { body(t, os.Getuid()) })
	t.Run("unprivileged", func(t *testing.T) {
		need(t, "root", os.Getuid() == 0)
		body(t, unprivileged)
	})
}

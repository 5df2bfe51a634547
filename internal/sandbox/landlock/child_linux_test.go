package landlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Real enforcement runs in a child, which is this test binary under another name:
//
//	test ── request ──▶ child: lock thread, no_new_privs, Restrict, try operations
//	     ◀── answer ──
//
// over an unnamed socket pair on descriptor 3. Without it the child does nothing.
const childName = "bourn-landlock-test-child"

// unprivileged is a user that owns nothing on the machine.
const unprivileged = 12345

type request struct {
	NoNewPrivs bool
	Restrict   bool
	Rules      []Rule
	TCP        *Ports
	MaxABI     int
	Tries      []try
}

// A try is one operation that the child attempts.
type try struct {
	Do   string
	Path string
	To   string
	Arg  int
	// Free runs it on a thread that was not restricted.
	Free bool
}

type answer struct {
	Result   Result
	Err      string
	Absent   bool
	NotExist bool
	Errnos   []string // by index of Tries: "ok" or the name of the error
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
func sealed(t *testing.T, uid int, req request) answer {
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
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0"} // else each child of a -race test takes a second
	cmd.ExtraFiles = []*os.File{theirs}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if uid != os.Getuid() {
		id := uint32(uid)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
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
	if req.Restrict {
		ans.Result, err = Restrict(req.Rules, Options{TCP: req.TCP, maxABI: req.MaxABI})
		if err != nil {
			ans.Err = err.Error()
			ans.Absent, ans.NotExist = errors.Is(err, ErrAbsent), errors.Is(err, fs.ErrNotExist)
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
		go func() { defer close(done); err = operations[t.Do](t) }()
		<-done
	} else {
		err = operations[t.Do](t)
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

var operations = map[string]func(try) error{
	"read":     func(t try) error { return openAs(t.Path, unix.O_RDONLY) },
	"list":     func(t try) error { return openAs(t.Path, unix.O_RDONLY|unix.O_DIRECTORY) },
	"write":    func(t try) error { return openAs(t.Path, unix.O_WRONLY) },
	"create":   func(t try) error { return openAs(t.Path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL) },
	"empty":    func(t try) error { return openAs(t.Path, unix.O_WRONLY|unix.O_TRUNC) },
	"tmpfile":  func(t try) error { return openAs(t.Path, unix.O_WRONLY|unix.O_TMPFILE) },
	"truncate": func(t try) error { return unix.Truncate(t.Path, 0) },
	"unlink":   func(t try) error { return unix.Unlink(t.Path) },
	"mkdir":    func(t try) error { return unix.Mkdir(t.Path, 0o755) },
	"rmdir":    func(t try) error { return unix.Rmdir(t.Path) },
	"rename":   func(t try) error { return unix.Rename(t.Path, t.To) },
	"exchange": func(t try) error {
		return unix.Renameat2(unix.AT_FDCWD, t.Path, unix.AT_FDCWD, t.To, unix.RENAME_EXCHANGE)
	},
	"link":     func(t try) error { return unix.Link(t.Path, t.To) },
	"symlink":  func(t try) error { return unix.Symlink("target", t.Path) },
	"mkfifo":   func(t try) error { return unix.Mknod(t.Path, unix.S_IFIFO|0o644, 0) },
	"whiteout": func(t try) error { return unix.Mknod(t.Path, unix.S_IFCHR|0o644, 0) },
	"mksock":   mksock,
	"ioctl":    ioctl,
	"exec":     func(t try) error { return run(t.Path) },
	"cat":      func(t try) error { return run("/bin/cat", t.Path) },
	"connect":  connect,
	"signal":   func(t try) error { return unix.Kill(t.Arg, 0) },
	"dial":     dial,
	"listen":   listen,
	"trace":    trace,
	"truncate-open": func(t try) error {
		fd, err := unix.Open(t.Path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Ftruncate(fd, 0)
	},
}

func openAs(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func mksock(t try) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Bind(fd, &unix.SockaddrUnix{Name: t.Path})
}

// trace begins to trace a process, which ends with the child.
func trace(t try) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(t.Arg), 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// ioctl asks a device that is no terminal for its window size.
func ioctl(t try) error {
	fd, err := unix.Open(t.Path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer unix.Close(fd)
	_, err = unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	return err
}

// run forks from the calling thread, so that the program is as restricted as it is.
func run(argv ...string) error {
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
	if err != nil {
		return err
	}
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &status, 0, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || status.ExitStatus() == 0 {
			return err
		}
		return fmt.Errorf("exit %d", status.ExitStatus())
	}
}

func connect(t try) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: t.Path})
}

func dial(t try) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrInet4{Port: t.Arg, Addr: [4]byte{127, 0, 0, 1}})
}

func listen(t try) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Bind(fd, &unix.SockaddrInet4{Port: t.Arg, Addr: [4]byte{127, 0, 0, 1}})
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
	_, err := ABI()
	need(t, "landlock", !errors.Is(err, ErrAbsent))
	t.Run("current user", func(t *testing.T) { body(t, os.Getuid()) })
	t.Run("unprivileged", func(t *testing.T) {
		need(t, "root", os.Getuid() == 0)
		body(t, unprivileged)
	})
}

// listener accepts nothing but lets connections be made.
func listener(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

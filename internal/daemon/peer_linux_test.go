package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"bourn"

	"golang.org/x/sys/unix"
)

// asFiltered is a peer under a seccomp filter that lets everything through, on all threads.
func asFiltered() int {
	if os.Geteuid() != 0 {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return 3
		}
	}
	if err := allowAll(); err != nil {
		return 3
	}
	return asPeer()
}

// allowAll puts all threads under a seccomp filter that lets everything through.
func allowAll() error {
	allow := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000}}
	program := unix.SockFprog{Len: 1, Filter: &allow[0]}
	// SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC (seccomp(2)).
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, 1, 1, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}

// peerAnswer runs a process that asks at the local socket, and returns what it was answered.
func peerAnswer(t *testing.T, socket, role string, through []string, how *syscall.SysProcAttr) string {
	t.Helper()
	argv := append(through, "/proc/self/exe")
	cmd := exec.Command(argv[0], argv[1:]...)
	if len(through) > 0 {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Args[len(cmd.Args)-1] = self
	}
	cmd.Env = append(os.Environ(), roleVariable+"="+role, saidVariable+"="+socket)
	cmd.SysProcAttr = how
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	said, err := cmd.Output()
	if errors.Is(err, syscall.EPERM) || strings.Contains(stderr.String(), "Operation not permitted") {
		t.Skipf("this host lets this user make no such process: %v %s", err, &stderr)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	return string(said)
}

// mapped are the namespaces of a process that stays who it is in them.
func mapped(flags uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: flags | unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}}
}

// A process of the same user that runs sealed gets nothing: by no_new_privs, a seccomp
// filter, and another user, mount or pid namespace each.
func TestSealedPeers(t *testing.T) {
	p := begin(t)
	socket := filepath.Join(p.config.Home, SocketName)
	if said := peerAnswer(t, socket, "peer", nil, nil); !strings.HasPrefix(said, "HTTP/1.1 200") {
		t.Fatalf("a process that is not sealed: %s", said)
	}
	root := os.Geteuid() == 0
	for name, c := range map[string]struct {
		role    string
		through []string
		how     *syscall.SysProcAttr
		why     string
		root    bool // needs it, to be about this alone
	}{
		"no_new_privs":         {"peer", []string{"setpriv", "--no-new-privs"}, nil, "no_new_privs", false},
		"seccomp":              {"filtered peer", nil, nil, "seccomp", true},
		"a user namespace":     {"peer", nil, mapped(0), "another user namespace", false},
		"a mount namespace":    {"peer", nil, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}, "another mnt namespace", true},
		"a pid namespace":      {"peer", nil, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}, "another pid namespace", true},
		"all of a seal's kind": {"filtered peer", nil, mapped(unix.CLONE_NEWNS | unix.CLONE_NEWPID), "another user namespace", false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.root && !root {
				t.Skip("needs root: nobody else makes such a process without another sign")
			}
			if len(c.through) > 0 {
				if _, err := exec.LookPath(c.through[0]); err != nil {
					t.Skipf("needs %s", c.through[0])
				}
			}
			said := peerAnswer(t, socket, c.role, c.through, c.how)
			if !strings.HasPrefix(said, "HTTP/1.1 403") || !strings.Contains(said, c.why) || strings.Contains(said, p.config.Home) {
				t.Errorf("answered: %s", said)
			}
		})
	}
	until(t, 5*time.Second, "the log says so", func() bool {
		return strings.Contains(p.ask("GET", "/v1/log?outcome=denied", "").body, "sealed process")
	})
}

// The socket is no way in where it is mounted elsewhere either.
func TestSocketMountedElsewhere(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts")
	}
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skip("needs unshare")
	}
	p := begin(t)
	at := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(at, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--mount", "sh", "-ec", `mount --bind "$1" "$2"; exec "$3"`, "sh", filepath.Join(p.config.Home, SocketName), at, self)
	cmd.Env = append(os.Environ(), roleVariable+"=peer", saidVariable+"="+at)
	said, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(said), "HTTP/1.1 403") {
		t.Errorf("%v: %s", err, said)
	}
}

// A run's process gets nothing, also where the socket was granted to it.
func TestSealedRun(t *testing.T) {
	bournProgram := os.Getenv("BOURN_TEST_BINARY")
	if bournProgram == "" {
		t.Skip("needs BOURN_TEST_BINARY: the production binary")
	}
	p := begin(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(p.config.Home, SocketName)
	elsewhere := testHome(t)
	cmd := exec.Command(bournProgram, "run", "--preset", "none", "--read", self, "--read", p.config.Home, "--env", roleVariable, "--env", saidVariable, "--", self)
	cmd.Dir = elsewhere
	cmd.Env = append(os.Environ(), "BOURN_HOME="+filepath.Join(elsewhere, ".bourn"), roleVariable+"=peer", saidVariable+"="+socket)
	said, err := cmd.CombinedOutput()
	if strings.Contains(string(said), "200 OK") {
		t.Errorf("a sealed run is answered: %s", said)
	}
	t.Logf("%v: %s", err, said)
	if !strings.Contains(string(said), "no connection") && !strings.Contains(string(said), " 403 ") && !strings.Contains(string(said), "no answer") {
		t.Errorf("it is not told: %v: %s", err, said)
	}
}

// A peer that has ended when it is looked at is refused: its number may be another's by then.
func TestPeerEnded(t *testing.T) {
	dir := testHome(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// The shell hands its connection on to a child that stays, and ends.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVariable+"=passing peer", saidVariable+"="+filepath.Join(dir, "s"))
	stay, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	cmd.Stdin = stay
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	stay.Close()
	conn, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// It is open at the other end, and who opened it is gone.
	if err := conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
		t.Fatal("the connection was not handed on")
	}
	if peer, err := peerOf(conn); bourn.CodeOf(err) != bourn.CodeDenied {
		t.Errorf("%+v, %v", peer, err)
	}
}

// Before Linux 6.5 a number that is used again is told by its user and its start.
func TestStillTheOne(t *testing.T) {
	me := uint32(os.Geteuid())
	if err := stillTheOne(os.Getpid(), me, time.Now()); err != nil {
		t.Error(err)
	}
	if err := stillTheOne(os.Getpid(), me+1, time.Now()); err == nil {
		t.Error("another user's process")
	}
	if err := stillTheOne(os.Getpid(), me, time.Now().Add(-24*time.Hour)); err == nil {
		t.Error("a process that was started since")
	}
	if err := stillTheOne(1<<30, me, time.Now()); err == nil {
		t.Error("no process")
	}
}

// A flood of connections that are refused keeps nobody out and leaves nothing behind.
func TestRefusedFlood(t *testing.T) {
	dir := testHome(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	noted := make(chan struct{}, 10000)
	pl := newPeerListener(l, nil, func(context.Context, error) { noted <- struct{}{} })
	var pairs []net.Conn
	for range 500 {
		a, b := socketPair(t)
		pairs = append(pairs, b)
		pl.refuse(a, errGone)
		if n := len(pl.refused); n > maxRefusals {
			t.Fatalf("%d are being refused at once", n)
		}
	}
	closed := 0
	for _, b := range pairs {
		if err := b.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(b); err == nil || errors.Is(err, unix.ECONNRESET) {
			closed++
		}
		b.Close()
	}
	if closed != len(pairs) {
		t.Errorf("%d of %d were let go", closed, len(pairs))
	}
	if err := pl.Close(); err != nil {
		t.Error(err)
	}
	if len(pl.refused) != 0 {
		t.Error("somebody is still being refused")
	}
}

// socketPair returns two ends of a connection.
func socketPair(t *testing.T) (*net.UnixConn, net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends []net.Conn
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, c)
	}
	return ends[0].(*net.UnixConn), ends[1]
}

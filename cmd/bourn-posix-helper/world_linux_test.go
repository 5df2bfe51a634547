package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bourn/internal/posix"
	"bourn/internal/run/runtest"
)

// limit ends what hangs: that is a defect.
const limit = 20 * time.Second

// Where the world of a test has what it needs. The first two are a PREFIX.
const (
	helperPath  = "/mnt/libexec/bourn/bourn-posix-helper"
	programFile = "/mnt/bin/bourn"
	rolePath    = "/mnt/role" // this test binary
	homes       = "/mnt/workspace/private/people/"
)

// roles are what the test binary starts itself as, by its first argument. The helper is built apart; it is
// among them so that a change of it changes this binary, and the go command runs the tests again.
var roles = map[string]func(){"bourn": standIn, "caller": caller, "spin": spin, "hold": hold, "queue": queue, "bourn-posix-helper": main}

func TestMain(m *testing.M) {
	if role := roles[os.Args[0]]; role != nil {
		role()
		os.Exit(120)
	}
	status := m.Run()
	if builtDir != "" {
		os.RemoveAll(builtDir)
	}
	os.Exit(status)
}

var (
	build    sync.Once
	builtDir string
	errBuild error
)

// built returns the path of the helper as it is shipped: static, and with every path as it is by default.
func built(t testing.TB) string {
	t.Helper()
	if given := os.Getenv("BOURN_HELPER_BUILT"); given != "" {
		return given
	}
	build.Do(func() {
		if builtDir, errBuild = os.MkdirTemp("", "bourn-helper-"); errBuild != nil {
			return
		}
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", builtDir+"/helper", "bourn/cmd/bourn-posix-helper")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			errBuild = fmt.Errorf("%w: %s", err, out)
			return
		}
		errBuild = os.Chmod(builtDir, 0o755)
	})
	if errBuild != nil {
		t.Fatalf("cannot build the helper: %v", errBuild)
	}
	return builtDir + "/helper"
}

// inWorld runs f as root in mount, process and IPC namespaces of its own, in which /etc, /run and /mnt are
// empty file systems in memory, without nosuid. It calls the test anew in a child, so f runs there.
func inWorld[T testing.TB](t T, f func(t T)) {
	t.Helper()
	if outside := os.Getenv("BOURN_HELPER_WORLD"); outside != "" {
		enter(t, outside)
		f(t)
		return
	}
	runtest.Need(t, "root", os.Getuid() == 0)
	outside, err := os.Readlink("/proc/self/ns/mnt")
	must(t, err)
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.timeout=5m"}
	if _, bench := any(t).(*testing.B); bench {
		args = []string{"-test.run=^$", "-test.bench=^" + t.Name() + "$", "-test.benchtime=300x"}
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "BOURN_HELPER_WORLD="+outside, "BOURN_HELPER_BUILT="+built(t))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC, Pdeathsig: unix.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !bytes.Contains(out, []byte(t.Name())) {
		t.Fatalf("the test did not run:\n%s", out)
	}
	t.Logf("\n%s", out)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// enter makes the world. Nothing is mounted before the namespaces are known to be others, and nothing
// that is mounted can be seen from outside.
func enter(t testing.TB, outside string) {
	t.Helper()
	if inside, err := os.Readlink("/proc/thread-self/ns/mnt"); err != nil || inside == outside || os.Getpid() != 1 {
		t.Fatalf("this is no world of its own: %s %s, process %d: %v", inside, outside, os.Getpid(), err)
	}
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	mounts, err := os.ReadFile("/proc/thread-self/mountinfo")
	must(t, err)
	if bytes.Contains(mounts, []byte(" shared:")) || bytes.Contains(mounts, []byte(" master:")) {
		t.Fatalf("mounts would be seen outside:\n%s", mounts)
	}
	must(t, unix.Mount("proc", "/proc", "proc", 0, ""))
	self, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	helper, err := os.ReadFile(built(t))
	must(t, err)
	for _, at := range []string{"/etc", "/run", "/mnt"} {
		must(t, unix.Mount("world", at, "tmpfs", 0, "mode=755"))
	}
	unix.Umask(0o022)
	for _, dir := range []string{"/mnt/bin", "/mnt/libexec/bourn", "/etc/bourn", posix.DatabaseSocketDir, homes} {
		must(t, os.MkdirAll(dir, 0o755))
	}
	write(t, programFile, self, 0, 0, 0o755)
	must(t, os.Link(programFile, rolePath))
	write(t, helperPath, helper, 0, serviceUID, 0o4750)
	for name, uid := range map[string]int{"ann": annUID, "bob": bobUID, "gone": goneUID} {
		must(t, os.Mkdir(homes+name, 0o700))
		must(t, os.Chown(homes+name, 0, uid))
		must(t, os.Chmod(homes+name, 0o2770))
	}
	write(t, registryPath, encoded(t, people()), 0, 0, 0o644)
}

// write puts a file there, in place of what stands there.
func write(t testing.TB, name string, data []byte, uid, gid int, mode uint32) {
	t.Helper()
	must(t, os.RemoveAll(name))
	must(t, os.WriteFile(name, data, 0o600))
	must(t, os.Chown(name, uid, gid))
	must(t, unix.Chmod(name, mode))
}

// An asking is one start of the helper. Its zero value is the service asking with nothing.
type asking struct {
	uid    int   // who asks; 0 is the service, -1 root
	groups []int // supplementary
	call   call
	say    string                 // what the helper's socket gets to read
	files  map[int]*os.File       // in place of the socket and of the pipe
	extra  []*os.File             // descriptors 3 and more of the caller
	during func(pid int)          // while it runs
	socket func() ([2]int, error) // makes the socketpair; nil is the usual one
}

// An answer is what came of it.
type answer struct {
	status int
	signal syscall.Signal
	text   string
	state  *state // of the stand-in, if it was executed
	fds    []int  // descriptors that came over the socket
}

// ask starts the helper by way of the role caller.
func (a asking) ask(t testing.TB, args ...string) answer {
	t.Helper()
	if a.call.Path == "" {
		a.call.Path = helperPath
	}
	if a.call.Argv == nil {
		a.call.Argv = append([]string{"bourn-posix-helper"}, args...)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if a.socket != nil {
		pair, err = a.socket()
	}
	must(t, err)
	defer unix.Close(pair[0])
	theirs := os.NewFile(uintptr(pair[1]), "socket")
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	spec, err := json.Marshal(a.call)
	must(t, err)
	cmd := exec.CommandContext(ctx, rolePath, string(spec))
	cmd.Args[0] = "caller"
	cmd.Env = []string{}
	cmd.Dir = "/"
	var text bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, &text
	for fd, file := range a.files {
		switch fd {
		case 0:
			cmd.Stdin = file
		case 1:
			cmd.Stdout = file
		case 2:
			cmd.Stderr = file
		}
	}
	cmd.ExtraFiles = a.extra
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential(a.uid, a.groups)}
	must(t, cmd.Start())
	theirs.Close()
	if a.say != "" {
		_, err := unix.Write(pair[0], []byte(a.say))
		must(t, err)
	}
	_ = unix.Shutdown(pair[0], unix.SHUT_WR) // the helper may have ended already
	if a.during != nil {
		a.during(cmd.Process.Pid)
	}
	err = cmd.Wait()
	if ended := new(exec.ExitError); err != nil && !errors.As(err, &ended) {
		t.Fatalf("%v: %s", err, text.String())
	}
	out := answer{status: cmd.ProcessState.ExitCode(), text: text.String()}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		out.signal = status.Signal()
	}
	out.receive(t, pair[0])
	return out
}

// credential returns what a process of uid has; see asking.
func credential(uid int, groups []int) *syscall.Credential {
	switch uid {
	case 0:
		uid = serviceUID
	case -1:
		return &syscall.Credential{Groups: []uint32{}}
	}
	c := &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), Groups: []uint32{}}
	for _, g := range groups {
		c.Groups = append(c.Groups, uint32(g))
	}
	return c
}

// receive reads the socket to its end.
func (a *answer) receive(t testing.TB, fd int) {
	t.Helper()
	var said []byte
	for {
		buf, rights := make([]byte, 64<<10), make([]byte, 256)
		n, rn, _, _, err := unix.Recvmsg(fd, buf, rights, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
		if errors.Is(err, unix.ECONNRESET) {
			continue // it was closed with something unread
		}
		must(t, err)
		if n == 0 {
			break
		}
		messages, err := unix.ParseSocketControlMessage(rights[:rn])
		must(t, err)
		for _, m := range messages {
			fds, err := unix.ParseUnixRights(&m)
			must(t, err)
			a.fds = append(a.fds, fds...)
		}
		said = append(said, buf[:n]...)
	}
	if len(a.fds) > 0 {
		if len(said) != 1 || said[0] != 0 {
			t.Errorf("the descriptor came with %q", said)
		}
		return
	}
	if len(said) > 0 {
		a.state = new(state)
		if err := json.Unmarshal(said, a.state); err != nil {
			t.Fatalf("the stand-in said %q: %v", said, err)
		}
	}
}

// refused fails the test unless the helper refused for a reason, with a text that contains words.
func (a answer) refused(t testing.TB, reason posix.Reason, words string) {
	t.Helper()
	if a.state != nil || len(a.fds) > 0 {
		t.Errorf("it acted: %+v", a)
	}
	if a.status != reason.ExitStatus() || !strings.Contains(a.text, string(reason)+": ") || !strings.Contains(a.text, words) {
		t.Errorf("status %d, signal %v, %q; want %d, %s and %q", a.status, a.signal, a.text, reason.ExitStatus(), reason, words)
	}
}

// acted fails the test unless the stand-in ran, and returns what it saw.
func (a answer) acted(t testing.TB) state {
	t.Helper()
	if a.state == nil || a.status != 0 {
		t.Fatalf("it did not act: status %d, signal %v, %q", a.status, a.signal, a.text)
	}
	return *a.state
}

// start starts a role, or another program, as a person, and returns it once it runs. What is started is
// ended with the test.
func start(t testing.TB, uid int, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	if roles[args[0]] != nil {
		cmd.Path, cmd.Err = rolePath, nil
	}
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential(uid, nil)}
	ready, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := io.ReadFull(ready, make([]byte, 1)); err != nil {
		t.Fatalf("%v did not start: %v", args, err)
	}
	return cmd
}

// ended reports whether a process has ended by SIGKILL.
func ended(cmd *exec.Cmd) bool {
	pid := cmd.Process.Pid
	status, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "status"))
	return err != nil || hasEnded(status)
}

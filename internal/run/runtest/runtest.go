// Package runtest runs the production binary for tests: built without cgo, as root and
// as an ordinary user, in directories of its own.
package runtest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// OrdinaryUID is the uid of the ordinary user that tests run by root act as. No account
// needs to exist for it.
const OrdinaryUID = 12345

// limit is how long one command may take before the test fails: a hang is a defect.
const limit = 60 * time.Second

var (
	build    sync.Once
	built    string
	buildErr error
)

// Binary returns the path of the production binary: $BOURN_TEST_BINARY, or one that is
// built once for the test process. Every user may execute it.
func Binary(t testing.TB) string {
	t.Helper()
	build.Do(func() {
		if built = os.Getenv("BOURN_TEST_BINARY"); built != "" {
			return
		}
		dir, err := os.MkdirTemp("", "bourn-binary-")
		if err != nil {
			buildErr = err
			return
		}
		built = filepath.Join(dir, "bourn")
		cmd := exec.Command("go", "build", "-trimpath", "-o", built, "bourn/cmd/bourn")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			buildErr = errors.Join(err, errors.New(string(out)))
			return
		}
		buildErr = os.Chmod(dir, 0o755)
	})
	if buildErr != nil {
		t.Fatalf("cannot build bourn: %v", buildErr)
	}
	return built
}

// Need skips the test unless the host has a feature, or fails it where
// BOURN_TEST_NEED lists that feature: CI may not pass by skipping.
func Need(t testing.TB, feature string, has bool) {
	t.Helper()
	if has {
		return
	}
	for _, f := range strings.Split(os.Getenv("BOURN_TEST_NEED"), ",") {
		if f == feature {
			t.Fatalf("BOURN_TEST_NEED asks for %s, and this host does not have it", feature)
		}
	}
	t.Skipf("this host lacks %s", feature)
}

// Users calls f as a subtest for each user that the test process can act as: itself,
// and where it is root an ordinary user as well; see OwnOnly.
func Users(t *testing.T, f func(t *testing.T, u *User)) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Run("user", func(t *testing.T) { f(t, NewUser(t, os.Getuid())) })
		return
	}
	t.Run("root", func(t *testing.T) { f(t, NewUser(t, 0)) })
	if !OwnOnly() {
		t.Run("user", func(t *testing.T) { f(t, NewUser(t, OrdinaryUID)) })
	}
}

// A User has a home and a place to work in, below a directory that every user can pass.
type User struct {
	UID  int
	Dir  string // holds Home and Work
	Home string
	Work string // a project directory; Run starts there
	Env  []string
	// RunAs is the account that root's runs become; see NewAccount. "" is a user who starts
	// Bourn without root.
	RunAs string
	t     testing.TB
}

// NewUser makes a user's directories. They are removed when the test ends.
func NewUser(t testing.TB, uid int) *User {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "bourn-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	u := &User{UID: uid, Dir: dir, Home: filepath.Join(dir, "home"), Work: filepath.Join(dir, "work"), t: t}
	u.Env = []string{"HOME=" + u.Home, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "USER=tester"}
	u.must(os.Chmod(dir, 0o755))
	u.Mkdir(u.Home)
	u.Mkdir(u.Work)
	return u
}

func (u *User) must(err error) {
	u.t.Helper()
	if err != nil {
		u.t.Fatal(err)
	}
}

// own gives a path to the user.
func (u *User) own(path string) {
	u.t.Helper()
	if os.Getuid() == 0 && u.UID != 0 {
		u.must(os.Lchown(path, u.UID, u.UID))
	}
}

// Path returns a path below the user's work directory.
func (u *User) Path(rel string) string {
	if filepath.IsAbs(rel) {
		return rel
	}
	return filepath.Join(u.Work, rel)
}

// Mkdir makes a directory and its parents, owned by the user.
func (u *User) Mkdir(rel string) string {
	u.t.Helper()
	at := u.Path(rel)
	if _, err := os.Lstat(at); err == nil {
		return at
	}
	if parent := filepath.Dir(at); parent != u.Dir {
		u.Mkdir(parent)
	}
	u.must(os.Mkdir(at, 0o755))
	u.own(at)
	return at
}

// Write makes a file, and its parents, owned by the user.
func (u *User) Write(rel, content string) string {
	u.t.Helper()
	at := u.Path(rel)
	u.Mkdir(filepath.Dir(at))
	u.must(os.WriteFile(at, []byte(content), 0o644))
	u.own(at)
	return at
}

// Symlink makes a symlink owned by the user.
func (u *User) Symlink(target, rel string) string {
	u.t.Helper()
	at := u.Path(rel)
	u.must(os.Symlink(target, at))
	u.own(at)
	return at
}

// Read returns a file's content as the test process sees it.
func (u *User) Read(rel string) string {
	u.t.Helper()
	data, err := os.ReadFile(u.Path(rel))
	u.must(err)
	return string(data)
}

// A Result is how a command ended.
type Result struct {
	Out, Err string
	Status   int            // -1 when a signal ended it
	Signal   syscall.Signal // 0 when it exited
}

// Command returns a command that the user would start in their work directory.
func (u *User) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if u.RunAs != "" && name == Binary(u.t) {
		return u.AsRoot(ctx, u.runAs(args)...)
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = u.Work, u.Env
	if os.Getuid() == 0 && u.UID != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(u.UID), Gid: uint32(u.UID)}}
	}
	return cmd
}

// Do runs a command and returns how it ended.
func (u *User) Do(name string, args ...string) Result {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return u.Wait(u.Command(ctx, name, args...))
}

// Wait runs cmd, which may have been altered, and returns how it ended.
func (u *User) Wait(cmd *exec.Cmd) Result {
	u.t.Helper()
	var out, err bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &err
	}
	runErr := cmd.Run()
	var exit *exec.ExitError
	if runErr != nil && !errors.As(runErr, &exit) {
		u.t.Fatalf("%v: %v", cmd.Args, runErr)
	}
	r := Result{Out: out.String(), Err: err.String(), Status: cmd.ProcessState.ExitCode()}
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		r.Signal = ws.Signal()
	}
	return r
}

// Bourn runs the production binary.
func (u *User) Bourn(args ...string) Result {
	u.t.Helper()
	return u.Do(Binary(u.t), args...)
}

// Sh runs a shell script sealed: bourn run -q FLAGS -- sh -c script.
func (u *User) Sh(script string, flags ...string) Result {
	u.t.Helper()
	args := append([]string{"run", "-q"}, flags...)
	return u.Bourn(append(args, "--", "sh", "-c", script)...)
}

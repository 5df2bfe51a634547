package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bourn"
	"bourn/internal/review"

	"golang.org/x/sys/unix"
)

// actorVariable makes the test program an actor on descriptor 3, as its value says.
const actorVariable = "BOURN_TEST_ACTOR"

// quickly is for the environment of a child of a -race test, which else takes a second to end.
const quickly = "GORACE=atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	if config := os.Getenv(actorVariable); config != "" {
		os.Unsetenv(actorVariable)
		var a Actor
		if err := json.Unmarshal([]byte(config), &a); err != nil {
			panic(err)
		}
		unix.CloseOnExec(3)
		if err := a.Serve(context.Background(), actorSocket(3)); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(9)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// rounds is how often a test tries again what goes wrong only now and then: n times, or fewer
// under the race detector in short, which is after what it sees in each round.
func rounds(n int) int {
	if testing.Short() && slower > 1 {
		return n/5 + 1
	}
	return n
}

// An owner is the control plane's side, with an actor in a process of its own.
type owner struct {
	*Client
	t     testing.TB
	cmd   *exec.Cmd
	conn  net.Conn
	cwd   string
	rules *review.Compiled
}

func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// socketpair returns this process's end and the file for the other's.
func socketpair(t testing.TB) (net.Conn, *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours := os.NewFile(uintptr(fds[0]), "actor")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	return conn, os.NewFile(uintptr(fds[1]), "owner")
}

func startActor(t testing.TB, a *Actor) (net.Conn, *exec.Cmd) {
	t.Helper()
	config, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	conn, theirs := socketpair(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	if a.Sole { // in a pid namespace of its own, and with a /proc of that
		cmd = exec.Command("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc", self)
	}
	cmd.Env = append(os.Environ(), actorVariable+"="+string(config), quickly)
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	t.Cleanup(func() {
		conn.Close()
		_ = cmd.Wait()
	})
	return conn, cmd
}

// newOwner starts an actor in dir, with hard blocks: documents of single rules.
func newOwner(t testing.TB, dir string, hardBlocks ...string) *owner {
	t.Helper()
	return newOwnerOf(t, &Actor{Version: "test", Cwd: dir, Env: []string{"PATH=/usr/bin:/bin", "HOME=" + dir}}, hardBlocks...)
}

func newOwnerOf(t testing.TB, a *Actor, hardBlocks ...string) *owner {
	t.Helper()
	conn, cmd := startActor(t, a)
	c, err := Dial(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	o := &owner{Client: c, t: t, cmd: cmd, conn: conn, cwd: a.Cwd}
	o.setRules(a.base(), hardBlocks...)
	return o
}

func (o *owner) setRules(base review.Base, hardBlocks ...string) {
	o.t.Helper()
	document := []byte(`{"version":1,"hardBlocks":[` + strings.Join(hardBlocks, ",") + `]}`)
	b, problems := review.Parse(document, base)
	if len(problems) > 0 {
		o.t.Fatal(problems)
	}
	compiled, err := review.Compile(b, base)
	if err != nil {
		o.t.Fatal(err)
	}
	o.rules = compiled
	if err := o.SetRules(document); err != nil {
		o.t.Fatal(err)
	}
}

// errReviewed says that the owner's own review had refused.
var errReviewed = errors.New("the owner's review refuses")

// review is what the control plane does.
func (o *owner) review(r Request) (Review, error) {
	action, err := r.Action()
	if err != nil {
		return Review{}, err
	}
	v := review.Judge(action, o.rules)
	if v.Outcome != bourn.Allow {
		return Review{}, errReviewed
	}
	return Review{Outcome: v.Outcome, Action: action.Digest(), Rules: o.rules.Digest()}, nil
}

func (o *owner) ask(r Request, result any) error { return o.askFor(o.t.Context(), r, result, nil) }

func (o *owner) askFor(ctx context.Context, r Request, result any, chunk func([]byte)) error {
	if r.Tool == "" {
		r.Tool = "test_" + string(r.Verb)
	}
	v, err := o.review(r)
	if err != nil {
		return err
	}
	return o.Do(ctx, r, v, result, chunk)
}

func (o *owner) must(r Request, result any) {
	o.t.Helper()
	if err := o.ask(r, result); err != nil {
		o.t.Fatalf("%s %s: %v (%s)", r.Verb, r.Path, err, reasonOf(err))
	}
}

// refused holds a request against the reason that it is to be refused for.
func (o *owner) refused(r Request, reason string) {
	o.t.Helper()
	err := o.ask(r, nil)
	if got := reasonOf(err); got != reason {
		o.t.Errorf("%s %q -> %q: %v (reason %q); want %q", r.Verb, r.Path, r.To, err, got, reason)
	}
}

func reasonOf(err error) string {
	var p *Problem
	switch {
	case err == nil:
		return ""
	case errors.As(err, &p):
		return p.Reason
	case errors.Is(err, errReviewed):
		return "owner"
	}
	return err.Error()
}

const blocked = "hard_policy_block:user_configured_hard_block:"

// rule is a hard block on paths.
func rule(id, match, pattern string, operations ...string) string {
	ops, _ := json.Marshal(operations)
	text, _ := json.Marshal(pattern)
	return `{"id":"` + id + `","type":"path","match":"` + match + `","pattern":` + string(text) + `,"operations":` + string(ops) + `}`
}

func put(t testing.TB, at, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return at
}

func content(t testing.TB, at string) string {
	t.Helper()
	b, err := os.ReadFile(at)
	if errors.Is(err, os.ErrNotExist) {
		return "(none)"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func link(t testing.TB, target, at string) {
	t.Helper()
	if err := os.Symlink(target, at); err != nil {
		t.Fatal(err)
	}
}

// tree is everything below a directory: path to content, link target or kind.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(at string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, at)
		switch {
		case d.IsDir():
			all[rel] = "(directory)"
		case d.Type()&os.ModeSymlink != 0:
			all[rel], _ = os.Readlink(at)
		case d.Type().IsRegular():
			all[rel] = content(t, at)
		default:
			all[rel] = d.Type().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// eventually waits for something that another process does.
func eventually(t testing.TB, within time.Duration, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(within); !is(); <-tick.C {
		if time.Now().After(until) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

var _ io.ReadWriteCloser = net.Conn(nil)

func asProblem(err error, p **Problem) bool { return errors.As(err, p) }

func mustCompile(t testing.TB, dir string, hardBlocks ...string) *review.Compiled {
	t.Helper()
	base := review.Base{Root: dir}
	b, problems := review.Parse([]byte(`{"version":1,"hardBlocks":[`+strings.Join(hardBlocks, ",")+`]}`), base)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	c, err := review.Compile(b, base)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

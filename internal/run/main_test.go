package run_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bourn/internal/run/runtest"

	"github.com/google/go-cmp/cmp"
)

// patience is how long an event may take before its absence is a defect. The machine
// may be slow and shared.
const patience = 12 * time.Second

func TestMain(m *testing.M) {
	status := m.Run()
	if probeDir != "" {
		os.RemoveAll(probeDir)
	}
	os.Exit(status)
}

var (
	probeOnce sync.Once
	probeDir  string
	probeErr  error
)

// probe returns the path of the program that tries things inside a seal, built once.
// It lies in a directory of its own that every user can read.
func probe(t testing.TB) string {
	t.Helper()
	probeOnce.Do(func() {
		if probeDir, probeErr = os.MkdirTemp("/var/tmp", "bourn-probe-"); probeErr != nil {
			return
		}
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(probeDir, "probe"), "bourn/internal/run/testdata/probe")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			probeErr = fmt.Errorf("%w: %s", err, out)
			return
		}
		probeErr = os.Chmod(probeDir, 0o755)
	})
	if probeErr != nil {
		t.Fatalf("cannot build the probe: %v", probeErr)
	}
	return filepath.Join(probeDir, "probe")
}

// sealed returns the arguments of bourn that run the probe sealed.
func sealed(t testing.TB, flags []string, args ...string) []string {
	all := append([]string{"run", "-q", "--read", probe(t)}, flags...)
	return append(append(all, "--", probe(t)), args...)
}

// answers is what the kernel said to each operation: "ok …" or the name of an errno.
type answers map[string]string

// try tries operations in a run of u's and returns what the kernel said.
func try(t *testing.T, u *runtest.User, flags []string, ops ...string) answers {
	t.Helper()
	return parse(t, u.Bourn(sealed(t, flags, append([]string{"try"}, ops...)...)...))
}

// outside tries operations as u without a seal: an operation that fails there too
// shows nothing when it fails inside.
func outside(t *testing.T, u *runtest.User, ops ...string) answers {
	t.Helper()
	return parse(t, u.Do(probe(t), append([]string{"try"}, ops...)...))
}

func parse(t *testing.T, r runtest.Result) answers {
	t.Helper()
	got := answers{}
	if err := json.Unmarshal([]byte(r.Out), &got); err != nil || r.Status != 0 {
		t.Fatalf("the probe did not answer: status %d, out %q, err %q", r.Status, r.Out, r.Err)
	}
	return got
}

// are reports every answer that is not one of the wanted ones, separated by |. With a
// star at its end a wanted answer is a prefix.
func (a answers) are(t *testing.T, want string, ops ...string) {
	t.Helper()
	for _, op := range ops {
		good := false
		for _, w := range strings.Split(want, "|") {
			prefix, star := strings.CutSuffix(w, "*")
			good = good || a[op] == w || star && strings.HasPrefix(a[op], prefix)
		}
		if !good {
			t.Errorf("%s: %q, want %s", op, a[op], want)
		}
	}
}

// refused reports every operation that succeeded.
func (a answers) refused(t *testing.T, ops ...string) {
	t.Helper()
	for _, op := range ops {
		if said, tried := a[op]; !tried || strings.HasPrefix(said, "ok") || said == "no such operation" {
			t.Errorf("%s: %q, want it refused", op, said)
		}
	}
}

// all returns the operations of a.
func (a answers) all() []string {
	var ops []string
	for op := range a {
		ops = append(ops, op)
	}
	return ops
}

// secret is what denied files hold. hunted is the same backwards, for the probe's hunt.
const (
	secret = "SECRET-8d1f4c"
	hunted = "c4f1d8-TERCES"
)

// noSecret reports a secret that came out.
func noSecret(t *testing.T, what string, texts ...string) {
	t.Helper()
	for _, s := range texts {
		if strings.Contains(s, secret) {
			t.Errorf("%s: the secret came out: %q", what, s)
		}
	}
}

func (a answers) noSecret(t *testing.T) {
	t.Helper()
	for op, said := range a {
		noSecret(t, op, said)
	}
}

// tree describes everything below directories: names, types, modes, sizes, content
// hashes of small files, link counts. Two equal descriptions mean that nothing stayed.
func tree(t testing.TB, dirs ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			var st syscall.Stat_t
			if err := syscall.Lstat(path, &st); err != nil {
				return err
			}
			line := fmt.Sprintf("%o nlink %d ino %d uid %d", st.Mode, st.Nlink, st.Ino, st.Uid)
			if d.Type().IsRegular() {
				line += fmt.Sprintf(" size %d", st.Size)
			}
			// What its mode closes to this user is told by its size.
			if d.Type().IsRegular() && st.Size < 1<<16 && (st.Mode&0o400 != 0 || os.Getuid() == 0) {
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				line += fmt.Sprintf(" %q", data)
			}
			out[path] = line
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// unchanged compares descriptions.
func unchanged(t *testing.T, what string, before, after map[string]string) {
	t.Helper()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("%s changed (-before +after):\n%s", what, diff)
	}
}

// ended wants a command to have ended well, and returns what it printed.
func ended(t *testing.T, r runtest.Result) string {
	t.Helper()
	if r.Status != 0 {
		t.Fatalf("status %d, out %q, err %q", r.Status, r.Out, r.Err)
	}
	return r.Out
}

// eventually waits until ok holds, looking again and again, at most for patience.
func eventually(t *testing.T, what string, ok func() bool) bool {
	t.Helper()
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		if ok() {
			return true
		}
	}
	t.Errorf("it did not come to be: %s", what)
	return false
}

// mountTable is the mount table of the test process: what runs do must not show in it.
func mountTable(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// marked returns the processes that have a text in their environment or command line,
// apart from the test process and zombies.
func marked(t testing.TB, mark string) map[int]string {
	t.Helper()
	out := map[int]string{}
	at, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range at {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if pid == os.Getpid() {
			continue
		}
		command, _ := os.ReadFile(dir + "/cmdline")
		environ, _ := os.ReadFile(dir + "/environ")
		if bytes.Contains(command, []byte(mark)) || bytes.Contains(environ, []byte(mark)) {
			out[pid] = strings.ReplaceAll(string(command), "\x00", " ")
		}
	}
	return out
}

// children returns the live children of a process.
func children(pid int) []int {
	var out []int
	at, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, path := range at {
		data, _ := os.ReadFile(path)
		for _, f := range strings.Fields(string(data)) {
			n, _ := strconv.Atoi(f)
			out = append(out, n)
		}
	}
	return out
}

// descendants returns a process and everything below it.
func descendants(pid int) []int {
	all := []int{pid}
	for _, c := range children(pid) {
		all = append(all, descendants(c)...)
	}
	return all
}

// alive reports whether a process exists and is no zombie.
func alive(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// A live run is one that goes on while the test does something.
type live struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string // of standard output
	err   bytes.Buffer
	done  chan struct{}
	heard []string
	in    io.WriteCloser
}

// start starts a command and reads its output line by line. It is killed when the test
// ends.
func start(t *testing.T, cmd *exec.Cmd) *live {
	t.Helper()
	l := &live{t: t, cmd: cmd, lines: make(chan string, 4096), done: make(chan struct{})}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if cmd.Stdin == nil {
		if l.in, err = cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
	}
	cmd.Stderr = &l.err
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			l.lines <- s.Text()
		}
		close(l.lines)
		_ = cmd.Wait()
		close(l.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-l.done
	})
	return l
}

// bourn starts bourn for u.
func startBourn(t *testing.T, u *runtest.User, args ...string) *live {
	t.Helper()
	return start(t, u.Command(context.Background(), runtest.Binary(t), args...))
}

// serve starts a probe sealed that answers operations until its input ends. What bourn
// says at the end stands in l.err.
func serve(t *testing.T, u *runtest.User, flags ...string) *live {
	t.Helper()
	args := append([]string{"run", "--read", probe(t)}, flags...)
	l := startBourn(t, u, append(args, "--", probe(t), "serve")...)
	l.wait("ready")
	return l
}

// ask performs one operation in a served probe.
func (l *live) ask(op string) string {
	l.t.Helper()
	if _, err := fmt.Fprintln(l.in, op); err != nil {
		l.t.Fatalf("cannot ask the probe: %v, err %q", err, l.err.String())
	}
	_, said, _ := strings.Cut(l.wait(op+"\t"), "\t")
	return said
}

// becomes asks again and again until the answer begins with want.
func (l *live) becomes(op, want string) {
	l.t.Helper()
	last := ""
	eventually(l.t, op+" is answered "+want, func() bool {
		last = l.ask(op)
		return strings.HasPrefix(last, want)
	})
	if !strings.HasPrefix(last, want) {
		l.t.Errorf("%s: %q, want %s", op, last, want)
	}
}

// finish ends the probe's input and returns what bourn said on standard error.
func (l *live) finish() string {
	l.t.Helper()
	l.in.Close()
	if ws := l.end(); ws.ExitStatus() != 0 {
		l.t.Errorf("%v: status %d, err %q", l.cmd.Args, ws.ExitStatus(), l.err.String())
	}
	return l.err.String()
}

// wait waits for a line that contains text and returns it.
func (l *live) wait(text string) string {
	l.t.Helper()
	after := time.After(patience)
	for {
		select {
		case line, ok := <-l.lines:
			if !ok {
				<-l.done
				l.t.Fatalf("%v ended without saying %q: %v, said %q, err %q", l.cmd.Args, text, l.cmd.ProcessState, l.heard, l.err.String())
			}
			l.heard = append(l.heard, line)
			if strings.Contains(line, text) {
				return line
			}
		case <-after:
			l.t.Fatalf("%v did not say %q; said %q", l.cmd.Args, text, l.heard)
		}
	}
}

// end waits until the command has ended.
func (l *live) end() syscall.WaitStatus {
	l.t.Helper()
	after := time.After(patience)
	for lines := l.lines; ; {
		select {
		case line, ok := <-lines:
			if !ok {
				lines = nil
				continue
			}
			l.heard = append(l.heard, line)
		case <-l.done:
			return l.cmd.ProcessState.Sys().(syscall.WaitStatus)
		case <-after:
			l.t.Fatalf("%v did not end; said %q", l.cmd.Args, l.heard)
		}
	}
}

// agent makes an agent by hand: its profile, its key and its home.
func agent(t *testing.T, u *runtest.User, bournHome, name, filesystem string) {
	t.Helper()
	dir := filepath.Join(bournHome, "agents", name)
	u.Write(filepath.Join(dir, "profile.yaml"), "version: 1\nagent: "+name+"\nfilesystem: "+filesystem+"\n")
	u.Write(filepath.Join(dir, "identity.key"), secret+"\n")
	u.Mkdir(filepath.Join(dir, "home"))
}

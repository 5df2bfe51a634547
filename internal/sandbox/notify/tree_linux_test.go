//go:build amd64 || arm64

package notify

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"bourn/internal/sandbox/seccomp"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// execute replaces the process by the program.
func execute(req request, _ *answer) error {
	if err := unix.Chdir(req.Dir); err != nil {
		return err
	}
	return unix.Exec(req.Argv[0], req.Argv, os.Environ())
}

// script does what a program would. Paths that machines differ in are filtered out by the
// test, which looks at its own directory and at programs.
const script = `
: < file
: > made
exec 7< sub
: < /proc/self/fd/7/below
mv made moved
cd sub
: < ../file
./missing
exit 0
`

func TestShell(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		for _, send := range []bool{false, true} {
			dir := newDir(t, uid)
			writable(t, uid, filepath.Join(dir, "file"), false)
			writable(t, uid, filepath.Join(dir, "sub"), true)
			writable(t, uid, filepath.Join(dir, "sub/below"), false)
			writable(t, uid, filepath.Join(dir, "script"), false)
			if err := os.WriteFile(filepath.Join(dir, "script"), []byte(script), 0o644); err != nil {
				t.Fatal(err)
			}
			req := request{Do: "run", Dir: dir, Argv: []string{"/bin/sh", "script"}}
			var got []Event
			if send {
				req.Do, req.Send = "exec", true
				s := start(t, uid, nil, req)
				if err := Serve(s.fd, func(e Event) { got = append(got, e) }); err != nil {
					t.Error(err)
				}
				s.answer(t)
			} else {
				got = watched(t, uid, req).Events
			}
			want := []string{
				"exec /bin/sh", "read DIR/script", "read DIR/file", "write DIR/made", "read DIR/sub",
				"read /proc/self/fd/7/below", "exec mv", "write DIR/made", "write DIR/moved", "read DIR/file", "exec DIR/sub/missing",
			}
			if diff := cmp.Diff(want, essence(got, dir)); diff != "" {
				t.Errorf("sent: %v (-want +got):\n%s\n%v", send, diff, got)
			}
		}
	})
}

// essence leaves out what shells and C libraries differ in: where they look for programs
// and libraries, and that they look at a file before they use it.
func essence(events []Event, dir string) (out []string) {
	for _, e := range events {
		path := strings.Replace(e.Path, dir, "DIR", 1)
		looks := strings.Contains(e.Call, "stat") || strings.Contains(e.Call, "access")
		switch {
		case looks:
		case strings.HasPrefix(path, "DIR") || strings.HasPrefix(path, "/proc/self/fd/7/") || path == "/bin/sh":
			out = append(out, string(e.Op)+" "+path)
		case e.Op == Exec && filepath.Base(path) == "mv" && !slices.Contains(out, "exec mv"):
			out = append(out, "exec mv")
		}
	}
	return out
}

// startMany has a shell start as many processes at once.
func startMany(req request, ans *answer) error {
	req.Argv = []string{"/bin/sh", "-c", `for i in $(seq "$1"); do (: < "f$i"; exec /bin/true "$i") & done; wait`, "sh", req.Argv[0]}
	return run(req, &ans.Out)
}

func TestMany(t *testing.T) {
	const processes = 50
	asEachUser(t, func(t *testing.T, uid int) {
		dir := newDir(t, uid)
		var want []string
		for i := range processes {
			name := filepath.Join(dir, fmt.Sprintf("f%d", i+1))
			writable(t, uid, name, false)
			want = append(want, name)
		}
		got := watched(t, uid, request{Do: "many", Dir: dir, Argv: []string{strconv.Itoa(processes)}}).Events
		var files []string
		pids, programs := map[int]bool{}, 0
		for _, e := range got {
			switch {
			case strings.HasPrefix(e.Path, dir):
				files = append(files, e.Path)
				pids[e.Pid] = true
			case e.Path == "/bin/true" && e.Op == Exec && pids[e.Pid]:
				programs++
			}
		}
		slices.Sort(files)
		slices.Sort(want)
		if diff := cmp.Diff(want, files); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
		if len(pids) != processes || programs != processes {
			t.Errorf("%d processes opened a file and %d of them executed a program, want %d", len(pids), programs, processes)
		}
	})
}

// TestKilled kills one watched process whose call is looked at and one whose call is queued.
func TestKilled(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		dir := newDir(t, uid)
		writable(t, uid, filepath.Join(dir, "file"), false)
		text := `(: < first) & a=$!; (: < second) & b=$!; wait $a; echo $?; wait $b; echo $?; : < file`
		s := start(t, uid, nil, request{Do: "exec", Send: true, Dir: dir, Argv: []string{"/bin/sh", "-c", text}})
		var got []string
		err := Serve(s.fd, func(e Event) {
			name := filepath.Base(e.Path)
			if !strings.HasPrefix(e.Path, dir) {
				return
			}
			got = append(got, name)
			if name != "first" && name != "second" || len(got) > 1 {
				return
			}
			for _, pid := range siblings(t, e.Pid) {
				if err := unix.Kill(pid, unix.SIGKILL); err != nil {
					t.Error(err)
				}
				for !dead(pid) {
					time.Sleep(time.Millisecond)
				}
			}
		})
		if err != nil {
			t.Error(err)
		}
		s.answer(t)
		if len(got) != 2 || got[1] != "file" {
			t.Errorf("events of %q, want one of first or second, and file", got)
		}
	})
}

// TestGone looks at a call whose caller was killed after it had been received: what is read
// then may be another process's.
func TestGone(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		s := start(t, uid, nil, request{Do: "exec", Send: true, Dir: "/", Argv: []string{"/bin/sh", "-c", ": < /etc/passwd"}})
		defer unix.Close(s.fd)
		events := 0
		r, err := newReader(s.fd, func(Event) { events++ })
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(r.proc)
		n := (*notification)(unsafe.Pointer(&r.notification[0]))
		for range 2 { // the execve, which goes on, and what comes after it
			if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s.fd), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(n))); errno != 0 {
				t.Fatal(errno)
			}
			if events == 1 {
				break
			}
			r.look(n)
			if err := r.proceed(n.id); err != nil || events != 1 {
				t.Fatalf("%d events, %v", events, err)
			}
			clear(r.notification)
		}
		gone := *n
		if err := s.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = s.cmd.Wait()
		n.pid = uint32(os.Getpid()) // as if its number had been used again
		path := []byte("/etc/passwd\x00")
		for i := range n.args {
			n.args[i] = uint64(uintptr(unsafe.Pointer(&path[0])))
		}
		r.look(n)
		runtime.KeepAlive(path)
		if err := r.proceed(gone.id); err != nil || events != 1 {
			t.Errorf("%d events, want 1; %v", events, err)
		}
		if err := r.run(); err != nil {
			t.Error(err)
		}
	})
}

// siblings waits until a process and a second child of its parent both wait for an answer,
// and returns the two.
func siblings(t *testing.T, pid int) []int {
	parent := field(pid, "PPid")
	for range 2000 {
		var out []int
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%s/task/%s/children", parent, parent))
		for _, child := range strings.Fields(string(text)) {
			n, _ := strconv.Atoi(child)
			stack, _ := os.ReadFile("/proc/" + child + "/syscall")
			if !strings.HasPrefix(string(stack), "running") && field(n, "State") == "S (sleeping)" {
				out = append(out, n)
			}
		}
		if len(out) == 2 {
			return out
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("the two processes do not wait")
	return nil
}

func field(pid int, name string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func dead(pid int) bool {
	state := field(pid, "State")
	return state == "" || strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}

// TestFork starts programs where Go has one processor, and while it collects much garbage.
func TestFork(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		for _, env := range [][]string{{"GOMAXPROCS=1"}, {"GOMAXPROCS=2", "GOGC=1"}} {
			for range 5 {
				s := start(t, uid, env, request{Do: "run", Dir: "/", Argv: []string{"/bin/true"}})
				if got := s.answer(t).Events; len(got) == 0 || got[0].Op != Exec || got[0].Path != "/bin/true" {
					t.Errorf("%v: %v", env, got)
				}
			}
		}
	})
}

func TestForkRestores(t *testing.T) {
	before := debug.SetGCPercent(70)
	defer debug.SetGCPercent(before)
	want := errors.New("no")
	if err := Fork(func() error { return want }); !errors.Is(err, want) {
		t.Errorf("Fork returned %v", err)
	}
	if got := debug.SetGCPercent(70); got != 70 {
		t.Errorf("the garbage collector is left at %d %%", got)
	}
}

// openFile says what an open gives when nobody serves.
func openFile(req request, ans *answer) error {
	_, err := unix.Open("/etc/passwd", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	ans.Out = fmt.Sprint(err)
	return nil
}

func TestReaderEnds(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		t.Run("before", func(t *testing.T) {
			s := start(t, uid, nil, request{Do: "open", Send: true})
			unix.Close(s.fd)
			if got := s.answer(t).Out; got != unix.ENOSYS.Error() {
				t.Errorf("open gives %s", got)
			}
		})
		t.Run("meanwhile", func(t *testing.T) {
			s := start(t, uid, nil, request{Do: "open", Send: true})
			func() {
				defer func() { _ = recover() }()
				_ = Serve(s.fd, func(e Event) { panic("no") })
			}()
			if got := s.answer(t).Out; got != unix.ENOSYS.Error() {
				t.Errorf("open gives %s", got)
			}
		})
	})
}

// installAgain asks for a second listener.
func installAgain(_ request, ans *answer) error {
	_, err := Install()
	ans.Out = fmt.Sprint(errors.Is(err, unix.EBUSY), err)
	return nil
}

func TestInstall(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		if got := watched(t, uid, request{Do: "again"}).Out; !strings.HasPrefix(got, "true ") {
			t.Errorf("a second time: %s", got)
		}
		if got := watched(t, uid, request{Do: "again", Plain: true}).Out; !strings.Contains(got, "no_new_privs") {
			t.Errorf("without no_new_privs: %s", got)
		}
	})
}

// makeRefused adds Bourn's own filter and makes calls that it refuses.
func makeRefused(req request, ans *answer) error {
	filter, err := seccomp.Filter(seccomp.Options{})
	if err == nil {
		err = seccomp.Install(filter)
	}
	if err != nil {
		return err
	}
	_, openErr := unix.Openat2(unix.AT_FDCWD, "/etc/passwd", &unix.OpenHow{})
	ans.Out = fmt.Sprint(openErr == unix.ENOSYS, unix.Fchmodat(unix.AT_FDCWD, req.Dir, 0o4755, 0) == unix.EPERM,
		unix.Fchmodat(unix.AT_FDCWD, req.Dir, 0o755, 0) == nil)
	return nil
}

func TestRefused(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		dir := newDir(t, uid)
		got := watched(t, uid, request{Do: "refused", Dir: dir})
		takePids(got.Events)
		if diff := cmp.Diff([]Event{{0, "fchmodat", Write, dir}}, got.Events); diff != "" || got.Out != "true true true" {
			t.Errorf("%s (-want +got):\n%s", got.Out, diff)
		}
	})
}

// TestHidden watches a program that its user may not read, and so not trace.
func TestHidden(t *testing.T) {
	needNotify(t)
	need(t, "root", os.Getuid() == 0)
	dir := newDir(t, os.Getuid())
	text, err := os.ReadFile("/bin/cat")
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(dir, "cat"), text, 0o711), os.Chmod(dir, 0o711))
	}
	if err != nil {
		t.Fatal(err)
	}
	got := watched(t, unprivileged, request{Do: "run", Dir: "/", Argv: []string{dir + "/cat", "/etc/passwd"}})
	if !strings.Contains(got.Out, "root:") {
		t.Errorf("the program did not run: %q", got.Out)
	}
	opens := 0
	for i, e := range got.Events {
		if (e.Path == "") != (i > 0) {
			t.Errorf("event %d: %v", i, e)
		}
		if e.Call == "openat" {
			opens++
		}
	}
	if opens == 0 {
		t.Errorf("no open was reported: %v", got.Events)
	}
}

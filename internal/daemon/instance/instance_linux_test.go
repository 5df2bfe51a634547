package instance

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bourn"

	"golang.org/x/sys/unix"
)

// role is the environment variable that makes this program a control plane's stand-in: it
// holds a home's lock. A deaf one hears no TERM.
const role = "BOURN_TEST_INSTANCE"

func TestMain(m *testing.M) {
	if said := os.Getenv(role); said != "" {
		kind, path, _ := strings.Cut(said, ":")
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err == nil {
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		}
		if err == nil {
			_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
		}
		if kind == "deaf" {
			signal.Ignore(syscall.SIGTERM)
		}
		fmt.Println("ready", err)
		_, _ = os.Stdin.Read(make([]byte, 1)) // until it is killed, or the test ends
	}
	os.Exit(m.Run())
}

// standIn starts a stand-in that holds a home.
func standIn(t *testing.T, home, kind string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), role+"="+kind+":"+filepath.Join(home, LockName))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready <nil>\n" {
		t.Fatalf("the stand-in: %q, %v", line, err)
	}
	return cmd
}

func none(t *testing.T, home string) {
	t.Helper()
	i, err := Find(home)
	if err != nil || i != nil {
		t.Errorf("found %+v, %v", i, err)
	}
}

func TestFindAndStop(t *testing.T) {
	for _, kind := range []string{"", "deaf"} {
		t.Run(kind, func(t *testing.T) {
			home := t.TempDir()
			none(t, home)
			cmd := standIn(t, home, kind)
			i, err := Find(home)
			if err != nil || i == nil {
				t.Fatalf("found %+v, %v", i, err)
			}
			defer i.Close()
			if held, err := Held(home); i.Pid != cmd.Process.Pid || err != nil || !held {
				t.Errorf("process %d, and it is %d; held: %t, %v", i.Pid, cmd.Process.Pid, held, err)
			}
			if _, err := Hold(home); bourn.CodeOf(err) != bourn.CodeConflict {
				t.Errorf("held twice: %v", err)
			}
			grace := 20 * time.Second
			if kind == "deaf" {
				grace = 100 * time.Millisecond
			}
			killed, err := i.Stop(grace)
			if err != nil || killed != (kind == "deaf") {
				t.Errorf("killed: %t, %v", killed, err)
			}
			if killed, err := i.Stop(grace); err != nil || killed {
				t.Errorf("a second time: %t, %v", killed, err)
			}
			none(t, home) // the lock file is there still
		})
	}
}

// A number that is another's by now is left alone: this process has not the file open.
func TestStale(t *testing.T) {
	home := t.TempDir()
	for _, said := range []string{"", "x", "-1", "0", fmt.Sprint(os.Getppid()), fmt.Sprint(os.Getpid()), "99999999999999999999"} {
		if err := os.WriteFile(filepath.Join(home, LockName), []byte(said+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		none(t, home)
	}
}

func TestHold(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, LockName), []byte(fmt.Sprint(os.Getpid())), 0o600); err != nil {
		t.Fatal(err)
	}
	release, err := Hold(home)
	if err != nil {
		t.Fatal(err)
	}
	none(t, home) // who holds it is no control plane
	if held, err := Held(home); err != nil || !held {
		t.Errorf("held: %t, %v", held, err)
	}
	release()
	if held, err := Held(home); err != nil || held {
		t.Errorf("held: %t, %v", held, err)
	}
}

func TestRuns(t *testing.T) {
	home := t.TempDir()
	standIn(t, home, "")
	i, err := Find(home)
	if err != nil || i == nil {
		t.Fatalf("found %+v, %v", i, err)
	}
	defer i.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if !i.Runs(self) || i.Runs("/bin/sh") {
		t.Errorf("it runs %s: %t, sh: %t", self, i.Runs(self), i.Runs("/bin/sh"))
	}
}

// place makes a bournd in a directory of a mode, below one that everybody can write.
func place(t *testing.T, dir string, mode, fileMode os.FileMode) string {
	t.Helper()
	at := filepath.Join(dir, "bournd")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{at: fileMode, dir: mode} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	return at
}

func TestProgram(t *testing.T) {
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	good := place(t, in("good"), 0o755, 0o755)
	place(t, in("open"), 0o777, 0o755)
	place(t, in("written"), 0o755, 0o757)
	place(t, in("plain"), 0o755, 0o644)
	if err := os.Mkdir(in("links"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(in("open/bournd"), in("links/bournd")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		self, path string
		want       string
		code       bourn.Code
	}{
		{"good", "", good, ""},
		{"none", in("good"), good, ""},
		{"good", in("open"), good, ""}, // what is beside counts
		{"plain", in("good"), good, ""},
		{"none", ".:" + in("good"), good, ""},
		{"none", in("none"), "", bourn.CodeNotFound},
		{"none", "", "", bourn.CodeNotFound},
		{"open", in("good"), "", bourn.CodeDenied},
		{"written", "", "", bourn.CodeDenied},
		{"links", "", "", bourn.CodeDenied},
		{"none", in("open") + ":" + in("good"), "", bourn.CodeDenied},
	} {
		got, err := Program(in(tt.self)+"/bourn", tt.path)
		switch {
		case tt.code == "" && (err != nil || got != tt.want):
			t.Errorf("beside %s, or in %q: %s, %v", tt.self, tt.path, got, err)
		case tt.code != "" && (err == nil || bourn.CodeOf(err) != tt.code || bourn.HintOf(err) == ""):
			t.Errorf("beside %s, or in %q: %s, %v; want %s with a hint", tt.self, tt.path, got, err, tt.code)
		}
	}
}

func TestProgramOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: gives a file away")
	}
	at := place(t, filepath.Join(t.TempDir(), "bin"), 0o755, 0o755)
	if err := os.Chown(at, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if _, err := Program(filepath.Dir(at)+"/bourn", ""); bourn.CodeOf(err) != bourn.CodeDenied {
		t.Errorf("got %v", err)
	}
}

func TestLog(t *testing.T) {
	at := filepath.Join(t.TempDir(), LogName)
	l, err := OpenLog(at, 100)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, err := fmt.Fprintf(l, "%029d\n", i); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{at: "18 19", at + ".1": "15 16 17"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.FieldsSeq(string(text)) {
			got = append(got, strings.TrimLeft(line, "0"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s holds %v, not %s", filepath.Base(name), got, want)
		}
	}
	if info, err := os.Stat(at); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

package posix

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bourn"
	"bourn/internal/run/runtest"
)

// A test that ends processes is the first process of a pid namespace, so that whatever goes
// wrong ends nothing else. The environment says what a process of it is.
const endRole = "BOURN_TEST_END"

func init() {
	switch os.Getenv(endRole) {
	case "helper": // what the helper is while it ends what ann runs, started as its shield
		must := func(err error) {
			if err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
		}
		must(syscall.Setresuid(int(DefaultRange.HelperShield()), anns, int(DefaultRange.HelperShield())))
		fmt.Println("ready")
		_ = unix.Pause()
	case "headless":
		// The first thread ends and another goes on: /proc says that this is a zombie.
		go func() { select {} }()
		started := make(chan bool)
		go func() {
			runtime.LockOSThread() // a second thread, which stays
			close(started)
			_ = unix.Pause()
		}()
		<-started
		fmt.Println("ready")
		unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0) // init runs on the first thread
	}
}

const (
	anns  = 66016
	joes  = 1000
	limit = 30 * time.Second
)

func TestEndProcesses(t *testing.T) {
	if os.Getenv(endRole) == "first" {
		endProcessesHere(t)
		return
	}
	runtest.Need(t, "root", os.Geteuid() == 0)
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestEndProcesses$", "-test.v", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), endRole+"=first")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestEndProcesses") {
		t.Errorf("%v\n%s", err, out)
	}
}

// endProcessesHere is the test, as the first process of its namespace.
func endProcessesHere(t *testing.T) {
	if os.Getpid() != 1 {
		t.Fatal("this would end processes of the machine")
	}
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(t, unix.Mount("proc", "/proc", "proc", 0, ""))
	if f, err := Look("/proc/version"); err != nil || f.NoSUID {
		t.Errorf("%+v, %v", f, err)
	}
	must(t, unix.Mount("", "/proc", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID, ""))
	if f, err := Look("/proc/version"); err != nil || !f.NoSUID {
		t.Errorf("mounted with nosuid: %+v, %v", f, err)
	}
	self := "/proc/self/exe"
	others := []*exec.Cmd{as(t, joes, "sleep", "600"), as(t, 0, "sleep", "600"), as(t, anns+1, "sleep", "600")}
	// Of ann: one that forks as fast as it can, until it may not; sessions of their own; one that
	// ignores what can be ignored; one that signals everything of its own; one without its first thread.
	for _, script := range []string{
		`ulimit -u 60; echo ready; while :; do sh -c 'sleep 600' & done 2>/dev/null`,
		`echo ready; while :; do setsid sh -c 'exit 0'; done`,
		`trap '' HUP INT TERM USR1; echo ready; while :; do sleep 600; done`,
		`echo ready; while :; do kill -CONT -1; done`,
	} {
		as(t, anns, "sh", "-c", script)
	}
	headless := as(t, anns, self)
	for end := time.Now().Add(limit); ; runtime.Gosched() {
		status := read(t, fmt.Sprintf("/proc/%d/status", headless.Process.Pid))
		if strings.Contains(status, "State:\tZ") && !strings.Contains(status, "Threads:\t1\n") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("its first thread does not end:\n%s", status)
		}
	}
	before, err := runningAs("/proc", anns, 0)
	must(t, err)
	if len(before) < 5 {
		t.Fatalf("only %v run", before)
	}
	must(t, DefaultRange.EndProcesses(anns))
	if left, err := runningAs("/proc", anns, 0); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	for _, o := range others {
		if err := o.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("%v was ended too: %v", o.Args, err)
		}
	}
	must(t, DefaultRange.EndProcesses(anns)) // nobody is left
	if os.Geteuid() != 0 {
		t.Error("the process has become somebody else")
	}
	endBesideHelper(t)
	// Somebody runs as the shield.
	as(t, DefaultRange.shield(), "sleep", "600")
	as(t, anns, "sleep", "600")
	if err := DefaultRange.EndProcesses(anns); bourn.CodeOf(err) != bourn.CodeConflict || !strings.Contains(err.Error(), "sleep") {
		t.Error(err)
	}
	if left, err := runningAs("/proc", anns, 0); err != nil || len(left) != 1 {
		t.Errorf("begun all the same: %v, %v", left, err)
	}
}

// endBesideHelper has a helper end what ann runs, for as long as it likes: root is neither kept
// from it, nor does root end the helper.
func endBesideHelper(t *testing.T) {
	t.Helper()
	helper := exec.Command("/proc/self/exe")
	helper.Env = []string{endRole + "=helper"}
	out, err := helper.StdoutPipe()
	must(t, err)
	must(t, helper.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the helper said %q: %v", line, err)
	}
	as(t, anns, "sleep", "600")
	if err := DefaultRange.EndProcesses(anns); err != nil {
		t.Error(err)
	}
	if left, err := runningAs("/proc", DefaultRange.HelperShield(), 0); err != nil || len(left) != 1 {
		t.Errorf("helpers that run: %v, %v", left, err)
	}
	must(t, helper.Process.Kill())
	_ = helper.Wait()
}

// as starts a program as a user; one that says that it is ready is waited for.
func as(t *testing.T, uid uint32, program string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.SysProcAttr = AsUser(uid, uid)
	cmd.Env = []string{"PATH=/usr/bin:/bin", endRole + "=headless"}
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if program != "sleep" {
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
			t.Fatalf("%v said %q: %v", cmd.Args, line, err)
		}
	}
	return cmd
}

func TestEndProcessesRefuses(t *testing.T) {
	for _, uid := range []uint32{0, 1, joes, DefaultRange.First, DefaultRange.First + reserved - 1, DefaultRange.Last + 1, 1<<32 - 1} {
		if err := DefaultRange.EndProcesses(uid); bourn.CodeOf(err) != bourn.CodeInvalid {
			t.Errorf("%d: %v", uid, err)
		}
	}
	if os.Geteuid() != 0 {
		if err := DefaultRange.EndProcesses(anns); bourn.CodeOf(err) != bourn.CodeDenied || bourn.HintOf(err) == "" {
			t.Error(err)
		}
	}
}

func TestRuns(t *testing.T) {
	for _, tt := range []struct {
		status string
		is     bool
	}{
		{"Name:\ta\nState:\tS (sleeping)\nThreads:\t1\nUid:\t7\t7\t7\t7\n", true},
		{"Name:\ta\nState:\tS (sleeping)\nThreads:\t1\nUid:\t0\t7\t0\t0\n", true},
		{"Name:\ta\nState:\tS (sleeping)\nThreads:\t1\nUid:\t0\t0\t7\t0\n", true},
		{"Name:\ta\nState:\tS (sleeping)\nThreads:\t1\nUid:\t0\t0\t0\t7\n", false}, // of files alone
		{"Name:\ta\nState:\tS (sleeping)\nThreads:\t1\nUid:\t70\t77\t17\t7\n", false},
		{"Name:\ta\nState:\tS (sleeping)\nThreads:\t1\nUid:\t9\t7\t9\t7\n", false}, // a helper
		{"Name:\ta\nState:\tS (sleeping)\nThreads:\t1\nUid:\t9\t9\t7\t7\n", true},
		{"Name:\ta\nState:\tZ (zombie)\nThreads:\t1\nUid:\t7\t7\t7\t7\n", false},
		{"Name:\ta\nState:\tZ (zombie)\nThreads:\t3\nUid:\t7\t7\t7\t7\n", true},
	} {
		if _, is := runs([]byte(tt.status), 7, 9); is != tt.is {
			t.Errorf("%q: %t", tt.status, is)
		}
	}
	if _, err := runningAs("/no/such", 7, 9); err == nil {
		t.Error("a directory that is not there")
	}
}

// What stands at a path is seen as it is, with its mount.
func TestLook(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Symlink("/etc/passwd", dir+"/link"))
	if f, err := Look(dir + "/link"); err != nil || f.Kind != "a symbolic link" || int(f.UID) != os.Geteuid() {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := Look(dir + "/none"); bourn.CodeOf(err) != bourn.CodeNotFound {
		t.Error(err)
	}
}

// Who has ended and is only waited for runs nothing: no plan ends them again.
func TestRunningLeavesOutTheEnded(t *testing.T) {
	proc := t.TempDir()
	for pid, state := range map[string]string{"1": "S (sleeping)\nThreads:\t1", "2": "Z (zombie)\nThreads:\t1", "3": "Z (zombie)\nThreads:\t2"} {
		if err := os.Mkdir(proc+"/"+pid, 0o755); err != nil {
			t.Fatal(err)
		}
		text := "Name:\tx\nState:\t" + state + "\nUid:\t6601" + pid + "\t1\t1\t1\nGid:\t7\t7\t7\t7\nGroups:\t66001 \n"
		if err := os.WriteFile(proc+"/"+pid+"/status", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	found, err := running(proc, DefaultRange)
	if _, zombie := found[66012]; err != nil || zombie || len(found) != 2 {
		t.Errorf("%v %v", found, err)
	}
}

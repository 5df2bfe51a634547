package workspace

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bourn"
)

func (o *owner) run(r Request) ExecResult {
	o.t.Helper()
	r.Verb = Exec
	var e ExecResult
	o.must(r, &e)
	return e
}

func TestExec(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/d/script", "#!/bin/sh\necho script \"$@\"\n")
	if err := os.Chmod(dir+"/d/script", 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, dir+"/d/text", "x")
	link(t, "d", dir+"/l")
	o := newOwner(t, dir)
	for name, c := range map[string]struct {
		r           Request
		out, errout string
		status      int
		signal      string
	}{
		"text":                {Request{Command: "echo a; echo b >&2; exit 3"}, "a\n", "b\n", 3, ""},
		"arguments":           {Request{Argv: []string{"printf", "%s|", "a b", "$x", ""}}, "a b|$x||", "", 0, ""},
		"in a directory":      {Request{Command: "pwd; pwd -P", Cwd: "d"}, dir + "/d\n" + dir + "/d\n", "", 0, ""},
		"in a link":           {Request{Command: "pwd", Cwd: "l"}, dir + "/d\n", "", 0, ""},
		"from the directory":  {Request{Argv: []string{"./script", "x"}, Cwd: "l"}, "script x\n", "", 0, ""},
		"with variables":      {Request{Command: `echo "$A|$B"`, Env: []string{"A=1", "B=x=y"}}, "1|x=y\n", "", 0, ""},
		"the last one holds":  {Request{Command: `echo "$A"`, Env: []string{"A=1", "A=2"}}, "2\n", "", 0, ""},
		"own variables":       {Request{Command: `env | sed 's/=.*//' | sort | tr '\n' ' '`}, "BOURN_CALL HOME PATH PWD ", "", 0, ""},
		"nothing to read":     {Request{Command: "cat; read x; echo $?"}, "1\n", "", 0, ""},
		"a signal":            {Request{Command: "kill -SEGV $$"}, "", "", 139, "SIGSEGV"},
		"in its own session":  {Request{Command: `set -- $(cat /proc/$$/stat); test $6 = $$ && echo yes`}, "yes\n", "", 0, ""},
		"no descriptors":      {Request{Argv: []string{"sh", "-c", `for f in /proc/$$/fd/*; do case $(readlink $f) in socket:*) echo $f; esac; done`}}, "", "", 0, ""},
		"what it left behind": {Request{Command: `sleep 60 & echo done`}, "done\n", "", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := o.run(c.r)
			if string(e.Stdout) != c.out || string(e.Stderr) != c.errout || e.Status != c.status || e.Signal != c.signal || e.TimedOut || e.LeftOut != 0 {
				t.Errorf("%q %q %+v", e.Stdout, e.Stderr, e)
			}
			if e.Duration > 1_500_000 {
				t.Errorf("took %d µs", e.Duration)
			}
		})
	}
	for reason, r := range map[string]Request{
		"owner":             {Command: "a", Argv: []string{"a"}},
		"not_found":         {Argv: []string{"no-such-program"}},
		"invalid_env":       {Command: "true", Env: []string{"A"}},
		"permission_denied": {Argv: []string{"true"}, Cwd: "d/text/.."},
	} {
		r.Verb = Exec
		if reason == "permission_denied" {
			continue
		}
		o.refused(r, reason)
	}
	o.refused(Request{Verb: Exec}, "owner")
	o.refused(Request{Verb: Exec, Argv: []string{""}}, "not_found")
	o.refused(Request{Verb: Exec, Argv: []string{"d/text"}}, "not_found")
	o.refused(Request{Verb: Exec, Argv: []string{"d"}}, "not_found")
	o.refused(Request{Verb: Exec, Command: "true", Cwd: "none"}, "not_found")
	o.refused(Request{Verb: Exec, Command: "true", Cwd: "d/text"}, "not_found")
	for _, bad := range []string{"=x", "A B=x", "1A=x", "A\n=x", "Ä=x"} {
		o.refused(Request{Verb: Exec, Command: "true", Env: []string{bad}}, "invalid_env")
	}
	o.refused(Request{Verb: Exec, Argv: []string{"true", strings.Repeat("x", 200_000)}}, "operation_failed")
}

// A program is judged by what it is, also by another name and from another directory.
func TestExecJudgesTheProgram(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/bin/tool", "#!/bin/sh\n")
	if err := os.Chmod(dir+"/bin/tool", 0o755); err != nil {
		t.Fatal(err)
	}
	link(t, "tool", dir+"/bin/alias")
	link(t, "bin", dir+"/l")
	o := newOwnerOf(t, &Actor{Cwd: dir, Env: []string{"PATH=" + dir + "/bin:/usr/bin:/bin"}}, rule("x", "exact", dir+"/bin/tool", "execute"))
	for _, r := range []Request{
		{Argv: []string{"tool"}}, {Argv: []string{"alias"}}, {Argv: []string{dir + "/l/tool"}}, {Argv: []string{"./tool"}, Cwd: "l"}, {Command: "./tool", Cwd: "l"},
	} {
		r.Verb = Exec
		o.refused(r, blocked+"x")
	}
	o.run(Request{Command: "true", Cwd: "l"})
}

func TestExecOutput(t *testing.T) {
	dir := tempDir(t)
	spill := filepath.Join(dir, "spill")
	if err := os.Mkdir(spill, 0o700); err != nil {
		t.Fatal(err)
	}
	o := newOwnerOf(t, &Actor{Cwd: dir, Spill: spill, Env: []string{"PATH=/usr/bin:/bin"}})
	e := o.run(Request{Command: "seq 1 300000; seq 1 10 >&2"})
	whole := content(t, e.Spill)
	if e.LeftOut != int64(len(whole))-maxOutput || !strings.HasPrefix(whole, "1\n2\n") || !strings.HasSuffix(whole, "\n299999\n300000\n") || strings.Count(whole, "\n") != 300_000 {
		t.Errorf("left out %d of %d", e.LeftOut, len(whole))
	}
	if !bytes.HasPrefix(e.Stdout, []byte("1\n2\n")) || !bytes.HasSuffix(e.Stdout, []byte("\n300000\n")) || !bytes.Contains(e.Stdout, fmt.Appendf(nil, "\n… %d bytes left out …\n", e.LeftOut)) {
		t.Errorf("%.100q … %q", e.Stdout, e.Stdout[len(e.Stdout)-20:])
	}
	if e.SpillErr != "" || string(e.Stderr) != "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n" {
		t.Errorf("%q %q", e.SpillErr, e.Stderr)
	}
	// What is just not too long, and a byte more.
	for n, want := range map[int]int64{maxOutput: 0, maxOutput + 1: 1} {
		e = o.run(Request{Command: fmt.Sprintf("head -c %d /dev/zero", n)})
		if e.LeftOut != want || (e.Spill != "") != (want > 0) {
			t.Errorf("%d: left out %d, %q", n, e.LeftOut, e.Spill)
		}
	}
	// More than a file may hold, often: what is kept is bounded.
	for range 4 {
		e = o.run(Request{Command: "head -c 40000000 /dev/zero"})
		if info, err := os.Stat(e.Spill); err != nil || info.Size() != maxSpill {
			t.Errorf("%v %v", info, err)
		}
	}
	var total int64
	entries, _ := os.ReadDir(spill)
	for _, entry := range entries {
		info, _ := entry.Info()
		total += info.Size()
	}
	if total > maxSpills || total < maxSpill {
		t.Errorf("%d bytes are kept", total)
	}
	if info, err := os.Stat(e.Spill); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

func TestExecTimeout(t *testing.T) {
	o := newOwner(t, tempDir(t))
	began := time.Now()
	e := o.run(Request{Command: "trap 'echo ended; exit 5' TERM; echo begun; sleep 60 & wait", Timeout: 100 * time.Millisecond})
	if !e.TimedOut || e.Status != 5 || string(e.Stdout) != "begun\nended\n" || time.Since(began) > 2*time.Second {
		t.Errorf("%+v %q", e, e.Stdout)
	}
	e = o.run(Request{Command: "trap '' TERM; (trap '' TERM; setsid sleep 60) & sleep 60 & wait; sleep 60", Timeout: 10 * time.Millisecond})
	if !e.TimedOut || e.Signal != "SIGKILL" {
		t.Errorf("%+v", e)
	}
	eventually(t, time.Second, "all is dead", func() bool { return len(processes().below(o.cmd.Process.Pid)) == 0 })
}

// Whatever a command starts ends with it, however it hides; another call's goes on.
func TestExecEndsItsFamily(t *testing.T) {
	dir := tempDir(t)
	o := newOwner(t, dir)
	other := make(chan ExecResult, 1)
	go func() {
		var e ExecResult
		_ = o.ask(Request{Verb: Exec, Command: "(setsid sleep 0.7; echo late >late) & (setsid -f sleep 60); touch begun; sleep 0.8; echo other"}, &e)
		other <- e
	}()
	eventually(t, 5*time.Second, "the other runs", func() bool { return content(t, dir+"/begun") == "" })
	for name, command := range map[string]string{
		"in the background": "sleep 61 &",
		"twice forked":      "(sleep 61 & )",
		"another session":   "setsid sleep 61 &",
		"a daemon":          "(setsid -f sleep 61)",
		"ignoring signals":  "(trap '' TERM HUP; sleep 61; sleep 61) &",
		"many":              "for i in 1 2 3 4 5 6 7 8 9; do (setsid sleep 61 &) ; done",
	} {
		began := time.Now()
		e := o.run(Request{Command: command + "\necho x"})
		if n := named(o, "sleep\x0061\x00"); n > 0 || string(e.Stdout) != "x\n" || time.Since(began) > time.Second {
			t.Errorf("%s: %d are left, after %v; %q", name, n, time.Since(began), e.Stdout)
		}
	}
	if e := <-other; string(e.Stdout) != "other\n" || content(t, dir+"/late") != "late\n" {
		t.Errorf("%+v", e)
	}
	// With no other call, also what has left its session and its environment.
	o.run(Request{Command: "env -i /usr/bin/setsid -f /bin/sleep 62"})
	if left := processes().below(o.cmd.Process.Pid); len(left) > 0 {
		t.Errorf("%v", left)
	}
}

// named counts the processes below an actor whose command line holds a text.
func named(o *owner, text string) int {
	n := 0
	for _, p := range descendants(o.cmd.Process.Pid) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if strings.Contains(string(line), text) {
			n++
		}
	}
	return n
}

func TestExecCancel(t *testing.T) {
	o := newOwner(t, tempDir(t))
	for _, command := range []string{"sleep 60", "trap '' TERM; setsid sleep 60 & sleep 60 & wait", "yes >/dev/null", "yes"} {
		ctx, cancel := context.WithCancel(t.Context())
		begun := make(chan struct{})
		at := make(chan time.Time, 1)
		go func() {
			<-begun
			at <- time.Now()
			cancel()
		}()
		go func() {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for len(descendants(o.cmd.Process.Pid)) == 0 {
				<-tick.C
			}
			close(begun)
		}()
		err := o.askFor(ctx, Request{Verb: Exec, Command: command}, nil, nil)
		took := time.Since(<-at)
		if reasonOf(err) != "cancelled" || bourn.CodeOf(err) != bourn.CodeUnavailable || took > 300*time.Millisecond {
			t.Errorf("%s: %v after %v", command, err, took)
		}
		if left := processes().below(o.cmd.Process.Pid); len(left) > 0 {
			t.Errorf("%s: %v", command, left)
		}
		t.Logf("%s: %v", command, took)
	}
}

func TestExecPty(t *testing.T) {
	if _, err := os.Stat("/dev/ptmx"); err != nil {
		t.Skip("the kernel lacks /dev/ptmx")
	}
	o := newOwner(t, tempDir(t))
	e := o.run(Request{Pty: true, Command: "test -t 0 && test -t 1 && test -t 2 && echo tty; stty size; echo err >&2; cat; exit 4"})
	if string(e.Stdout) != "tty\r\n24 80\r\nerr\r\n" || e.Status != 4 || len(e.Stderr) > 0 {
		t.Errorf("%+v %q", e, e.Stdout)
	}
	e = o.run(Request{Pty: true, Command: "seq 1 100000"})
	if !bytes.HasSuffix(e.Stdout, []byte("99999\r\n100000\r\n")) {
		t.Errorf("%q", e.Stdout[len(e.Stdout)-30:])
	}
	e = o.run(Request{Pty: true, Command: "sleep 60", Timeout: time.Millisecond})
	if !e.TimedOut {
		t.Errorf("%+v", e)
	}
	if left := processes().below(o.cmd.Process.Pid); len(left) > 0 {
		t.Errorf("%v", left)
	}
}

// What a call adopted and is dead is waited for while it goes on.
func TestExecReaps(t *testing.T) {
	dir := tempDir(t)
	o := newOwner(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- o.askFor(ctx, Request{Verb: Exec, Command: "for i in 1 2 3 4 5; do (true & ) ; (sh -c 'true & exec true' &) ; done; touch ready; sleep 60"}, nil, nil)
	}()
	eventually(t, 5*time.Second, "it is ready", func() bool { return content(t, dir+"/ready") == "" })
	eventually(t, 3*time.Second, "no zombie is left", func() bool {
		for _, p := range processes().below(o.cmd.Process.Pid) {
			if p.dead {
				return false
			}
		}
		return true
	})
	cancel()
	<-done
}

// A program that starts itself anew in a session of its own, and goes, as fast as it can.
func TestExecEndsARespawner(t *testing.T) {
	needUserNamespaces(t)
	dir := tempDir(t)
	put(t, dir+"/again", "[ -e "+dir+"/stop ] && exit; setsid sh "+dir+"/again & exit 0\n")
	defer os.WriteFile(dir+"/stop", nil, 0o600)
	o := newOwnerOf(t, &Actor{Version: "test", Cwd: dir, Env: []string{"PATH=/usr/bin:/bin", "HOME=" + dir}, Sole: true})
	o.run(Request{Command: "sh again; sleep 0.05"})
	if n := named(o, "again"); n > 0 {
		t.Errorf("%d are left", n)
	}
}

// needUserNamespaces skips a test where an ordinary user has none.
func needUserNamespaces(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("unshare", "--user", "--map-root-user", "true").CombinedOutput(); err != nil {
		if strings.Contains(os.Getenv("BOURN_TEST_NEED"), "userns") {
			t.Fatalf("%v: %s", err, out)
		}
		t.Skipf("the kernel lacks user namespaces: %s", out)
	}
}

// TestSoleIsNotBelieved: where there are others, nothing ends them.
func TestSoleIsNotBelieved(t *testing.T) {
	var f family
	if f.adopt(true); f.sole {
		t.Fatal("among others, it takes itself for the only one")
	}
}

// TestActorIsNotTraced: what it executes cannot open the actor's memory or its descriptors, nor
// trace it, and can do that with what it starts itself.
func TestActorIsNotTraced(t *testing.T) {
	needUserNamespaces(t)
	dir := tempDir(t)
	o := newOwnerOf(t, &Actor{Version: "test", Cwd: dir, Env: []string{"PATH=/usr/bin:/bin", "HOME=" + dir}, Sole: true})
	trace := `import ctypes, os, sys
print(ctypes.CDLL(None, use_errno=True).ptrace(0x4206, int(sys.argv[1]), 0, 0), os.strerror(ctypes.get_errno()))`
	put(t, dir+"/trace.py", trace)
	// Without the capabilities that a namespace's root has, as in a seal.
	plainly := func(command string) Request {
		put(t, dir+"/do", command)
		return Request{Command: "exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs sh do"}
	}
	for _, command := range []string{"cat /proc/$PPID/fd/3", "head -c 1 /proc/$PPID/mem", "python3 trace.py $PPID"} {
		e := o.run(plainly(command))
		if out := string(e.Stdout) + string(e.Stderr); !strings.Contains(out, "ermission denied") && !strings.Contains(out, "not permitted") {
			t.Errorf("%s: %s", command, out)
		}
	}
	e := o.run(plainly("sleep 60 & python3 trace.py $!; ls /proc/$!/fd >/dev/null && echo seen"))
	if out := string(e.Stdout); !strings.HasPrefix(out, "0 ") || !strings.Contains(out, "seen") {
		t.Errorf("its own child: %s%s", e.Stdout, e.Stderr)
	}
}

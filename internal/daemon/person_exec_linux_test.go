package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bourn/api"

	"golang.org/x/sys/unix"
)

// execAs is bourn people exec as a user, with what it reads.
func execAs(uid int, input string, line ...string) *exec.Cmd {
	cmd := exec.Command(worldPrefix+"/bin/bourn", append([]string{"people", "exec"}, line...)...)
	cmd.Env, cmd.Dir = []string{"HOME=/tmp", "PATH=/usr/bin:/bin", "TERM=dumb"}, "/"
	cmd.Stdin = strings.NewReader(input)
	cmd.SysProcAttr = credentialOf(uid)
	return cmd
}

// executes fails the test unless a command ends with a status and says something.
func executes(t *testing.T, cmd *exec.Cmd, status int, says ...string) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if ended := new(exec.ExitError); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != status || !slices.ContainsFunc(says, func(s string) bool { return strings.Contains(string(out), s) }) {
		t.Errorf("%v: status %d, want %d, and one of %q:\n%s", cmd.Args, got, status, says, out)
	}
	return string(out)
}

// TestPeopleExec: a person's commands are the person's, for themselves and for an
// administrator, and nobody else's.
func TestPeopleExec(t *testing.T) {
	onSharedHost(t, func(t *testing.T) {
		must(t, os.WriteFile(salesDir+"/plan", []byte("of sales\n"), 0o660))
		must(t, os.Chown(salesDir+"/plan", bobUID, salesGID))
		must(t, os.WriteFile(bobWork+"/note", []byte("of bob"), 0o666))
		putProfile(t, "asked", "filesystem: {write: [~/src]}\n")
		put(t, worldHome+"/agents/asked/profile.yaml", []byte("version: 1\nagent: asked\ntools: {rules: [{tool: shell_exec, policy: deny}]}\nfilesystem: {write: [~/src]}\n"), serviceUID, serviceUID, 0o600)
		p := serveShared(t)
		for _, uid := range []int{0, annUID} {
			executes(t, execAs(uid, "", "ann", "--", "id", "-u"), 0, fmt.Sprint(annUID))
			executes(t, execAs(uid, "", "ann", "--", "sh", "-c", "pwd; cat "+salesDir+"/plan; echo x > $HOME/new && exit 42"), 42, "of sales")
			executes(t, execAs(uid, "", "ann", "--dir", "src", "--", "pwd"), 0, annWork)
			executes(t, execAs(uid, "one\ntwo", "ann", "--", "sh", "-c", "read a; echo got $a; cat"), 0, "got one\ntwo")
			executes(t, execAs(uid, "", "ann", "--", "cat", bobWork+"/note"), 1, "No such file", "Permission denied")
			executes(t, execAs(uid, "", "ann", "--", "ls", bobHome), 2, "No such file", "Permission denied")
			executes(t, execAs(uid, "", "ann", "--", "sh", "-c", "kill -9 $$"), 137, "")
			executes(t, execAs(uid, "", "ann", "--", "no-such-program"), 125, "cannot execute")
			executes(t, execAs(uid, "", "ann", "--agent", "builder", "--dir", "src", "--", "sh", "-c", "id -u; pwd"), 0, annWork)
			executes(t, execAs(uid, "", "ann", "--agent", "asked", "--", "true"), 125, "the agent's profile refuses the tool")
		}
		if out, err := os.ReadFile(annHome + "/new"); err != nil || string(out) != "x\n" {
			t.Errorf("%q %v", out, err)
		}
		for _, who := range []string{"ann", "nobody", "root"} {
			executes(t, execAs(bobUID, "", who, "--", "true"), 125, "only an administrator acts as another person")
		}
		executes(t, execAs(0, "", "nobody", "--", "true"), 125, `nobody is known as "nobody"`)
		executes(t, execAs(12345, "", "ann", "--", "true"), 125, "is no member")
		execLogged(t)
		if said := p.said.String(); strings.Contains(said, "level=ERROR") {
			t.Errorf("all was well, and the control plane said\n%s", said)
		}
	})
}

// execLogged: what was executed is in the log with who asked and for whom, and how it ended.
func execLogged(t *testing.T) {
	t.Helper()
	actions, outcomes := logged(t, "action"), logged(t, "outcome")
	i := slices.IndexFunc(actions, func(e map[string]any) bool {
		return e["what"] == execTool && e["outcome"] == "allowed" && e["for"] == annMember && e["who"] == "member:"+annMember
	})
	if i < 0 {
		t.Fatalf("ann's command is not in the log: %v", actions)
	}
	if !slices.ContainsFunc(actions, func(e map[string]any) bool {
		return e["what"] == execTool && e["outcome"] == "allowed" && e["for"] == annMember && e["who"] != "member:"+annMember
	}) {
		t.Error("the log does not have who else executed something as ann")
	}
	if !slices.ContainsFunc(outcomes, func(e map[string]any) bool { return e["of"] == actions[i]["id"] && e["outcome"] == "done" }) {
		t.Error("the log does not have how ann's command ended")
	}
	for why, is := range map[string]func(map[string]any) bool{
		"bob as ann":       func(e map[string]any) bool { return e["who"] == "member:"+bobMember && e["target"] == "ann" },
		"the agent's tool": func(e map[string]any) bool { return e["agent"] == "asked" },
	} {
		if !slices.ContainsFunc(actions, func(e map[string]any) bool { return e["outcome"] == "denied" && e["what"] == execTool && is(e) }) {
			t.Errorf("the refusal is not in the log: %s", why)
		}
	}
}

// TestPeopleExecEnds: what was started ends with its client, however that ends, and with the
// person's being in the circle; the client that takes nothing holds up nobody.
func TestPeopleExecEnds(t *testing.T) {
	onSharedHost(t, func(t *testing.T) {
		p := serveShared(t)
		executes(t, execAs(annUID, "", "ann", "--", "true"), 0, "") // the actor is there
		for _, by := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT} {
			cmd := execAs(annUID, "", "ann", "--", "sh", "-c", "setsid sleep 98765 & sleep 98765")
			in, out := io.Pipe()
			cmd.Stdin = in
			must(t, cmd.Start())
			until(t, 20*time.Second, "the command runs", func() bool { return running(t, annUID, "98765") != 0 && cmd.ProcessState == nil })
			must(t, cmd.Process.Signal(by))
			out.Close()
			_ = cmd.Wait()
			if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != by {
				t.Errorf("%v: the client ended otherwise: %v", by, cmd.ProcessState)
			}
			until(t, 10*time.Second, "nothing is left of the command", func() bool { return running(t, annUID, "sleep 98765") == 0 && running(t, annUID, "98765") == 0 })
		}
		// It takes nothing of what is printed: others go on, and it is ended all the same.
		cmd := execAs(annUID, "", "ann", "--", "yes", "98764")
		r, w, err := os.Pipe()
		must(t, err)
		cmd.Stdout = w
		must(t, cmd.Start())
		w.Close()
		until(t, 20*time.Second, "the command prints", func() bool { n, err := r.Read(make([]byte, 1)); return n == 1 && err == nil })
		for range 5 {
			executes(t, execAs(annUID, "x", "ann", "--", "cat"), 0, "x")
		}
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		r.Close()
		until(t, 10*time.Second, "nothing is left of the command", func() bool { return running(t, annUID, "98764") == 0 })

		cmd = execAs(annUID, "", "ann", "--", "sh", "-c", "echo up; sleep 98763")
		said := &said{}
		cmd.Stdout, cmd.Stderr = said, said
		must(t, cmd.Start())
		until(t, 20*time.Second, "the command runs", func() bool { return strings.Contains(said.String(), "up") })
		people := worldPeople()
		people.People[0].Groups = []uint32{sharedGID}
		setPeople(t, people)
		_ = cmd.Wait() // the client is ann's as well: it is ended, or told
		if cmd.ProcessState.Success() {
			t.Error("what ann ran while she was in the circle has not ended")
		}
		until(t, 10*time.Second, "nothing is left of the command", func() bool { return running(t, annUID, "98763") == 0 })
		must(t, p.stop())
	})
}

// TestPeopleExecMuch: what goes through is whole.
func TestPeopleExecMuch(t *testing.T) {
	onSharedHost(t, func(t *testing.T) {
		serveShared(t)
		sent := bytes.Repeat([]byte("0123456789abcde\n"), 100_000_000/16)
		cmd := execAs(0, "", "ann", "--", "cat")
		cmd.Stdin = bytes.NewReader(sent)
		got, err := cmd.Output()
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes of %d came back, or others: %v", len(got), len(sent), err)
		}
	})
}

func init() { roles["flooding"] = asFlooding }

// asFlooding executes a command that reads nothing, and sends it more than it may.
func asFlooding() int {
	client := api.NewSocketClient(DefaultSharedSocket)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := client.Exec(ctx, "ann", "")
	if err != nil {
		fmt.Println(err)
		return 3
	}
	if err := api.WriteExecOf(conn, api.ExecStart, api.Exec{Command: []string{"sleep", "98762"}}); err != nil {
		return 4
	}
	for range 100 {
		if api.WriteExec(conn, api.ExecInput, make([]byte, api.ExecPiece)) != nil {
			break
		}
	}
	for {
		if _, _, err := api.ReadExec(conn); err != nil {
			fmt.Println("ended")
			return 0
		}
	}
}

// TestPeopleExecFlood: who does not keep to the protocol is let go.
func TestPeopleExecFlood(t *testing.T) {
	onSharedHost(t, func(t *testing.T) {
		serveShared(t)
		cmd := exec.Command(worldRole)
		cmd.Env, cmd.Dir, cmd.SysProcAttr = []string{roleVariable + "=flooding"}, "/", credentialOf(annUID)
		executes(t, cmd, 0, "ended")
		until(t, 10*time.Second, "nothing is left of the command", func() bool { return running(t, annUID, "98762") == 0 })
		executes(t, execAs(annUID, "", "ann", "--", "id", "-u"), 0, fmt.Sprint(annUID))
	})
}

// TestPeopleExecTerminal: a shell on a terminal is one: its size, its keys, its jobs; and the
// terminal that it was started from is as it was afterwards.
func TestPeopleExecTerminal(t *testing.T) {
	onSharedHost(t, func(t *testing.T) {
		serveShared(t)
		master, slave := openTerminal(t)
		resize := func(rows, cols uint16) {
			must(t, unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}))
		}
		resize(33, 111)
		before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		must(t, err)
		cmd := execAs(0, "", "ann", "--", "bash", "--norc", "--noprofile")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
		said := &said{}
		go io.Copy(said, master) //nolint:errcheck // it ends with the terminal
		must(t, cmd.Start())
		step := func(types, says string) {
			t.Helper()
			_, err := io.WriteString(master, types)
			must(t, err)
			until(t, 20*time.Second, fmt.Sprintf("%q is printed", says), func() bool { return strings.Contains(said.String(), says) })
		}
		until(t, 20*time.Second, "the shell is ready", func() bool { return strings.Contains(said.String(), "bash-") })
		step("echo $((40+2)) $(id -u) $TERM; stty size\r", fmt.Sprintf("42 %d dumb\r\n33 111\r\n", annUID))
		resize(44, 99)
		step("while test \"$(stty size)\" != '44 99'; do :; done; echo si''zed\r", "sized")
		step("sleep 98761; echo s''tatus $?\r", "sleep 98761")
		until(t, 20*time.Second, "it sleeps", func() bool { return running(t, annUID, "98761") != 0 })
		step("\x03", "")
		until(t, 20*time.Second, "Ctrl-C ends it", func() bool { return running(t, annUID, "98761") == 0 })
		step("echo g''oes on\r", "goes on")
		step("sleep 98760\r", "sleep 98760")
		until(t, 20*time.Second, "it sleeps", func() bool { return running(t, annUID, "98760") != 0 })
		step("\x1a", "Stopped")
		step("kill %1; exit 9\r", "exit")
		step("exit 9\r", "exit")
		_ = cmd.Wait()
		if cmd.ProcessState.ExitCode() != 9 {
			t.Errorf("%v", cmd.ProcessState)
		}
		after, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		must(t, err)
		if *before != *after {
			t.Errorf("the terminal is not as it was: %+v, before %+v", after, before)
		}
		if t.Failed() {
			t.Logf("%s", said)
		}
	})
}

// openTerminal opens a terminal for who is to use one.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		t.Fatal(errno)
	}
	master, slave = os.NewFile(uintptr(fd), "master"), os.NewFile(peer, "slave")
	t.Cleanup(func() { slave.Close(); master.Close() })
	return master, slave
}

// TestPeopleShare: what a person shares is the circle's.
func TestPeopleShare(t *testing.T) {
	onSharedHost(t, func(t *testing.T) {
		serveShared(t)
		share := func(uid int, line ...string) *exec.Cmd {
			cmd := execAs(uid, "")
			cmd.Args = append([]string{cmd.Args[0], "people", "share"}, line...)
			return cmd
		}
		executes(t, execAs(annUID, "", "ann", "--dir", "src", "--", "sh", "-c", "umask 77; echo of ann >plan; mkdir -p d/e; echo b >d/e/b"), 0, "")
		executes(t, share(annUID, "ann", "src/plan", "sales"), 0, "shared as "+salesDir+"/plan: files 1, directories 0, bytes 7")
		executes(t, share(0, "ann", annWork+"/d", "sales/by root"), 0, "files 1, directories 2, bytes 2")
		executes(t, share(annUID, "ann", "src/plan", "sales/by root/e/plan", "--agent", "builder", "--json"), 0, `"files": 1`)
		for at, want := range map[string]string{"plan": "660", "by root": "2770", "by root/e": "2770", "by root/e/b": "660", "by root/e/plan": "660"} {
			var st unix.Stat_t
			must(t, unix.Lstat(salesDir+"/"+at, &st))
			if got := fmt.Sprintf("%o", st.Mode&0o7777); got != want || st.Uid != annUID || st.Gid != salesGID {
				t.Errorf("%s: %d:%d %s, want %s of ann and the circle", at, st.Uid, st.Gid, got, want)
			}
		}
		executes(t, execAs(bobUID, "", "bob", "--", "sh", "-c", "echo of bob >>"+salesDir+"/plan; cat "+salesDir+"/plan"), 0, "of ann\nof bob\n")
		executes(t, share(annUID, "ann", "src/plan", "sales"), 1, "file exists")
		executes(t, share(annUID, "ann", "src/none", "sales"), 1, "no such file")
		executes(t, share(annUID, "ann", "src/plan", "sales/../../x"), 2, "names nothing in the circle's directory")
		executes(t, share(annUID, "ann", "src/plan", "board"), 3, `ann is in no circle "board"`)
		executes(t, share(annUID, "ann", bobWork+"/note", "sales/note"), 1, "no such file", "permission denied")
		executes(t, share(bobUID, "ann", "src/plan", "sales/mine"), 3, "only an administrator acts as another person")
		all := logged(t, "outcome")
		if !slices.ContainsFunc(all, func(e map[string]any) bool {
			return e["what"] == shareWhat && e["outcome"] == "done" && strings.Contains(fmt.Sprint(e["target"]), "write "+salesDir+"/plan")
		}) {
			t.Errorf("the share is not in the log: %v", all)
		}
	})
}

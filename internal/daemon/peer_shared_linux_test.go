package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"bourn"

	"golang.org/x/sys/unix"
)

// The user of a control plane that is not root, and of somebody who asks it.
const (
	judgeUID = 64101
	askerUID = 64102
)

// asJudge listens at the socket that it is told, and answers as the control plane would
// whether a peer is served.
func asJudge() int {
	at := os.Getenv(saidVariable)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil || os.Chmod(at, 0o666) != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println("ready")
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return 1
		}
		peer, err := peerOf(conn)
		if err != nil {
			turnAway(conn, err)
			continue
		}
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			return 1
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-Peer: "+strconv.Itoa(int(peer.UID))+"\r\n\r\n")
		conn.Close()
	}
}

// asFilteredUser is a peer under a seccomp filter, without no_new_privs, of another user.
func asFilteredUser() int {
	if err := allowAll(); err != nil {
		return 3
	}
	if syscall.Setgroups(nil) != nil || syscall.Setgid(askerUID) != nil || syscall.Setuid(askerUID) != nil {
		return 3
	}
	return asPeer()
}

// A judgement is a process that judges peers as a user, and what asks it.
type judgement struct {
	t                    *testing.T
	pid                  string
	program, dir, socket string
}

// startJudge starts one as a user; through is put before it.
func startJudge(t *testing.T, uid uint32, through ...string) judgement {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: becomes other users")
	}
	j := judgement{t: t, dir: testHome(t)}
	j.program, j.socket = filepath.Join(j.dir, "program"), filepath.Join(j.dir, "run", "s")
	self, err := os.ReadFile("/proc/self/exe") // where others can reach it
	if err == nil {
		err = os.WriteFile(j.program, self, 0o755)
	}
	for _, e := range []error{err, os.Chmod(j.dir, 0o755), os.Mkdir(filepath.Dir(j.socket), 0o755), os.Chown(filepath.Dir(j.socket), int(uid), int(uid))} {
		if e != nil {
			t.Fatal(e)
		}
	}
	argv := append(through, "setpriv", "--reuid="+strconv.Itoa(int(uid)), "--regid="+strconv.Itoa(int(uid)), "--clear-groups", j.program)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), roleVariable+"=judge", saidVariable+"="+j.socket)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("it says %q, %v", line, err)
	}
	j.pid = strconv.Itoa(cmd.Process.Pid)
	return j
}

// ask returns what a peer is answered.
func (j judgement) ask(role string, how *syscall.SysProcAttr, through ...string) string {
	j.t.Helper()
	argv := append(through, j.program)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, saidVariable+"="+j.socket)
	cmd.SysProcAttr, cmd.Stderr = how, os.Stderr
	said, err := cmd.Output()
	if err != nil {
		j.t.Fatalf("%v: %v", argv, err)
	}
	return string(said)
}

// asker is a process of another user, in namespaces of its own where flags says so.
func asker(flags uintptr) *syscall.SysProcAttr {
	how := &syscall.SysProcAttr{Cloneflags: flags, Credential: &syscall.Credential{Uid: askerUID, Gid: askerUID}}
	if flags&unix.CLONE_NEWUSER != 0 {
		one := []syscall.SysProcIDMap{{ContainerID: askerUID, HostID: askerUID, Size: 1}}
		how.UidMappings, how.GidMappings, how.GidMappingsEnableSetgroups = one, one, true
	}
	return how
}

// A control plane that is not root serves another user's processes, and none that has one
// sign of a seal alone.
func TestPeersOfAnotherUser(t *testing.T) {
	j := startJudge(t, judgeUID)
	if said := j.ask("peer", asker(0)); !strings.HasPrefix(said, "HTTP/1.1 200") || !strings.Contains(said, "X-Peer: 64102") {
		t.Fatalf("a process that is not sealed: %s", said)
	}
	if said := j.ask("peer", nil); !strings.HasPrefix(said, "HTTP/1.1 200") || !strings.Contains(said, "X-Peer: 0") {
		t.Errorf("root: %s", said)
	}
	if said := j.ask("peer", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: judgeUID, Gid: judgeUID}}); !strings.HasPrefix(said, "HTTP/1.1 200") {
		t.Errorf("its own user: %s", said)
	}
	as := "--reuid=" + strconv.Itoa(askerUID)
	for name, c := range map[string]struct {
		role    string
		how     *syscall.SysProcAttr
		through []string
		why     string
	}{
		"no_new_privs":      {"peer", nil, []string{"setpriv", as, "--clear-groups", "--no-new-privs"}, "no_new_privs is set"},
		"seccomp":           {"filtered user", nil, nil, "it runs under seccomp"},
		"a user namespace":  {"peer", asker(unix.CLONE_NEWUSER), nil, "another user namespace"},
		"a pid namespace":   {"peer", asker(unix.CLONE_NEWPID), nil, "another pid namespace"},
		"a mount namespace": {"peer", asker(unix.CLONE_NEWNS), nil, "another mnt namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			if said := j.ask(c.role, c.how, c.through...); !strings.HasPrefix(said, "HTTP/1.1 403") || !strings.Contains(said, c.why) {
				t.Errorf("answered: %s", said)
			}
		})
	}
}

// Where /proc hides other users' processes everybody is refused, and told why.
func TestPeersHidden(t *testing.T) {
	host, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	j := startJudge(t, judgeUID, "unshare", "--mount", "--propagation=private", "sh", "-ec",
		`[ "$(readlink /proc/self/ns/mnt)" != "$0" ]; mount -t proc -o hidepid=2 proc /proc; exec "$@"`, host)
	said := j.ask("peer", nil, "nsenter", "--target", j.pid, "--mount", "setpriv", "--reuid="+strconv.Itoa(askerUID), "--clear-groups")
	if !strings.HasPrefix(said, "HTTP/1.1 403") || !strings.Contains(said, "cannot be read") || !strings.Contains(said, "hidepid") {
		t.Errorf("answered: %s", said)
	}
}

// What cannot be read is refused, whoever asks.
func TestPeerUnreadable(t *testing.T) {
	for name, f := range map[string]func(string) error{"root or its own user": sameNamespaces, "another user": sharesNamespaces} {
		if err := f("/proc/" + strconv.Itoa(1<<30)); bourn.CodeOf(err) != bourn.CodeDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := unsealed(1<<30, 1); bourn.CodeOf(err) != bourn.CodeDenied {
		t.Error(err)
	}
	problem := problemOf(context.Background(), slog.New(slog.DiscardHandler), errHidden("status"))
	if !strings.Contains(problem.Hint, "hidepid") {
		t.Errorf("the hint is %q", problem.Hint)
	}
}

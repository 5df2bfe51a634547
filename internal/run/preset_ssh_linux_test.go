package run_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

// sshWorld is what the scripts below stand in: an account with the home, and a host
// configuration for ssh that includes another. It is a mount namespace of the script's own.
const sshWorld = `set -e; mount --make-rprivate /; mount --bind "$1/passwd" /etc/passwd; mount --bind "$1/etc" /etc/ssh; mount -t tmpfs tmpfs /run; mkdir /run/sshd; shift; exec "$@"`

// Git fetches over ssh from a server on the host, with a key that is only in an agent.
func TestPresetSSH(t *testing.T) {
	runtest.Need(t, "root", os.Getuid() == 0)
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		has(t, u, "git ssh ssh-agent ssh-add ssh-keygen setpriv unshare")
		sshd, err := exec.LookPath("sshd")
		runtest.Need(t, "sshd", err == nil)
		home, id := u.Home, fmt.Sprint(u.UID)
		port := sshPort(t)
		root := runtest.NewUser(t, 0) // whose the server and what it serves are
		if r := root.Do("bash", "-c", `set -eu; mkdir etc etc/ssh_config.d; `+preamble+`ssh-keygen -q -t ed25519 -N '' -f hostkey; ssh-keygen -q -t ed25519 -N '' -C held -f key; git init -q -b main up; cd up; git config user.name T; git config user.email t@x; `+repository); r.Status != 0 {
			t.Fatalf("cannot prepare: %+v", r)
		}
		root.Write("passwd", fmt.Sprintf("tester:x:%s:%s::%s:/bin/sh\nserver:x:0:0:server:%s:/bin/sh\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n", id, id, home, root.Work))
		root.Write("etc/ssh_config", "Include /etc/ssh/ssh_config.d/*.conf\n")
		root.Write("etc/ssh_config.d/host.conf", fmt.Sprintf("Host box\n  HostName localhost\n  Port %s\n", port))
		root.Write("etc/ssh_host_ed25519_key", secret)
		root.Write("sshd_config", fmt.Sprintf("Port %s\nListenAddress 127.0.0.1\nHostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nPermitRootLogin yes\nUsePAM no\nPidFile none\n", port, root.Path("hostkey"), root.Path("key.pub")))
		hostKey := strings.Fields(root.Read("hostkey.pub"))
		u.Write(filepath.Join(home, ".ssh/known_hosts"), fmt.Sprintf("[localhost]:%s %s %s\n", port, hostKey[0], hostKey[1]))
		u.Write(filepath.Join(home, ".ssh/config"), "Host box\n  User server\n  IdentityFile ~/.ssh/id_ed25519\n  IdentitiesOnly yes\n")
		u.Write(filepath.Join(home, ".ssh/id_ed25519.pub"), root.Read("key.pub"))
		_ = os.Chmod(u.Write(filepath.Join(home, ".ssh/id_ed25519"), root.Read("key")), 0o600)

		world := func(name string, args ...string) *exec.Cmd {
			return root.Command(context.Background(), "unshare", append([]string{"-m", "bash", "-c", sshWorld, "bash", root.Work, name}, args...)...)
		}
		start(t, world("sh", "-c", `exec "$@" 2>&1`, "sh", sshd, "-D", "-e", "-f", root.Path("sshd_config"))).wait("Server listening on 127.0.0.1 port " + port + ".")

		client := func(flags, script string) runtest.Result {
			cmd := world("setpriv", "--reuid", id, "--regid", id, "--clear-groups", "env", "HOME="+home, "bash", "-c",
				`set -e; cd "$1"; eval "$(ssh-agent)" > /dev/null; trap 'kill $SSH_AGENT_PID' EXIT; ssh-add -q ~/.ssh/id_ed25519; "$2" run `+flags+` -- sh -c "$3"`, "bash", u.Work, runtest.Binary(t), script)
			return u.Wait(cmd)
		}
		both := "--host localhost:" + port + " --preset git --preset ssh-agent"
		r := client(both, `set -e; git clone -q ssh://box`+root.Path("up")+` c; cd c; git fetch -q; git push -q origin HEAD:refs/heads/pushed; git log --format=%s; ls ~/.ssh; ls /etc/ssh; ! cat ~/.ssh/id_ed25519 2> /dev/null`)
		if want := "first\nconfig\nid_ed25519.pub\nknown_hosts\nssh_config\nssh_config.d\n"; r.Status != 0 || r.Out != want {
			t.Errorf("status %d, out %q, want %q, err\n%s", r.Status, r.Out, want, r.Err)
		}
		if got := root.Do("git", "-C", "up", "log", "-1", "--format=%s", "pushed"); got.Out != "first\n" {
			t.Errorf("the server has %+v", got)
		}
		// Without the agent there is no key, without the host no way.
		if r := client("--host localhost:"+port+" --preset git", `ssh -o BatchMode=yes box true`); r.Status == 0 || !strings.Contains(r.Err, "Permission denied") {
			t.Errorf("without the agent: %+v", r)
		}
		if r := client("--preset git --preset ssh-agent", `ssh -o BatchMode=yes box true`); r.Status == 0 || strings.Contains(r.Err, "Permission denied") {
			t.Errorf("without the host: %+v", r)
		}
	})
}

// sshPort returns a port of the loopback that was free a moment ago.
func sshPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

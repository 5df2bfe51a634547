package run_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bourn/internal/run/nettest"
	"bourn/internal/run/runtest"
)

// listening prints the sockets that listen, the variables that name a proxy, and where
// names are resolved.
const listening = `awk '$4 == "0A" {n++} END {print "tcp", n + 0}' /proc/net/tcp; awk '$4 == "0A" {n++} END {print "tcp6", n + 0}' /proc/net/tcp6
awk 'END {print "udp", NR - 1}' /proc/net/udp; awk 'END {print "udp6", NR - 1}' /proc/net/udp6; env | grep -ic '_proxy=' || true; grep -v '^#' /etc/resolv.conf || true`

// TestNetworkModes has a run in each mode, as agent and profile say.
func TestNetworkModes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *nettest.World) {
		w.Serve(w.Echo, "8080", "5432", "7720")
		runtest.Users(t, func(t *testing.T, u *runtest.User) {
			for name, f := range map[string]func(*testing.T, *nettest.World, *runtest.User){
				"none": modeNone, "open": modeOpen, "through the proxy alone": proxyAlone, "profile": restrictedProfile, "no host": restrictedNothing} {
				t.Run(name, func(t *testing.T) { f(t, w, runtest.NewUser(t, u.UID)) })
			}
		})
	})
}

// listens reports a run whose network is not as wanted.
func listens(t *testing.T, u *runtest.User, want string, flags ...string) {
	t.Helper()
	if r := u.Sh(listening, flags...); r.Status != 0 || r.Out != want {
		t.Errorf("%q: status %d, listens %q, want %q, err %q", flags, r.Status, r.Out, want, r.Err)
	}
}

func modeNone(t *testing.T, w *nettest.World, u *runtest.User) {
	w.Visits()
	w.Asked()
	networked(t, u, "shut", "network: {mode: none}\n")
	for _, flags := range [][]string{nil, {"--agent", "shut"}} {
		listens(t, u, "tcp 0\ntcp6 0\nudp 0\nudp6 0\n0\nnameserver 127.0.0.1\noptions timeout:2 attempts:2\n", flags...)
		reaches(t, u, flags, []attempt{
			{Via: "direct", Host: "good.example", Port: "8080", want: "no lookup"}, {Via: "direct", Host: "93.184.216.34", Port: "8080", want: "no unreachable"},
			{Via: "direct", Host: "127.0.0.1", Port: "8080", want: "no refused"}, {Via: "direct", Host: "198.18.0.1", Port: "61080", want: "no unreachable"},
			{Via: "listen", Host: "127.0.0.1", Port: "8081", want: "at own"}, {Via: "dns", Host: "good.example", want: "no lookup"},
			{Via: "rawdns", Host: "127.0.0.1", Port: "1", Say: "good.example.", want: "no refused"},
		})
	}
	only(t, w)
	if asked := w.Asked(); len(asked) > 0 {
		t.Errorf("the name server was asked for %q", asked)
	}
	if got := recorded(t, u, ""); len(got) > 0 {
		t.Errorf("the record has refusals: %+v", got)
	}
}

func modeOpen(t *testing.T, w *nettest.World, u *runtest.User) {
	w.Visits()
	if r := u.Bourn("agent", "create", "opened"); r.Status != 0 {
		t.Fatalf("cannot create an agent: %q", r.Err)
	}
	at := filepath.Join(u.Home, ".bourn/agents/opened/profile.yaml")
	u.Write(at, strings.Replace(u.Read(at), "write: []", "write: ["+u.Work+"]", 1)+"network:\n  mode: open\n  deny: [good.example]\n")
	reaches(t, u, []string{"--agent", "opened"}, []attempt{
		{Via: "direct", Host: "good.example", Port: "8080", want: "at 93.184.216.34:8080|at [2606:2800:220:1::34]:8080"},
		{Via: "direct", Host: "10.1.2.3", Port: "5432", want: "at 10.1.2.3:5432"}, {Via: "direct", Host: "127.0.0.1", Port: "7720", want: "at 127.0.0.1:7720"},
		{Via: "direct", Host: "2606:2800:220:1::99", Port: "8080", want: "at [2606:2800:220:1::99]:8080"},
		{Via: "dns", Host: "private.example", want: "[10.1.2.3]"}, {Via: "rawdns", Host: "127.0.0.1", Port: "1", Say: "good.example.", want: "RCodeSuccess with 1 answers"},
		{Via: "listen", Host: "127.0.0.1", Port: "0", want: "at own"}, {Via: "mptcp", Host: "good.example", Port: "8080", want: "no supported"},
	})
	if r := u.Sh(`env | grep -ic '_proxy=' || true; cat /etc/resolv.conf`, "--agent", "opened"); r.Out != "0\nnameserver 127.0.0.1\noptions timeout:2 attempts:2\n" {
		t.Errorf("open: %q", r.Out)
	}
	r := u.Bourn("plan", "--agent", "opened", "--json", "--", "true")
	for _, want := range []string{"network: the host's, as it is", "network.mode is open: nothing keeps it"} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("the plan does not say %q: %s", want, r.Out)
		}
	}
}

func proxyAlone(t *testing.T, w *nettest.World, u *runtest.User) {
	w.Visits()
	w.Asked()
	networked(t, u, "proxied", "network: {mode: restricted, hosts: [\"good.example:8080\", \"localhost:5432\", \"93.184.216.77:8080\"]}\nsandbox: {transparent_network: false}\n")
	flags := []string{"--agent", "proxied"}
	listens(t, u, "tcp 1\ntcp6 0\nudp 0\nudp6 0\n6\n", flags...)
	reaches(t, u, flags, []attempt{
		{Via: "connect", Host: "good.example", Port: "8080", want: "at 93.184.216.34:8080"}, {Via: "socks", Host: "good.example", Port: "8080", want: "at 93.184.216.34:8080"},
		{Via: "connect", Host: "localhost", Port: "5432", want: "at 127.0.0.1:5432"}, {Via: "connect", Host: "93.184.216.77", Port: "8080", want: "at 93.184.216.77:8080"},
		{Via: "connect", Host: "other.example", Port: "8080", want: "no 403"}, {Via: "socks", Host: "good.example", Port: "80", want: "no socks 2"},
		{Via: "direct", Host: "good.example", Port: "8080", want: "no lookup"}, {Via: "direct", Host: "localhost", Port: "5432", want: "no refused"},
		{Via: "direct", Host: "93.184.216.77", Port: "8080", want: "no unreachable"}, {Via: "dns", Host: "good.example", want: "no lookup"},
		{Via: "listen", Host: "0.0.0.0", Port: "8080", Say: "127.0.0.1", want: "at own"},
	})
	only(t, w, "93.184.216.34", "93.184.216.77", "127.0.0.1:5432")
}

// restrictedProfile has what perm writes kept.
func restrictedProfile(t *testing.T, w *nettest.World, u *runtest.User) {
	w.Visits()
	w.Asked()
	agent(t, u, filepath.Join(u.Home, ".bourn"), "kept", "{write: ["+u.Work+"]}")
	for _, perm := range [][]string{{"allow-host", "*.wild.example:8080"}, {"allow-host", "good.example:8080"}, {"allow-host", "*.wild.example:5432"}, {"deny-host", "bad.wild.example"}, {"deny-host", "c.wild.example:8080"}, {"deny-host", "93.184.216.40:5432"}} {
		if r := u.Bourn("agent", "perm", perm[0], "kept", perm[1]); r.Status != 0 {
			t.Fatalf("%q: %q", perm, r.Err)
		}
	}
	r := reaches(t, u, []string{"--agent", "kept"}, slices.Concat(
		everyWay("a.wild.example", "8080", "at 93.184.216.40:8080"), everyWay("bad.wild.example", "8080", rejected), everyWay("BAD.wild.example.", "8080", rejected),
		everyWay("a.bad.wild.example", "8080", "at 93.184.216.40:8080"), everyWay("good.example", "8080", "at 93.184.216.34:8080"), everyWay("good.example", "5432", rejected),
		everyWay("c.wild.example", "8080", rejected), everyWay("a.wild.example", "5432", rejected),
		[]attempt{{Via: "dns", Host: "bad.wild.example", want: "no no such host"}}))
	only(t, w, "93.184.216.34", "93.184.216.40")
	if asked := w.Asked(); slices.Contains(asked, "bad.wild.example") {
		t.Errorf("the name server was asked for a denied name: %q", asked)
	}
	if !strings.Contains(r.Err, "only *.wild.example:8080 and 2 more") {
		t.Errorf("the header is %q", r.Err)
	}
	var reasons []string
	for _, no := range recorded(t, u, "kept") {
		reasons = append(reasons, no.Target+": "+no.Reason+no.Grant)
	}
	for _, want := range []string{"bad.wild.example:8080: denied by bad.wild.example", "bad.wild.example: denied by bad.wild.example", "c.wild.example:8080: denied by c.wild.example:8080", "a.wild.example:5432: denied by 93.184.216.40:5432", "good.example:5432: port 5432 is not grantedbourn agent perm allow-host kept good.example:5432"} {
		if !slices.Contains(reasons, want) {
			t.Errorf("the record does not have %q: %q", want, reasons)
		}
	}
	listed := u.Bourn("agent", "perm", "list-hosts", "kept")
	for _, want := range []string{"restricted", "*.wild.example:8080", "bad.wild.example", "everything else is refused"} {
		if !strings.Contains(listed.Out, want) {
			t.Errorf("list-hosts does not say %q: %s", want, listed.Out)
		}
	}
}

// restrictedNothing is a restricted network in which nothing is granted.
func restrictedNothing(t *testing.T, w *nettest.World, u *runtest.User) {
	w.Visits()
	w.Asked()
	networked(t, u, "nothing", "network: {mode: restricted}\n")
	reaches(t, u, []string{"--agent", "nothing"}, slices.Concat(everyWay("good.example", "8080", rejected), everyWay("127.0.0.1", "8080", rejected), everyWay("8.8.8.8", "443", rejected)))
	only(t, w)
	if asked := w.Asked(); len(asked) > 0 {
		t.Errorf("the name server was asked for %q", asked)
	}
}

// TestNetworkUnix shows granted sockets, and no others that stand beside them.
func TestNetworkUnix(t *testing.T) {
	inWorld(t, func(t *testing.T, _ *nettest.World) {
		runtest.Users(t, func(t *testing.T, u *runtest.User) {
			u.Mkdir(filepath.Join(u.Home, "sockets"))
			granted, absent := unixEcho(t, u, filepath.Join(u.Home, "sockets/agent.sock")), unixEcho(t, u, filepath.Join(u.Home, "sockets/docker.sock"))
			docker := unixEcho(t, u, filepath.Join(u.Dir, "docker.sock"))
			link := u.Symlink(docker, filepath.Join(u.Home, "sockets/link.sock"))
			file := u.Write(filepath.Join(u.Home, "sockets/file"), secret)
			networked(t, u, "sockets", fmt.Sprintf("network: {unix: [%q, %q, %q]}\n", granted, link, file))
			got := try(t, u, []string{"--agent", "sockets"}, "connect "+granted, "connect "+absent, "connect "+docker, "connect "+link, "read "+file, "list "+filepath.Dir(granted))
			got.are(t, "ok*", "connect "+granted)
			got.refused(t, "connect "+absent, "connect "+docker, "connect "+link, "read "+file)
			got.noSecret(t)
			script := `
import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(b"hello\n"); print(s.makefile().readline().strip())
for at in sys.argv[2:]:
    try: socket.socket(socket.AF_UNIX).connect(at); print("connected")
    except OSError as e: print(e.strerror)`
			has(t, u, "/usr/bin/python3")
			r := u.Bourn("run", "-q", "--agent", "sockets", "--", "/usr/bin/python3", "-c", script, granted, absent, docker)
			if want := "hello\nNo such file or directory\nNo such file or directory\n"; r.Out != want {
				t.Errorf("python: %q, want %q, err %q", r.Out, want, r.Err)
			}
			if r := u.Bourn("run", "-q", "--", "/usr/bin/python3", "-c", script, granted); r.Status == 0 {
				t.Errorf("without the grant: %q", r.Out)
			}
		})
	})
}

// TestNetworkSSHAgent asks a granted ssh-agent.
func TestNetworkSSHAgent(t *testing.T) {
	inWorld(t, func(t *testing.T, _ *nettest.World) {
		u := runtest.NewUser(t, os.Getuid())
		has(t, u, "ssh-agent ssh-add ssh-keygen")
		at := filepath.Join(u.Home, "agent.sock")
		start(t, u.Command(context.Background(), "ssh-agent", "-D", "-a", at)).wait(at)
		u.Env = append(u.Env, "SSH_AUTH_SOCK="+at)
		if r := u.Do("sh", "-c", `ssh-keygen -q -t ed25519 -N '' -C held -f "$HOME/key" && ssh-add -q "$HOME/key"`); r.Status != 0 {
			t.Skipf("ssh-agent does not work here: %q", r.Err)
		}
		networked(t, u, "ssh", fmt.Sprintf("network: {unix: [%q]}\nenv: {pass: [SSH_AUTH_SOCK]}\n", at))
		if r := u.Bourn("run", "-q", "--agent", "ssh", "--", "ssh-add", "-l"); !strings.Contains(r.Out, "held (ED25519)") {
			t.Errorf("ssh-add: status %d, out %q, err %q", r.Status, r.Out, r.Err)
		}
		if r := u.Bourn("run", "-q", "--env", "SSH_AUTH_SOCK", "--", "ssh-add", "-l"); r.Status != 2 {
			t.Errorf("ssh-add without the grant: status %d, out %q, err %q", r.Status, r.Out, r.Err)
		}
	})
}

// unixEcho serves a socket that everyone may connect to, and returns its path.
func unixEcho(t *testing.T, u *runtest.User, at string) string {
	t.Helper()
	l, err := net.Listen("unix", at)
	must(t, err)
	must(t, os.Chmod(at, 0o666))
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				line, _ := bufio.NewReader(c).ReadString('\n')
				fmt.Fprint(c, line)
				c.Close()
			}()
		}
	}()
	return at
}

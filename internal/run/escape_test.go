package run_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"bourn/internal/run/runtest"

	"github.com/creack/pty"
)

// Processes outside, also those of the same user, are neither seen nor touched.
func TestOtherProcesses(t *testing.T) {
	runtest.AllUsers(t, func(t *testing.T, u *runtest.User) {
		cmd := u.Command(context.Background(), probe(t), "spin")
		cmd.Env = append(cmd.Env, "TOKEN="+secret)
		l := start(t, cmd)
		l.wait("ready")
		pid := strconv.Itoa(cmd.Process.Pid)
		proc := "/proc/" + pid
		ops := []string{"kill " + pid, "pidfd " + pid, "ptrace " + pid, "vmread " + pid, "read " + proc + "/environ", "read " + proc + "/cmdline",
			"list " + proc + "/fd", "list " + proc + "/root", "list " + proc + "/cwd", "read " + proc + "/maps", "openw " + proc + "/mem", "setns " + proc + "/ns/mnt"}
		outside(t, u, ops...).are(t, "ok*", "kill "+pid, "pidfd "+pid, "ptrace "+pid, "read "+proc+"/environ", "list "+proc+"/root")
		ops = append(ops, "kill "+strconv.Itoa(os.Getpid()), "hunt "+hunted, "killall -1")
		got := try(t, u, nil, ops...)
		got.refused(t, ops[:len(ops)-1]...)
		got.noSecret(t)
		if !alive(cmd.Process.Pid) {
			t.Error("the process outside was killed")
		}
		if n, _ := strconv.Atoi(strings.TrimPrefix(try(t, u, nil, "pids")["pids"], "ok ")); n == 0 || n > 3 {
			t.Errorf("%d processes are seen inside", n)
		}
	})
}

// listen makes a listening socket that every user may connect to.
func listen(t *testing.T, network, at string) {
	t.Helper()
	if network == "unixgram" {
		c, err := net.ListenUnixgram(network, &net.UnixAddr{Name: at, Net: network})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	} else {
		l, err := net.Listen(network, at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
	if strings.HasPrefix(at, "/") {
		if err := os.Chmod(at, 0o777); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSocketsOutside(t *testing.T) {
	runtest.AllUsers(t, func(t *testing.T, u *runtest.User) {
		else_ := u.Mkdir(filepath.Join(u.Dir, "elsewhere"))
		tmp, err := os.MkdirTemp("/tmp", "bourn-test-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(tmp)
		if err := os.Chmod(tmp, 0o755); err != nil {
			t.Fatal(err)
		}
		abstract := "@bourn-test-" + filepath.Base(u.Dir)
		agentSock, docker, denied, dgram := filepath.Join(tmp, "agent.sock"), filepath.Join(else_, "docker.sock"), u.Path("denied.sock"), filepath.Join(else_, "log")
		listen(t, "unix", agentSock)
		listen(t, "unix", docker)
		listen(t, "unix", denied)
		listen(t, "unix", abstract)
		listen(t, "unixgram", dgram)
		in := u.Path("in.sock")
		listen(t, "unix", in)
		u.Symlink(docker, "docker-link.sock")
		ops := []string{"connect " + agentSock, "connect " + docker, "connect " + denied, "connect " + abstract, "sendto " + dgram, "connect docker-link.sock"}
		if os.Getuid() == 0 {
			run := "/run/bourn-test-" + filepath.Base(u.Dir) + ".sock"
			listen(t, "unix", run)
			defer os.Remove(run)
			ops = append(ops, "connect "+run, "connect /var"+run)
		}
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer tcp.Close()
		udp, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer udp.Close()
		tcpOp, mptcpOp := "tcp "+tcp.Addr().String(), "mptcp "+tcp.Addr().String()
		ops = append(ops, tcpOp, mptcpOp)
		outside(t, u, ops...).are(t, "ok|ENOENT", ops...)
		got := try(t, u, []string{"--deny", "denied.sock"}, append(ops, "udp "+udp.LocalAddr().String(), "resolve example.com", "tcp 1.1.1.1:443", "udp 1.1.1.1:53",
			"connect "+in, "socket 40 1 0", "socket 38 5 0", "socket 17 3 0", "socket 2 3 1", "socket 16 3 15", "socket 2 1 262", "socket 2 5 132")...)
		delete(got, "udp "+udp.LocalAddr().String()) // a datagram may be sent to the run's own loopback, where nobody is
		got.are(t, "ok", "connect "+in)              // sockets in a grant are items of the plan
		delete(got, "connect "+in)
		got.refused(t, got.all()...)
		plan := u.Bourn("plan", "--deny", "denied.sock", "--json")
		if !strings.Contains(plan.Out, in) {
			t.Errorf("a reachable socket in a grant is no item of the plan: %s", plan.Out)
		}
		// The agent's own socket variable does not get in either.
		cmd := u.Command(t.Context(), runtest.Binary(t), sealed(t, nil, "try", "env")...)
		cmd.Env = append(cmd.Env, "SSH_AUTH_SOCK="+agentSock, "DBUS_SESSION_BUS_ADDRESS=unix:path="+agentSock, "SECRET_TOKEN="+secret, "AWS_SECRET_ACCESS_KEY=x", "LD_PRELOAD=")
		for _, name := range strings.Fields(parse(t, u.Wait(cmd))["env"]) {
			switch name {
			case "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "SECRET_TOKEN", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD":
				t.Errorf("%s was passed", name)
			}
		}
	})
}

func TestHostFilesOutOfReach(t *testing.T) {
	runtest.AllUsers(t, func(t *testing.T, u *runtest.User) {
		tmp, err := os.MkdirTemp("/tmp", "bourn-test-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(tmp)
		shm := "/dev/shm/" + filepath.Base(tmp)
		key := u.Write(filepath.Join(u.Home, ".ssh/id_ed25519"), secret)
		for _, at := range []string{filepath.Join(tmp, "f"), shm} {
			if err := os.WriteFile(at, []byte(secret), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		defer os.Remove(shm)
		if err := os.Chmod(tmp, 0o777); err != nil {
			t.Fatal(err)
		}
		ops := []string{"read " + tmp + "/f", "list " + tmp, "read " + shm, "read " + key, "list " + filepath.Dir(key), "hunt " + hunted,
			"read /etc/shadow", "stat /etc/shadow", "read /etc/gshadow", "read /etc/sudoers", "list /etc/ssh", "list /etc/sudoers.d", "list /root/.ssh", "list /sys", "list /boot",
			"read /proc/kcore", "read /proc/kmsg", "read /dev/mem", "read /dev/vda", "read /dev/kmsg", "list /var/log", "list /home", "list /mnt", "list /var/lib",
			"openw /usr/bin/env", "create /usr/bin/bourn-test", "create /etc/bourn-test", "create /bourn-test", "mkdir /bourn-test", "create /run/bourn-test",
			"create /dev/bourn-test", "create /run/bourn/bourn-test", "openw /run/bourn/bourn", "openw /run/bourn/report.json", "unlink /run/bourn/gate.sock",
			"chmod /usr/bin/env", "utime /usr/bin/env", "openw /etc/passwd", "openw /etc/resolv.conf", "write /etc/ld.so.cache", "rename /etc/passwd /etc/p2"}
		got := try(t, u, nil, ops...)
		got.refused(t, ops...)
		got.noSecret(t)
		// What the run writes to its own places stays there.
		name := filepath.Base(tmp) + "-own"
		own := try(t, u, nil, "create /tmp/"+name, "create /var/tmp/"+name, "create /dev/shm/"+name, "create "+u.Home+"/"+name)
		own.are(t, "ok", own.all()...)
		for _, at := range []string{"/tmp/", "/var/tmp/", "/dev/shm/", u.Home + "/"} {
			if _, err := os.Lstat(at + name); err == nil {
				t.Errorf("%s is the host's", at)
			}
		}
	})
}

// The kernel's settings, also as root. Values are written back as they are, and
// sysrq-trigger is only opened.
func TestKernelSettings(t *testing.T) {
	runtest.AllUsers(t, func(t *testing.T, u *runtest.User) {
		ops := []string{}
		for _, at := range []string{"/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/sysrq", "/proc/sys/vm/overcommit_memory",
			"/proc/sys/net/ipv4/ip_forward", "/proc/sys/fs/file-max", "/proc/sys/kernel/printk", "/proc/sys/kernel/modprobe", "/proc/sys/user/max_user_namespaces",
			"/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/timer_list", "/proc/mtrr", "/proc/fs/ext4", "/proc/self/oom_score_adj", "/proc/1/oom_score_adj",
			"/proc/self/uid_map", "/proc/self/setgroups", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/power/state"} {
			ops = append(ops, "openw "+at)
		}
		got := try(t, u, nil, append(ops, "hostname bourn-test", "nice", "swapon", "syslog", "mount /proc /tmp")...)
		delete(got, "openw /proc/self/oom_score_adj") // its own, and harmless
		if !strings.HasPrefix(got["openw /proc/1/oom_score_adj"], "E") {
			t.Errorf("pid 1's oom_score_adj: %s", got["openw /proc/1/oom_score_adj"])
		}
		got.refused(t, got.all()...)
	})
}

func TestPrivileges(t *testing.T) {
	runtest.AllUsers(t, func(t *testing.T, u *runtest.User) {
		got := try(t, u, nil, "caps", "ids", "setuid", "setgid", "groups")
		for _, want := range []string{"CapInh:0000000000000000", "CapPrm:0000000000000000", "CapEff:0000000000000000", "CapBnd:0000000000000000", "CapAmb:0000000000000000", "NoNewPrivs:1", "Seccomp:2"} {
			if !strings.Contains(got["caps"], want) {
				t.Errorf("%s is not what holds inside: %s", want, got["caps"])
			}
		}
		if want := fmt.Sprintf("ok %d %d %d %d", u.UID, u.UID, u.UID, u.UID); got["ids"] != want {
			t.Errorf("ids %s, want %s", got["ids"], want)
		}
		got.refused(t, "groups")
		if u.UID != 0 {
			got.refused(t, "setuid", "setgid")
		}
	})
}

// Setuid programs give nothing.
func TestSetuidPrograms(t *testing.T) {
	runtest.AllUsers(t, func(t *testing.T, u *runtest.User) {
		ops := []string{"run /bin/su -c id", "run /usr/bin/sudo -n id", "run /usr/bin/passwd -S"}
		if os.Getuid() == 0 {
			data, err := os.ReadFile(probe(t))
			if err != nil {
				t.Fatal(err)
			}
			at := u.Path("setuid-root")
			if err := os.WriteFile(at, data, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(at, 0o755|os.ModeSetuid|os.ModeSetgid); err != nil {
				t.Fatal(err)
			}
			op := "run " + at + " try ids"
			if u.UID != 0 {
				if out := outside(t, u, op); !strings.Contains(out[op], fmt.Sprint(u.UID, 0)) {
					t.Errorf("the setuid copy gives nothing outside either: %s", out[op])
				}
			}
			caps := "run " + at + " try caps"
			got := try(t, u, nil, op, caps)
			if want := fmt.Sprintf("ok %d %d %d %d", u.UID, u.UID, u.UID, u.UID); !strings.Contains(got[op], want) {
				t.Errorf("a setuid copy runs as %s, want %s", got[op], want)
			}
			if !strings.Contains(got[caps], "CapEff:0000000000000000") || !strings.Contains(got[caps], "CapPrm:0000000000000000") {
				t.Errorf("a setuid copy has capabilities: %s", got[caps])
			}
		}
		got := try(t, u, nil, ops...)
		for _, op := range ops {
			if strings.HasPrefix(got[op], "ok") && strings.Contains(got[op], "uid=0") && u.UID != 0 {
				t.Errorf("%s: %s", op, got[op])
			}
		}
	})
}

func TestPrivilegedCalls(t *testing.T) {
	runtest.AllUsers(t, func(t *testing.T, u *runtest.User) {
		d := u.Mkdir("d")
		u.Write(".env", secret)
		got := try(t, u, []string{"--deny", ".env"}, "mknod "+d+"/sda", "mkchar "+d+"/null", "mkchar /dev/mynull", "mkchar /tmp/mynull", "mount "+d+" /tmp", "mount / "+d, "tmpfs "+d, "tmpfs /tmp",
			"remount /", "remount /usr", "remount "+u.Work, "umount "+u.Path(".env"), "umount /proc/kcore", "umount /tmp", "umount /proc/sys", "umount /proc", "chroot /", "chroot "+d, "pivot "+d, "pivot /",
			"opentree /", "opentree "+u.Work, "fsopen tmpfs", "fsopen proc", "iouring", "bpf", "keyctl", "perf", "uffd", "tiocsti /dev/tty", "list /proc/keys")
		got.refused(t, got.all()...)
	})
}

// System V and POSIX message objects of the host are not there.
func TestSharedMemoryOfHost(t *testing.T) {
	runtest.AllUsers(t, func(t *testing.T, u *runtest.User) {
		key := 0x42000000 + os.Getpid()%0xffff*16 + u.UID%16
		const create = 0o1000 | 0o666
		for _, c := range []struct {
			get, ctl uintptr
			args     [3]uintptr
		}{
			{syscall.SYS_SHMGET, syscall.SYS_SHMCTL, [3]uintptr{uintptr(key), 4096, create}},
			{syscall.SYS_SEMGET, syscall.SYS_SEMCTL, [3]uintptr{uintptr(key), 1, create}},
			{syscall.SYS_MSGGET, syscall.SYS_MSGCTL, [3]uintptr{uintptr(key), create, 0}},
		} {
			id, _, errno := syscall.Syscall(c.get, c.args[0], c.args[1], c.args[2])
			if errno != 0 {
				t.Fatal(errno)
			}
			defer func() {
				if c.get == syscall.SYS_SEMGET {
					_, _, _ = syscall.Syscall(c.ctl, id, 0, 0)
				} else {
					_, _, _ = syscall.Syscall(c.ctl, id, 0, 0)
				}
			}()
		}
		name := "bourn-test-" + filepath.Base(u.Dir)
		ops := []string{fmt.Sprint("shm ", key), fmt.Sprint("sem ", key), fmt.Sprint("msg ", key)}
		if made := outside(t, u, "mkmq "+name); made["mkmq "+name] == "ok" {
			defer outside(t, u, "mkmq "+name+" remove")
			ops = append(ops, "mq "+name)
		}
		outside(t, u, ops...).are(t, "ok", ops...)
		try(t, u, nil, ops...).refused(t, ops...)
	})
}

// Other terminals are out of reach, with a terminal of one's own and without.
func TestOtherTerminals(t *testing.T) {
	runtest.AllUsers(t, func(t *testing.T, u *runtest.User) {
		ptmx, tty, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer ptmx.Close()
		defer tty.Close()
		if err := os.Chmod(tty.Name(), 0o666); err != nil {
			t.Fatal(err)
		}
		op := "write " + tty.Name() + " INJECTED"
		outside(t, u, op).are(t, "ok", op)
		r := u.Bourn(sealed(t, nil, "snoop")...)
		if strings.Contains(r.Out, "wrote") || !strings.Contains(r.Out, "tiocsti E") {
			t.Errorf("without a terminal: %s", r.Out)
		}
		out := inTerminal(t, u, runtest.Binary(t), sealed(t, nil, "snoop")...)
		out.expect("tiocsti E")
		if strings.Contains(out.text(), "typed") {
			t.Errorf("TIOCSTI typed: %s", out.text())
		}
		buf := make([]byte, 4096)
		if err := syscall.SetNonblock(int(ptmx.Fd()), true); err != nil {
			t.Fatal(err)
		}
		n, _ := syscall.Read(int(ptmx.Fd()), buf)
		if got := string(buf[:max(n, 0)]); got != "INJECTED" { // the one from outside
			t.Errorf("the other terminal shows %q", got)
		}
	})
}

// The standard streams lead to the files they are and to nothing more. Truncating one by
// its name is no more than ftruncate(2) on the descriptor.
func TestStandardStreamsDoNotWiden(t *testing.T) {
	runtest.AllUsers(t, func(t *testing.T, u *runtest.User) {
		at := u.Write(filepath.Join(u.Dir, "elsewhere/out"), secret)
		f, err := os.OpenFile(at, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cmd := u.Command(t.Context(), runtest.Binary(t), sealed(t, nil, "try", "read /proc/self/fd/2", "readrdwr /proc/self/fd/2", "linkfd /proc/self/fd/2 stolen")...)
		cmd.Stderr = f
		got := parse(t, u.Wait(cmd))
		got.refused(t, got.all()...)
		got.noSecret(t)
	})
}

func TestGateGivesNothing(t *testing.T) {
	runtest.AllUsers(t, func(t *testing.T, u *runtest.User) {
		u.Write(".env", secret)
		r := u.Sh(`bourn run -- true; echo $?; bourn plan; echo $?; bourn whoami --json | head -c 300; bourn explain read "$PWD/.env" --json; ls -la /run/bourn; id; cat /run/bourn/report.json | head -3`, "--deny", ".env")
		noSecret(t, "the gate", r.Out, r.Err)
		if !strings.Contains(r.Err, "bourn run is not possible inside a seal") {
			t.Errorf("out %q, err %q", r.Out, r.Err)
		}
	})
}

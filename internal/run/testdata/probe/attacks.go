package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attacks are the operations on everything that is not simply a file.
var attacks = map[string]operation{
	"connect": func(a []string) (string, error) { return connect(a[0], unix.SOCK_STREAM) },
	"sendto":  func(a []string) (string, error) { return connect(a[0], unix.SOCK_DGRAM) },
	"tcp":     func(a []string) (string, error) { return dial("tcp", a[0]) },
	"udp":     func(a []string) (string, error) { return dial("udp", a[0]) },
	"mptcp":   mptcp,
	"resolve": func(a []string) (string, error) { at, err := net.LookupHost(a[0]); return fmt.Sprint(at), err },
	"socket":  func(a []string) (string, error) { return "", socket(number(a[0]), number(a[1]), number(a[2])) },
	"kill":    func(a []string) (string, error) { return "", unix.Kill(number(a[0]), 0) },
	"killall": func(a []string) (string, error) { return "", unix.Kill(number(a[0]), unix.SIGKILL) },
	"pidfd":   pidfd,
	"ptrace":  ptrace,
	"vmread":  vmread,
	"mount":   func(a []string) (string, error) { return "", unix.Mount(a[0], a[1], "", unix.MS_BIND, "") },
	"remount": func(a []string) (string, error) {
		return "", unix.Mount("", a[0], "", unix.MS_REMOUNT|unix.MS_BIND, "")
	},
	"tmpfs":    func(a []string) (string, error) { return "", unix.Mount("none", a[0], "tmpfs", 0, "") },
	"umount":   func(a []string) (string, error) { return "", unix.Unmount(a[0], unix.MNT_DETACH) },
	"opentree": openTree,
	"fsopen":   func(a []string) (string, error) { _, err := unix.Fsopen(a[0], 0); return "", err },
	"chroot":   func(a []string) (string, error) { return "", unix.Chroot(a[0]) },
	"pivot":    func(a []string) (string, error) { return "", unix.PivotRoot(a[0], a[0]) },
	"mknod": func(a []string) (string, error) {
		return "", unix.Mknod(a[0], unix.S_IFBLK|0o666, int(unix.Mkdev(8, 0)))
	},
	"mkchar": func(a []string) (string, error) {
		return "", unix.Mknod(a[0], unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
	},
	"unshare":  unshare,
	"clone":    cloneFlags,
	"clone3":   func([]string) (string, error) { return "", raw(unix.SYS_CLONE3, 0, 0) },
	"setns":    setns,
	"iouring":  func([]string) (string, error) { return "", raw(unix.SYS_IO_URING_SETUP, 1, 0) },
	"bpf":      func([]string) (string, error) { return "", raw(unix.SYS_BPF, 0, 0) },
	"keyctl":   func([]string) (string, error) { return "", raw(unix.SYS_KEYCTL, 0, ^uintptr(2)) },
	"perf":     func([]string) (string, error) { return "", raw(unix.SYS_PERF_EVENT_OPEN, 0, 0) },
	"uffd":     func([]string) (string, error) { return "", raw(unix.SYS_USERFAULTFD, 0, 0) },
	"syslog":   func([]string) (string, error) { return "", raw(unix.SYS_SYSLOG, 3, 0) },
	"swapon":   func([]string) (string, error) { return "", raw(unix.SYS_SWAPOFF, 0, 0) },
	"setuid":   func([]string) (string, error) { return "", unix.Setuid(0) },
	"setgid":   func([]string) (string, error) { return "", unix.Setgid(0) },
	"groups":   func([]string) (string, error) { return "", unix.Setgroups([]int{0, 1, 2}) },
	"nice":     func([]string) (string, error) { return "", unix.Setpriority(unix.PRIO_PROCESS, 0, -10) },
	"hostname": func(a []string) (string, error) { return "", unix.Sethostname([]byte(a[0])) },
	"tiocsti":  tiocsti,
	"run":      runProgram,
	"shm":      func(a []string) (string, error) { return sysv(unix.SYS_SHMGET, number(a[0]), 1) },
	"sem":      func(a []string) (string, error) { return sysv(unix.SYS_SEMGET, number(a[0]), 1) },
	"msg":      func(a []string) (string, error) { return sysv(unix.SYS_MSGGET, number(a[0]), 0) },
	"mq":       mq,
	"mkmq":     makeMQ,
	"caps":     caps,
	"env":      environment,
	"pids":     pids,
	"tty":      func([]string) (string, error) { return os.Readlink("/proc/self/fd/0") },
	"nested":   nested,
	"ids": func([]string) (string, error) {
		return fmt.Sprint(os.Getuid(), os.Geteuid(), os.Getgid(), os.Getegid()), nil
	},
	"ns": func(a []string) (string, error) { return os.Readlink("/proc/self/ns/" + a[0]) },
}

func number(s string) int { n, _ := strconv.Atoi(s); return n }

func raw(nr, a, b uintptr) error {
	_, _, errno := unix.Syscall6(nr, a, b, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func connect(at string, kind int) (string, error) {
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if kind == unix.SOCK_DGRAM {
		return "", unix.Sendto(fd, []byte("probe"), 0, &unix.SockaddrUnix{Name: at})
	}
	return "", unix.Connect(fd, &unix.SockaddrUnix{Name: at})
}

func dial(network, at string) (string, error) {
	c, err := net.DialTimeout(network, at, 2*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_, err = c.Write([]byte("probe"))
	return "", err
}

func mptcp(a []string) (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 262)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	_, port, err := net.SplitHostPort(a[0])
	if err != nil {
		return "", err
	}
	return "", unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: number(port)})
}

func socket(family, kind, proto int) error {
	fd, err := unix.Socket(family, kind, proto)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func pidfd(a []string) (string, error) {
	fd, err := unix.PidfdOpen(number(a[0]), 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return "", unix.PidfdSendSignal(fd, 0, nil, 0)
}

func ptrace(a []string) (string, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.PtraceSeize(number(a[0])); err != nil {
		return "", err
	}
	return "", nil // and lets go of it when this process ends
}

func vmread(a []string) (string, error) {
	buf := make([]byte, 8)
	_, err := unix.ProcessVMReadv(number(a[0]), []unix.Iovec{{Base: &buf[0], Len: 8}}, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
	return "", err
}

func openTree(a []string) (string, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, a[0], unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return "", err
	}
	return "", unix.Close(fd)
}

var namespaceFlags = map[string]uintptr{
	"user": unix.CLONE_NEWUSER, "mnt": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "net": unix.CLONE_NEWNET,
	"ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP, "time": unix.CLONE_NEWTIME,
}

func flagsOf(words []string) (flags uintptr) {
	for _, w := range words {
		flags |= namespaceFlags[w]
	}
	return flags
}

// unshare calls unshare(2) in a child of its own, so that a success changes nothing.
func unshare(a []string) (string, error) {
	cmd := exec.Command("/proc/self/exe", "status", "0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: flagsOf(a)}
	return "", cmd.Run()
}

// cloneFlags makes a child by clone(2) with flags.
func cloneFlags(a []string) (string, error) {
	cmd := exec.Command("/proc/self/exe", "status", "0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flagsOf(a)}
	return "", cmd.Run()
}

// nested runs "unshare -Ur…" of util-linux and in it a read of a path.
func nested(a []string) (string, error) {
	out, err := exec.Command("unshare", a[0], "cat", a[1]).CombinedOutput()
	if err != nil {
		return "", unix.EPERM
	}
	return string(out), nil
}

func setns(a []string) (string, error) {
	fd, err := unix.Open(a[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return "", unix.Setns(fd, 0)
}

// tiocsti types a byte into a terminal: with the plain command and with a high bit set
// in what the kernel cuts to 32 bits.
func tiocsti(a []string) (string, error) {
	fd, err := unix.Open(a[0], unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	c := byte('#')
	for _, command := range []uintptr{unix.TIOCSTI, 1<<32 | unix.TIOCSTI} {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), command, uintptr(unsafe.Pointer(&c)))
		if errno != unix.EPERM {
			if errno == 0 {
				return "typed", nil
			}
			return "", errno
		}
	}
	return "", unix.EPERM
}

func runProgram(a []string) (string, error) {
	var args []string
	for _, w := range a[1:] {
		if w != "" {
			args = append(args, w)
		}
	}
	out, err := exec.Command(a[0], args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// sysv looks an object up; it does not make one.
func sysv(nr uintptr, key, n int) (string, error) { return "", raw(nr, uintptr(key), uintptr(n)) }

func mq(a []string) (string, error) {
	name, err := unix.BytePtrFromString(a[0])
	if err != nil {
		return "", err
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_RDWR, 0, 0, 0, 0)
	if errno != 0 {
		return "", errno
	}
	return "", unix.Close(int(fd))
}

func makeMQ(a []string) (string, error) {
	name, err := unix.BytePtrFromString(a[0])
	if err != nil {
		return "", err
	}
	if a[1] == "remove" {
		return "", raw(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)), 0)
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_RDWR|unix.O_CREAT, 0o666, 0, 0, 0)
	if errno != 0 {
		return "", errno
	}
	return "", unix.Close(int(fd))
}

// caps returns what /proc says of the process's privileges.
func caps([]string) (string, error) {
	data, err := os.ReadFile("/proc/self/status")
	var out []string
	for _, line := range strings.Split(string(data), "\n") {
		for _, name := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp:", "Groups"} {
			if strings.HasPrefix(line, name) {
				out = append(out, strings.Join(strings.Fields(line), ""))
			}
		}
	}
	return strings.Join(out, " "), err
}

func environment([]string) (string, error) {
	var names []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		names = append(names, name)
	}
	return strings.Join(names, " "), nil
}

func pids([]string) (string, error) {
	at, err := filepath.Glob("/proc/[0-9]*")
	return strconv.Itoa(len(at)), err
}

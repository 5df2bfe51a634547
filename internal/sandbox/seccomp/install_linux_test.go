//go:build amd64 || arm64

package seccomp

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const (
	bad  = ^uintptr(0) // no descriptor, command or flags
	wild = uintptr(1)  // no address
)

// realRow is a system call with arguments that can have no effect should the filter let
// it through.
type realRow struct {
	name string
	nr   uintptr
	args [6]uintptr
	want string
	// control says that it may also be tried without a filter.
	control bool
}

func args(a ...uintptr) (out [6]uintptr) { copy(out[:], a); return }

func realRows() []realRow {
	rows := []realRow{
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, args(0, wild), enosys, true},
		{"io_uring_enter", unix.SYS_IO_URING_ENTER, args(bad), enosys, true},
		{"io_uring_register", unix.SYS_IO_URING_REGISTER, args(bad), enosys, true},
		{"clone3", unix.SYS_CLONE3, args(wild, 0), enosys, true},
		{"openat2", unix.SYS_OPENAT2, args(bad, wild, wild, 24), enosys, true},
		{"mount", unix.SYS_MOUNT, args(wild, wild, wild, 0, wild), eperm, false},
		{"umount2", unix.SYS_UMOUNT2, args(wild, bad), eperm, false},
		{"pivot_root", unix.SYS_PIVOT_ROOT, args(wild, wild), eperm, false},
		{"chroot", unix.SYS_CHROOT, args(wild), eperm, false},
		{"fsopen", unix.SYS_FSOPEN, args(wild, bad), eperm, false},
		{"fsconfig", unix.SYS_FSCONFIG, args(bad, bad), eperm, false},
		{"fsmount", unix.SYS_FSMOUNT, args(bad, bad), eperm, false},
		{"fspick", unix.SYS_FSPICK, args(bad, wild, bad), eperm, false},
		{"open_tree", unix.SYS_OPEN_TREE, args(bad, wild, bad), eperm, false},
		{"open_tree_attr", unix.SYS_OPEN_TREE_ATTR, args(bad, wild, bad), eperm, false},
		{"move_mount", unix.SYS_MOVE_MOUNT, args(bad, wild, bad, wild, bad), eperm, false},
		{"mount_setattr", unix.SYS_MOUNT_SETATTR, args(bad, wild, bad, wild, 0), eperm, false},
		{"setns", unix.SYS_SETNS, args(bad, 0), eperm, false},
		{"bpf", unix.SYS_BPF, args(bad, wild, 0), eperm, false},
		{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, args(wild, 0, bad, bad, bad), eperm, false},
		{"userfaultfd", unix.SYS_USERFAULTFD, args(bad), eperm, false},
		{"keyctl", unix.SYS_KEYCTL, args(bad), eperm, true},
		{"add_key", unix.SYS_ADD_KEY, args(wild, wild, wild, 1, 0), eperm, true},
		{"request_key", unix.SYS_REQUEST_KEY, args(wild, wild, wild, 0), eperm, true},
		{"pidfd_getfd", unix.SYS_PIDFD_GETFD, args(bad, bad, bad), eperm, true},
		{"process_madvise", unix.SYS_PROCESS_MADVISE, args(bad, wild, 1, bad, bad), eperm, true},
		{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, args(bad, wild, 0), eperm, false},
		{"fanotify_init", unix.SYS_FANOTIFY_INIT, args(bad, bad), eperm, false},
		{"init_module", unix.SYS_INIT_MODULE, args(wild, 0, wild), eperm, false},
		{"finit_module", unix.SYS_FINIT_MODULE, args(bad, wild, bad), eperm, false},
		{"delete_module", unix.SYS_DELETE_MODULE, args(wild, 0), eperm, false},
		{"kexec_load", unix.SYS_KEXEC_LOAD, args(0, bad, wild, bad), eperm, false},
		{"kexec_file_load", unix.SYS_KEXEC_FILE_LOAD, args(bad, bad, 0, wild, bad), eperm, false},
		{"reboot", unix.SYS_REBOOT, args(0, 0, bad, 0), eperm, false},
		{"swapon", unix.SYS_SWAPON, args(wild, bad), eperm, false},
		{"swapoff", unix.SYS_SWAPOFF, args(wild), eperm, false},
		{"settimeofday", unix.SYS_SETTIMEOFDAY, args(wild, wild), eperm, false},
		{"clock_settime", unix.SYS_CLOCK_SETTIME, args(bad, wild), eperm, false},
		{"acct", unix.SYS_ACCT, args(wild), eperm, false},
		{"quotactl", unix.SYS_QUOTACTL, args(bad, wild, bad, wild), eperm, false},
		{"quotactl_fd", unix.SYS_QUOTACTL_FD, args(bad, bad, bad, wild), eperm, false},
		{"syslog", unix.SYS_SYSLOG, args(bad, wild, 0), eperm, false},
		{"vhangup", unix.SYS_VHANGUP, args(), eperm, false},
		{"lookup_dcookie", unix.SYS_LOOKUP_DCOOKIE, args(0, wild, 0), eperm, false},
		{"nfsservctl", unix.SYS_NFSSERVCTL, args(bad, wild, wild), eperm, false},

		{"socket vsock", unix.SYS_SOCKET, args(unix.AF_VSOCK, unix.SOCK_STREAM), "EAFNOSUPPORT", false},
		{"socket alg", unix.SYS_SOCKET, args(unix.AF_ALG, unix.SOCK_SEQPACKET), "EAFNOSUPPORT", false},
		{"socket packet", unix.SYS_SOCKET, args(unix.AF_PACKET, unix.SOCK_RAW), "EAFNOSUPPORT", true},
		{"socket mptcp", unix.SYS_SOCKET, args(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP), "EPROTONOSUPPORT", false},
		{"socket raw", unix.SYS_SOCKET, args(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP), eperm, false},
		{"socket sctp by type", unix.SYS_SOCKET, args(unix.AF_INET, unix.SOCK_SEQPACKET), eperm, true},
		{"socket netfilter", unix.SYS_SOCKET, args(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER), "EPROTONOSUPPORT", false},
		{"socket uevent", unix.SYS_SOCKET, args(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT), "EPROTONOSUPPORT", true},

		{"getpid", unix.SYS_GETPID, args(), ok, false},
		{"no descriptor", unix.SYS_CLOSE, args(bad), "EBADF", false},
		{"no ptrace request", unix.SYS_PTRACE, args(bad, 0), "ESRCH", false},
		{"socket unix", unix.SYS_SOCKET, args(unix.AF_UNIX, unix.SOCK_STREAM), ok, false},
		{"socket tcp", unix.SYS_SOCKET, args(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP), ok, false},
		{"socket udp", unix.SYS_SOCKET, args(unix.AF_INET, unix.SOCK_DGRAM), ok, false},
		{"socket route", unix.SYS_SOCKET, args(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE), ok, false},
	}
	for name, flag := range map[string]uintptr{
		"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "net": unix.CLONE_NEWNET,
		"ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP,
	} {
		// A thread without shared handlers is refused by the kernel whatever else is asked.
		rows = append(rows,
			realRow{"clone " + name, unix.SYS_CLONE, args(flag | unix.CLONE_THREAD), eperm, true},
			realRow{"clone with high bits " + name, unix.SYS_CLONE, args(1<<32 | flag | unix.CLONE_THREAD), eperm, true},
			realRow{"unshare " + name, unix.SYS_UNSHARE, args(flag | 1), eperm, true})
	}
	return append(rows, realRow{"unshare time", unix.SYS_UNSHARE, args(unix.CLONE_NEWTIME | 1), eperm, true},
		realRow{"clone nothing new", unix.SYS_CLONE, args(unix.CLONE_THREAD), "EINVAL", false})
}

func TestCalls(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		rows := realRows()
		req := request{NoNewPrivs: true, Install: true}
		for _, row := range rows {
			req.Tries = append(req.Tries, try{Nr: row.nr, Args: row.args})
		}
		req.Tries = append(req.Tries, try{Nr: unix.SYS_CLONE3, Args: [6]uintptr{wild}, Free: true})
		ans := sealed(t, uid, req)
		if ans.Err != "" {
			t.Fatal(ans.Err)
		}
		for i, row := range rows {
			if got := ans.Errnos[i]; got != row.want {
				t.Errorf("%s: %s, want %s", row.name, got, row.want)
			}
		}
		if got := ans.Errnos[len(rows)]; got != "EINVAL" {
			t.Errorf("clone3 on a thread without filter: %s, want EINVAL", got)
		}
	})
}

// TestCallsWithoutFilter sees that it is the filter that gives the errors above.
func TestCallsWithoutFilter(t *testing.T) {
	need(t, "root", os.Getuid() == 0)
	var rows []realRow
	var req request
	for _, row := range realRows() {
		if row.control {
			rows, req.Tries = append(rows, row), append(req.Tries, try{Nr: row.nr, Args: row.args})
		}
	}
	ans := sealed(t, 0, req)
	for i, row := range rows {
		if got := ans.Errnos[i]; got == row.want {
			t.Errorf("%s: %s also without a filter", row.name, got)
		}
	}
}

func TestTyping(t *testing.T) {
	var tries []try
	for _, cmd := range []uintptr{unix.TIOCSTI, unix.TIOCSTI | 1<<32, unix.TIOCSTI | 0xffffffff<<32, unix.TIOCLINUX | 1<<40, unix.TIOCSETD | 1<<63} {
		tries = append(tries, try{Do: "type", Args: [6]uintptr{cmd}})
	}
	asEachUser(t, func(t *testing.T, uid int) {
		got := sealed(t, uid, request{NoNewPrivs: true, Install: true, Tries: tries})
		if diff := cmp.Diff([]string{eperm, eperm, eperm, eperm, eperm}, got.Errnos); diff != "" {
			t.Errorf("%s (-want +got):\n%s", got.Err, diff)
		}
		if uid == 0 {
			got := sealed(t, uid, request{Tries: tries[:3]})
			if diff := cmp.Diff([]string{ok, ok, ok}, got.Errnos); diff != "" {
				t.Errorf("without a filter (-want +got):\n%s", diff)
			}
		}
	})
}

func TestNamespaces(t *testing.T) {
	tries := func() (out []try) {
		for _, flags := range []uintptr{unix.CLONE_NEWUSER, unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET, unix.CLONE_NEWUSER | unix.CLONE_NEWNS} {
			out = append(out, try{Do: "program in namespaces", Args: [6]uintptr{flags}, Argv: []string{"/bin/true"}})
		}
		return append(out, try{Nr: unix.SYS_CHROOT, Args: [6]uintptr{wild}})
	}
	asEachUser(t, func(t *testing.T, uid int) {
		plain := sealed(t, uid, request{Tries: tries()[:3]})
		need(t, "userns", cmp.Equal(plain.Errnos, []string{ok, ok, ok}))
		for _, tt := range []struct {
			nested bool
			want   []string
		}{
			{false, []string{eperm, eperm, eperm, eperm}},
			{true, []string{ok, ok, eperm, "EFAULT"}},
		} {
			got := sealed(t, uid, request{NoNewPrivs: true, Install: true, Nested: tt.nested, Tries: tries()})
			if diff := cmp.Diff(tt.want, got.Errnos); diff != "" {
				t.Errorf("nested=%v %s (-want +got):\n%s", tt.nested, got.Err, diff)
			}
		}
	})
}

// TestProgramsWork runs what depends on fallbacks: threads by clone when there is no
// clone3, job control, pipes.
func TestProgramsWork(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		programs := map[string][]string{
			"shell": {"/bin/sh", "-c", `test "$(printf 'b\na\n' | sort | head -1)" = a && (sleep 0 & wait)`},
		}
		if python, err := exec.LookPath("/usr/bin/python3"); err == nil {
			programs["python"] = []string{python, "-c", "import threading,socket,subprocess;t=threading.Thread(target=print);t.start();t.join();socket.socketpair();subprocess.check_call(['true'])"}
		}
		for name, argv := range programs {
			got := sealed(t, uid, request{NoNewPrivs: true, Install: true, Tries: []try{{Do: "program", Argv: argv}}})
			if diff := cmp.Diff([]string{ok}, got.Errnos); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", name, got.Err, diff)
			}
		}
	})
}

func TestInstallRefuses(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		got := sealed(t, uid, request{Install: true, Tries: []try{{Nr: unix.SYS_CLONE3, Args: [6]uintptr{wild}}}})
		want := answer{Err: "cannot install a filter on a thread that has not set no_new_privs", Errnos: []string{"EINVAL"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	for _, n := range []int{0, 4097} {
		want := fmt.Sprintf("cannot install a filter of %d instructions", n)
		if err := Install(make([]bpf.RawInstruction, n)); err == nil || err.Error() != want {
			t.Errorf("%d instructions: %v, want %s", n, err, want)
		}
	}
}

func BenchmarkFilter(b *testing.B) {
	for b.Loop() {
		if _, err := Filter(Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCall reports what a system call costs in a child, at its least.
func BenchmarkCall(b *testing.B) {
	for _, bm := range []struct {
		name string
		try  try
	}{
		{"getpid", try{Do: "time", Nr: unix.SYS_GETPID}},
		{"ioctl", try{Do: "time", Nr: unix.SYS_IOCTL, Args: [6]uintptr{bad, unix.TCGETS}}},
		{"clone3", try{Do: "time", Nr: unix.SYS_CLONE3, Args: [6]uintptr{wild}}},
		// A part of O_TMPFILE alone is refused before the path is read.
		{"openat", try{Do: "time", Nr: unix.SYS_OPENAT, Args: [6]uintptr{bad, wild, unix.O_TMPFILE &^ unix.O_DIRECTORY, 0o600}}},
	} {
		for _, install := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/filter=%v", bm.name, install), func(b *testing.B) {
				best := 1e9
				for b.Loop() {
					ans := sealed(b, os.Getuid(), request{NoNewPrivs: true, Install: install, Tries: []try{bm.try}})
					ns, err := strconv.ParseFloat(ans.Errnos[0], 64)
					if err != nil {
						b.Fatal(err)
					}
					best = min(best, ns)
				}
				b.ReportMetric(best, "ns/call")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

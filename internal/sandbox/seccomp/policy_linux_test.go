//go:build amd64 || arm64

package seccomp

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

const (
	eperm  = "EPERM"
	enosys = "ENOSYS"
	ok     = "ok"
	highs  = 1 << 32 // set above what the kernel looks at
)

// A call is what a filter sees of a system call.
type call struct {
	arch, nr uint32
	args     [6]uint64
}

// A machine runs a filter as the kernel would.
type machine struct{ vm *bpf.VM }

func newMachine(t testing.TB, opt Options) machine {
	t.Helper()
	raw, err := Filter(opt)
	if err != nil {
		t.Fatal(err)
	}
	insts, decoded := bpf.Disassemble(raw)
	if !decoded {
		t.Fatal("the filter has instructions that are unknown")
	}
	vm, err := bpf.NewVM(insts)
	if err != nil {
		t.Fatal(err)
	}
	return machine{vm}
}

// verdict is "ok" or the name of the error. The kernel loads the words of struct
// seccomp_data natively and the bpf package's machine in network order, so that each word
// is written in that order, the low one of an argument first.
func (m machine) verdict(t interface{ Fatal(...any) }, c call) string {
	var data []byte
	be := binary.BigEndian
	data = be.AppendUint32(data, c.nr)
	data = be.AppendUint32(data, c.arch)
	data = be.AppendUint64(data, 0xdeadbeefdeadbeef) // instruction pointer
	for _, arg := range c.args {
		data = be.AppendUint32(data, uint32(arg))
		data = be.AppendUint32(data, uint32(arg>>32))
	}
	n, err := m.vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	switch ret := uint32(n); {
	case ret == unix.SECCOMP_RET_ALLOW:
		return ok
	case ret&unix.SECCOMP_RET_ACTION_FULL == unix.SECCOMP_RET_ERRNO:
		return unix.ErrnoName(unix.Errno(ret & unix.SECCOMP_RET_DATA))
	default:
		return fmt.Sprintf("action %#x", ret)
	}
}

// policyRow is one line of the policy, as a person would write it down.
type policyRow struct {
	name   string
	nr     uint32
	args   []uint64
	want   string
	nested string // "" is as want
}

func policyRows() []policyRow {
	const tcp, udp = unix.IPPROTO_TCP, unix.IPPROTO_UDP
	const stream, dgram = unix.SOCK_STREAM, unix.SOCK_DGRAM
	rows := []policyRow{
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, nil, enosys, ""},
		{"io_uring_enter", unix.SYS_IO_URING_ENTER, nil, enosys, ""},
		{"io_uring_register", unix.SYS_IO_URING_REGISTER, nil, enosys, ""},
		{"clone3", unix.SYS_CLONE3, nil, enosys, ""},
		{"openat2", unix.SYS_OPENAT2, nil, enosys, ""},
		{"chroot", unix.SYS_CHROOT, nil, eperm, ok},

		{"clone thread", unix.SYS_CLONE, []uint64{0x3d0f00}, ok, ""},
		{"clone fork", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, ok, ""},
		{"clone vfork", unix.SYS_CLONE, []uint64{unix.CLONE_VFORK | unix.CLONE_VM | 17}, ok, ""},
		{"clone signal 0x80", unix.SYS_CLONE, []uint64{unix.CLONE_NEWTIME}, ok, ""},
		{"clone chromium", unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | 17}, eperm, ok},
		{"clone high bits", unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER<<32 | 17}, ok, ""},
		{"unshare files", unix.SYS_UNSHARE, []uint64{unix.CLONE_FILES}, ok, ""},
		{"unshare time", unix.SYS_UNSHARE, []uint64{unix.CLONE_NEWTIME}, eperm, eperm},

		{"ioctl TIOCINQ", unix.SYS_IOCTL, []uint64{0, unix.TIOCINQ}, ok, ""},
		{"ioctl TCGETS", unix.SYS_IOCTL, []uint64{0, unix.TCGETS}, ok, ""},
		{"ioctl TIOCSCTTY", unix.SYS_IOCTL, []uint64{0, unix.TIOCSCTTY}, ok, ""},
		{"ioctl TIOCSTI as fd", unix.SYS_IOCTL, []uint64{unix.TIOCSTI, unix.TCGETS}, ok, ""},

		{"unix stream", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, stream, 0}, ok, ""},
		{"unix seqpacket", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET, 0}, ok, ""},
		{"tcp", unix.SYS_SOCKET, []uint64{unix.AF_INET, stream | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, 0}, ok, ""},
		{"tcp explicit", unix.SYS_SOCKET, []uint64{unix.AF_INET6, stream, tcp}, ok, ""},
		{"udp", unix.SYS_SOCKET, []uint64{unix.AF_INET, dgram, udp}, ok, ""},
		{"udp6", unix.SYS_SOCKET, []uint64{unix.AF_INET6, dgram, 0}, ok, ""},
		{"mptcp", unix.SYS_SOCKET, []uint64{unix.AF_INET, stream, unix.IPPROTO_MPTCP}, "EPROTONOSUPPORT", ""},
		{"mptcp6 high bits", unix.SYS_SOCKET, []uint64{unix.AF_INET6 | highs, stream | highs, unix.IPPROTO_MPTCP | highs}, "EPROTONOSUPPORT", ""},
		{"sctp", unix.SYS_SOCKET, []uint64{unix.AF_INET, stream, unix.IPPROTO_SCTP}, "EPROTONOSUPPORT", ""},
		{"sctp by type", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_SEQPACKET, 0}, eperm, ""},
		{"dccp by type", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_DCCP, 0}, eperm, ""},
		{"ping", unix.SYS_SOCKET, []uint64{unix.AF_INET, dgram, unix.IPPROTO_ICMP}, "EPROTONOSUPPORT", ""},
		{"raw", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, eperm, ""},
		{"raw6 with flags", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_RAW | unix.SOCK_CLOEXEC, 58}, eperm, ""},
		{"raw as tcp", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_RAW, tcp}, eperm, ""},
		{"packet by type", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_PACKET, 0}, eperm, ""},
		{"route", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE}, ok, ""},
		{"netfilter", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, "EPROTONOSUPPORT", ""},
		{"audit", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, "EPROTONOSUPPORT", ""},
		{"unix pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, stream, 0}, ok, ""},
		{"tipc pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_TIPC, stream, 0}, "EAFNOSUPPORT", ""},
	}
	for _, family := range []uint64{0, unix.AF_PACKET, unix.AF_ALG, unix.AF_VSOCK, unix.AF_SMC, unix.AF_KCM, unix.AF_XDP, unix.AF_BLUETOOTH, unix.AF_KEY, unix.AF_RDS, unix.AF_VSOCK | highs, 1<<31 | unix.AF_INET, 1<<32 - 1} {
		rows = append(rows, policyRow{fmt.Sprintf("family %#x", family), unix.SYS_SOCKET, []uint64{family, stream, 0}, "EAFNOSUPPORT", ""})
	}
	for _, cmd := range []uint64{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD} {
		rows = append(rows,
			policyRow{fmt.Sprintf("ioctl %#x", cmd), unix.SYS_IOCTL, []uint64{0, cmd}, eperm, ""},
			policyRow{fmt.Sprintf("ioctl %#x high bits", cmd), unix.SYS_IOCTL, []uint64{0, cmd | highs}, eperm, ""},
			policyRow{fmt.Sprintf("ioctl %#x all high bits", cmd), unix.SYS_IOCTL, []uint64{0, cmd | 0xffffffff<<32}, eperm, ""})
	}
	for _, flag := range []struct {
		bit    uint64
		nested string
	}{
		{unix.CLONE_NEWUSER, ok}, {unix.CLONE_NEWPID, ok}, {unix.CLONE_NEWNET, ok},
		{unix.CLONE_NEWNS, eperm}, {unix.CLONE_NEWIPC, eperm}, {unix.CLONE_NEWUTS, eperm}, {unix.CLONE_NEWCGROUP, eperm},
	} {
		for name, nr := range map[string]uint32{"clone": unix.SYS_CLONE, "unshare": unix.SYS_UNSHARE} {
			rows = append(rows,
				policyRow{fmt.Sprintf("%s %#x", name, flag.bit), nr, []uint64{flag.bit}, eperm, flag.nested},
				policyRow{fmt.Sprintf("%s %#x high bits", name, flag.bit), nr, []uint64{flag.bit | highs | unix.CLONE_FS}, eperm, flag.nested})
		}
	}
	for nr, at := range modes {
		add := func(mode uint64, want string) {
			args := []uint64{0o4777, 0o4777, 0o4777, 0o4777}[:at+1] // these mean something else
			args[at] = mode
			rows = append(rows, policyRow{fmt.Sprintf("number %d mode %#o", nr, mode), nr, args, want, ""})
		}
		for _, mode := range []uint64{0o4000, 0o4755, 0o6711, 0o7777, unix.S_IFREG | 0o4755, 0o4755 | highs, 0o4755 | 0xffffffff_ffff0000, 1<<64 - 1} {
			add(mode, eperm)
		}
		for _, mode := range []uint64{0, 0o644, 0o755, 0o1777, 0o2755, 0o2775, 0o3777, unix.S_IFIFO | 0o600, 0o4000<<16 | 0o755, 0o4000<<32 | 0o755, ^uint64(0o4000)} {
			add(mode, ok)
		}
	}
	for nr, at := range opens {
		add := func(flags, mode uint64, want string) {
			args := []uint64{0o4777, 0o4777, 0o4777, 0o4777}[:at+1]
			args[at-1], args[at] = flags, mode
			rows = append(rows, policyRow{fmt.Sprintf("number %d flags %#x mode %#o", nr, flags, mode), nr, args, want, ""})
		}
		for _, flags := range []uint64{unix.O_CREAT, unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY | unix.O_CLOEXEC, unix.O_TMPFILE | unix.O_RDWR, unix.O_CREAT | highs, 1<<64 - 1} {
			add(flags, 0o4755, eperm)
			add(flags, 0o6000|highs, eperm)
			add(flags, 0o644, ok)
			add(flags, 0o2755, ok)
			add(flags, 0o4000<<32|0o644, ok)
		}
		for _, flags := range []uint64{0, unix.O_WRONLY | unix.O_TRUNC, unix.O_DIRECTORY | unix.O_CLOEXEC, unix.O_PATH, unix.O_CREAT << 32, unix.O_TMPFILE << 32} {
			add(flags, 0o4755, ok) // what is there keeps its mode
			add(flags, 1<<64-1, ok)
		}
	}
	for _, nr := range alwaysEPERM {
		rows = append(rows, policyRow{fmt.Sprintf("number %d", nr), nr, nil, eperm, eperm})
	}
	for _, nr := range ordinary {
		rows = append(rows, policyRow{fmt.Sprintf("number %d", nr), nr, nil, ok, ok})
	}
	return rows
}

// alwaysEPERM is the policy's list, written a second time: the oracle must not be made
// from the table that it judges.
var alwaysEPERM = append([]uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT,
	unix.SYS_FSPICK, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR, 467, unix.SYS_SETNS,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_KEYCTL, unix.SYS_ADD_KEY,
	unix.SYS_REQUEST_KEY, unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_FANOTIFY_INIT, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	unix.SYS_SYSLOG, unix.SYS_VHANGUP, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL,
}, archEPERM...)

// ordinary are calls that programs cannot do without, or that are allowed on purpose.
var ordinary = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_STATX, unix.SYS_RENAMEAT2, unix.SYS_LINKAT, unix.SYS_CLOSE, unix.SYS_MMAP, unix.SYS_EXECVE,
	unix.SYS_EXECVEAT, unix.SYS_EXIT_GROUP, unix.SYS_GETPID, unix.SYS_FUTEX, unix.SYS_PTRACE, unix.SYS_SECCOMP,
	unix.SYS_PRCTL, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME,
	unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_CONNECT, unix.SYS_ACCEPT4, unix.SYS_PIDFD_OPEN,
	unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_MEMFD_CREATE, unix.SYS_LANDLOCK_RESTRICT_SELF, unix.SYS_UMASK,
	unix.SYS_INOTIFY_INIT1, unix.SYS_PROCESS_VM_READV, unix.SYS_RSEQ, unix.SYS_NAME_TO_HANDLE_AT, 468, 1000, 1<<30 - 1,
}

// judged are calls that are judged by arguments other than a mode.
var judged = []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_IOCTL, unix.SYS_CLONE, unix.SYS_UNSHARE, unix.SYS_PRLIMIT64}

func TestPolicy(t *testing.T) {
	for _, nested := range []bool{false, true} {
		m := newMachine(t, Options{Nested: nested})
		for _, row := range policyRows() {
			c := call{arch: auditArch, nr: row.nr}
			copy(c.args[:], row.args)
			want := row.want
			if nested && row.nested != "" {
				want = row.nested
			}
			if got := m.verdict(t, c); got != want {
				t.Errorf("nested=%v %s%#x: %s, want %s", nested, row.name, row.args, got, want)
			}
			if got := oracle(c, nested); got != want {
				t.Errorf("nested=%v %s%#x: the oracle says %s, want %s", nested, row.name, row.args, got, want)
			}
			for _, arch := range foreignArches {
				c.arch = arch
				if got := m.verdict(t, c); got != enosys {
					t.Errorf("nested=%v %s on architecture %#x: %s, want ENOSYS", nested, row.name, arch, got)
				}
			}
		}
	}
}

var foreignArches = []uint32{0, unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_RISCV64, auditArch ^ 0x80000000, 1<<32 - 1}

// TestEveryNumber compares each number with the oracle, with arguments of 0.
func TestEveryNumber(t *testing.T) {
	for _, nested := range []bool{false, true} {
		m := newMachine(t, Options{Nested: nested})
		for nr := range uint32(2000) {
			for _, c := range []call{{arch: auditArch, nr: nr}, {arch: auditArch, nr: nr | 0x40000000}, {arch: auditArch, nr: nr | 0x80000000}, {arch: auditArch, nr: ^nr}} {
				if got, want := m.verdict(t, c), oracle(c, nested); got != want {
					t.Errorf("nested=%v %#x: %s, want %s", nested, c.nr, got, want)
				}
			}
		}
	}
}

func TestFilterAgainstOracle(t *testing.T) {
	machines := map[bool]machine{false: newMachine(t, Options{}), true: newMachine(t, Options{Nested: true})}
	numbers := rapid.OneOf(rapid.SampledFrom(judged), rapid.SampledFrom(slices.Sorted(maps.Keys(modes))), rapid.SampledFrom(slices.Sorted(maps.Keys(opens))), rapid.Uint32Range(0, 500), rapid.Uint32(),
		rapid.Custom(func(t *rapid.T) uint32 { return rapid.Uint32Range(0, 500).Draw(t, "nr") | 0x40000000 }))
	arches := rapid.OneOf(rapid.Just(uint32(auditArch)), rapid.Just(uint32(auditArch)), rapid.SampledFrom(foreignArches), rapid.Uint32())
	args := rapid.Custom(func(t *rapid.T) uint64 {
		low := rapid.OneOf(rapid.Uint32Range(0, 20), rapid.Uint32(),
			rapid.SampledFrom([]uint32{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD, unix.IPPROTO_MPTCP, unix.SOCK_CLOEXEC | 1, unix.SOCK_NONBLOCK | 3,
				0o644, 0o2755, 0o4755, 0o4000, unix.O_CREAT | unix.O_WRONLY, unix.O_TMPFILE | unix.O_RDWR, unix.O_DIRECTORY, unix.O_PATH}),
			rapid.Custom(func(t *rapid.T) uint32 { return 1 << rapid.IntRange(0, 31).Draw(t, "bit") })).Draw(t, "low")
		high := rapid.OneOf(rapid.Just(uint32(0)), rapid.Uint32()).Draw(t, "high")
		return uint64(high)<<32 | uint64(low)
	})
	calls := rapid.Custom(func(t *rapid.T) call {
		c := call{arch: arches.Draw(t, "arch"), nr: numbers.Draw(t, "nr")}
		for i := range c.args {
			c.args[i] = args.Draw(t, "arg")
		}
		return c
	})
	rapid.Check(t, func(t *rapid.T) {
		nested := rapid.Bool().Draw(t, "nested")
		for _, c := range rapid.SliceOfN(calls, 1, 300).Draw(t, "calls") {
			if got, want := machines[nested].verdict(t, c), oracle(c, nested); got != want {
				t.Fatalf("nested=%v %+v: %s, want %s", nested, c, got, want)
			}
		}
	})
}

//go:build amd64 || arm64

package seccomp

import "golang.org/x/sys/unix"

// A judge is how a system call in the table is judged.
type judge uint8

const (
	refused      judge = iota // always, with the entry's errno
	unlessNested              // refused without Options.Nested
	byIoctl                   // by the command, in argument 1
	byCloneFlags              // by the flags, in argument 0
	byUnshare                 // by the flags, in argument 0
	bySocket                  // by family, type and protocol, in arguments 0 to 2
	byMode1                   // by the mode, in argument 1
	byMode2                   // by the mode, in argument 2
	byOpen                    // by flags and mode, in arguments 1 and 2
	byOpenat                  // by flags and mode, in arguments 2 and 3
	byPid                     // by the process, in argument 0: not pid 1
)

// An entry is a system call that is not simply allowed.
type entry struct {
	nr    uint32
	judge judge
	errno unix.Errno // for refused and unlessNested
	why   string
}

// table holds the system calls that amd64 and arm64 share; archTable holds the rest.
var table = [...]entry{
	{unix.SYS_IO_URING_SETUP, refused, unix.ENOSYS, "its operations pass this filter by"},
	{unix.SYS_IO_URING_ENTER, refused, unix.ENOSYS, "its operations pass this filter by"},
	{unix.SYS_IO_URING_REGISTER, refused, unix.ENOSYS, "its operations pass this filter by"},
	{unix.SYS_CLONE3, refused, unix.ENOSYS, "its flags are behind a pointer; libc falls back to clone"},

	{unix.SYS_CLONE, byCloneFlags, 0, "new namespaces"},
	{unix.SYS_UNSHARE, byUnshare, 0, "new namespaces"},
	{unix.SYS_SETNS, refused, unix.EPERM, "enters namespaces"},
	{unix.SYS_CHROOT, unlessNested, unix.EPERM, "changes the root"},
	{unix.SYS_PIVOT_ROOT, refused, unix.EPERM, "changes the root"},
	{unix.SYS_MOUNT, refused, unix.EPERM, "changes mounts"},
	{unix.SYS_UMOUNT2, refused, unix.EPERM, "changes mounts"},
	{unix.SYS_FSOPEN, refused, unix.EPERM, "changes mounts"},
	{unix.SYS_FSCONFIG, refused, unix.EPERM, "changes mounts"},
	{unix.SYS_FSMOUNT, refused, unix.EPERM, "changes mounts"},
	{unix.SYS_FSPICK, refused, unix.EPERM, "changes mounts"},
	{unix.SYS_OPEN_TREE, refused, unix.EPERM, "changes mounts"},
	{unix.SYS_OPEN_TREE_ATTR, refused, unix.EPERM, "changes mounts"},
	{unix.SYS_MOVE_MOUNT, refused, unix.EPERM, "changes mounts"},
	{unix.SYS_MOUNT_SETATTR, refused, unix.EPERM, "changes mounts"},

	{unix.SYS_IOCTL, byIoctl, 0, "types into a terminal"},
	{unix.SYS_SOCKET, bySocket, 0, "reaches beyond the network namespace"},
	{unix.SYS_SOCKETPAIR, bySocket, 0, "reaches beyond the network namespace"},

	{unix.SYS_FCHMOD, byMode1, 0, "makes set-user-ID programs"},
	{unix.SYS_FCHMODAT, byMode2, 0, "makes set-user-ID programs"},
	{unix.SYS_FCHMODAT2, byMode2, 0, "makes set-user-ID programs"},
	{unix.SYS_OPENAT, byOpenat, 0, "makes set-user-ID programs"},
	{unix.SYS_OPENAT2, refused, unix.ENOSYS, "its mode is behind a pointer; most programs fall back to openat"},
	{unix.SYS_MKNODAT, byMode2, 0, "makes set-user-ID programs"},
	{unix.SYS_MKDIRAT, byMode2, 0, "asks for a set-user-ID bit, which Linux would drop"},

	{unix.SYS_PRLIMIT64, byPid, 0, "pid 1 of a run has the same uid, and its limits are its means to keep masks in place"},

	{unix.SYS_BPF, refused, unix.EPERM, "kernel attack surface"},
	{unix.SYS_PERF_EVENT_OPEN, refused, unix.EPERM, "kernel attack surface, watches others"},
	{unix.SYS_USERFAULTFD, refused, unix.EPERM, "makes kernel races winnable"},
	{unix.SYS_KEYCTL, refused, unix.EPERM, "keys are not in any namespace"},
	{unix.SYS_ADD_KEY, refused, unix.EPERM, "keys are not in any namespace"},
	{unix.SYS_REQUEST_KEY, refused, unix.EPERM, "keys are not in any namespace"},
	{unix.SYS_PIDFD_GETFD, refused, unix.EPERM, "takes another process's descriptors"},
	{unix.SYS_PROCESS_MADVISE, refused, unix.EPERM, "changes another process's memory"},
	{unix.SYS_OPEN_BY_HANDLE_AT, refused, unix.EPERM, "opens files without a path"},
	{unix.SYS_FANOTIFY_INIT, refused, unix.EPERM, "watches whole mounts"},

	{unix.SYS_INIT_MODULE, refused, unix.EPERM, "changes the kernel"},
	{unix.SYS_FINIT_MODULE, refused, unix.EPERM, "changes the kernel"},
	{unix.SYS_DELETE_MODULE, refused, unix.EPERM, "changes the kernel"},
	{unix.SYS_KEXEC_LOAD, refused, unix.EPERM, "changes the kernel"},
	{unix.SYS_KEXEC_FILE_LOAD, refused, unix.EPERM, "changes the kernel"},
	{unix.SYS_REBOOT, refused, unix.EPERM, "administers the machine"},
	{unix.SYS_SWAPON, refused, unix.EPERM, "administers the machine"},
	{unix.SYS_SWAPOFF, refused, unix.EPERM, "administers the machine"},
	{unix.SYS_SETTIMEOFDAY, refused, unix.EPERM, "administers the machine"},
	{unix.SYS_CLOCK_SETTIME, refused, unix.EPERM, "administers the machine"},
	{unix.SYS_ACCT, refused, unix.EPERM, "administers the machine"},
	{unix.SYS_QUOTACTL, refused, unix.EPERM, "administers the machine"},
	{unix.SYS_QUOTACTL_FD, refused, unix.EPERM, "administers the machine"},
	{unix.SYS_SYSLOG, refused, unix.EPERM, "reads the kernel's log"},
	{unix.SYS_VHANGUP, refused, unix.EPERM, "hangs up the terminal"},
	{unix.SYS_LOOKUP_DCOOKIE, refused, unix.EPERM, "finds paths of others"},
	{unix.SYS_NFSSERVCTL, refused, unix.EPERM, "administers the machine"},
}

// ioctls are the refused commands. The kernel takes a command as 32 bits.
var ioctls = [...]uint32{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD}

// Flags of new namespaces. CLONE_NEWTIME is for unshare only: clone would take it as a
// part of the exit signal.
const (
	nestable    = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	neverNested = unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	unshareOnly = unix.CLONE_NEWTIME
)

// The kernel takes a mode as its low 16 bits, and flags of open as 32 bits. O_TMPFILE has
// O_DIRECTORY in it, which alone makes nothing.
const (
	setUserID = unix.S_ISUID
	creating  = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
)

// What sockets may be. The type is the low four bits of argument 1, the rest are flags.
// Types are judged for IP as protocol 0 means a type's first protocol: with
// SOCK_SEQPACKET that is SCTP.
const typeMask = 0xf

var (
	ipTypes     = [...]uint32{unix.SOCK_STREAM, unix.SOCK_DGRAM}
	ipProtocols = [...]uint32{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP}
)

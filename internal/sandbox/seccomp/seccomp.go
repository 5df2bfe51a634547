// Package seccomp refuses the system calls by which an agent could leave its seal, or
// reach parts of the kernel that no program under it needs. The filter is written here,
// instruction by instruction, as the known libraries let calls by another architecture
// and arguments with high bits set pass.
//
//	          foreign architecture, x32 ──▶ ENOSYS
//	call ──▶  number in the table       ──▶ EPERM or ENOSYS
//	          number with arguments     ──▶ look at the low 32 bits of some
//	          anything else             ──▶ allowed
//
// # What it upholds
//
// After [Install] the calling thread, and every process and thread that it starts, for
// ever and across exec, cannot:
//
//   - make system calls of another architecture (int 0x80, x32, AArch32);
//   - make, enter or change namespaces, mounts and roots ([Options].Nested: it may make
//     user, pid and network namespaces and chroot, and nothing else of these);
//   - use io_uring, bpf, perf, userfaultfd, kernel keys, modules, kexec, the clock, swap,
//     raw ports, fanotify, file handles, another process's descriptors;
//   - push input into a terminal (TIOCSTI, TIOCLINUX) or change its line discipline;
//   - give a file the set-user-ID bit, by chmod, open, creat or mknod (EPERM): the program
//     would lend the agent's user, who outside the seal has lost nothing, to any other user
//     of the machine. mkdir is judged alike, though Linux drops the bit there;
//   - open sockets other than unix, TCP and UDP over IP, and routing netlink: not vsock,
//     packet, raw, MPTCP, SCTP, kernel crypto.
//
// Arguments are compared by the 32 bits that the kernel itself looks at, so that bits set
// above them change nothing. clone3 gives ENOSYS as its flags cannot be seen, and C
// libraries fall back to clone. openat2 gives ENOSYS as its mode cannot be seen either
// (systemd's RestrictSUIDSGID= answers the same). Go 1.26, git 2.39, Node 20, Python
// 3.13, tar 1.34 and coreutils 9.1 do not call it.
//
// # What it does not
//
//   - It is a list of refusals: a system call that is newer than the table is allowed.
//   - It sees no path and nothing behind a pointer. Landlock, mounts and the missing
//     capabilities keep those; adjtimex is left to them too.
//   - The set-group-ID bit can be set: chmod g+s is how directories share a group (git init
//     --shared), and a filter cannot tell a directory from a file. Refusing it where only
//     files are made would stop nobody who can chmod. So a program can lend the agent's
//     groups. Linux clears the bit if the file's group is not among them.
//   - A set-user-ID file that is there already keeps working, and what can write to it may
//     change it: Linux takes the bit away after write, but not after a shared mapping
//     (seen on 6.18). It can be linked and renamed too.
//   - Programs that need openat2 fail. GNU tar does, for extracting, where it was built with
//     a C library that has openat2 (glibc 2.43; systemd issues 41868 and 43314), and
//     bubblewrap 0.12 when built for new kernels only; bsdtar does not.
//   - What copies a set-user-ID file with its mode (cp -p, tar -p) reports that it cannot.
//   - ptrace is allowed (debuggers need it): the pid namespace and Landlock confine it.
//     A tracer cannot take the filter away, as the kernel filters after the tracer.
//   - Threads that exist already stay as they were.
//
// # Needs
//
// Linux 4.14 with seccomp filters, amd64 or arm64, and no_new_privs on the thread.
// Kernels from 5.11 on decide calls that are always allowed without running the filter;
// calls that are judged by arguments, open among them, run it each time.
package seccomp

import "golang.org/x/net/bpf"

// Options say what to leave open. The zero value refuses all that the package knows.
type Options struct {
	// Nested permits what a browser's own sandbox needs: new user, pid and network
	// namespaces, and chroot. It widens the kernel surface that the agent can reach.
	Nested bool
}

// Filter returns the program for the architecture that this was built for. It is a pure
// function of its options. An error says that there is no table for the architecture.
func Filter(opt Options) ([]bpf.RawInstruction, error) {
	return filter(opt)
}

// Install puts the filter on the calling thread, to which the goroutine must be locked,
// and which must have no_new_privs set. It cannot be undone. After an error nothing may be
// run on that thread: the filter is most likely not there.
func Install(filter []bpf.RawInstruction) error {
	return install(filter)
}

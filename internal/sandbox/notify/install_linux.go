//go:build amd64 || arm64

package notify

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data. Both architectures are little-endian.
const (
	offsetNr   = 0
	offsetArch = 4
	offsetArgs = 16
)

// low loads the low half of an argument, counted from 1, which is all that the kernel takes
// of descriptors and flags.
func low(arg uint8) bpf.Instruction {
	return bpf.LoadAbsolute{Off: offsetArgs + 8*uint32(arg-1), Size: 4}
}

// filter returns the program:
//
//	      arch ── foreign ─────────────────────────────▶ allow
//	      number ── in the table ──────────────────────▶ notify
//	             ── newfstatat, statx ─┐               ▶ allow
//	empty (of each): flags ── no AT_EMPTY_PATH ────────▶ notify
//	                 directory ── AT_FDCWD ────────────▶ notify
//	                           ── a descriptor ────────▶ allow
func filter() ([]bpf.RawInstruction, error) {
	calls := append(append(make([]call, 0, len(table)+len(archTable)), table[:]...), archTable[:]...)
	const allow, notify, empty = 0, 1, 2 // after the last comparison
	const emptyLength = 6
	out := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW},
		bpf.LoadAbsolute{Off: offsetNr, Size: 4},
	}
	var judged []call
	for i, c := range calls {
		to := notify
		if c.how == reads && c.arg != 0 {
			to = empty + emptyLength*len(judged)
			judged = append(judged, c)
		}
		out = append(out, bpf.JumpIf{Cond: bpf.JumpEqual, Val: c.nr, SkipTrue: uint8(len(calls) - 1 - i + to)})
	}
	out = append(out, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}, bpf.RetConstant{Val: unix.SECCOMP_RET_USER_NOTIF})
	for _, c := range judged {
		out = append(out,
			low(c.arg),
			bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.AT_EMPTY_PATH, SkipFalse: 2},
			low(c.place.dir),
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 1<<32 + unix.AT_FDCWD, SkipTrue: 1},
			bpf.RetConstant{Val: unix.SECCOMP_RET_USER_NOTIF},
			bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
	}
	return bpf.Assemble(out)
}

func install() (int, error) {
	// The kernel would let CAP_SYS_ADMIN pass without it, and set-id programs would then
	// run under a filter that they do not expect.
	if nnp, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || nnp != 1 {
		return -1, errors.New("cannot watch system calls of a thread that has not set no_new_privs")
	}
	program, err := filter()
	if err != nil {
		return -1, fmt.Errorf("cannot watch system calls: %w", err)
	}
	// bpf.RawInstruction has the layout of struct sock_filter.
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}
	add := func(flags uintptr) (uintptr, unix.Errno) {
		fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
		return fd, errno
	}
	fd, errno := add(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	if errno == unix.EINVAL { // before Linux 5.19
		fd, errno = add(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	}
	switch errno {
	case 0:
		return int(fd), nil
	case unix.EBUSY:
		return -1, fmt.Errorf("cannot watch system calls: another filter of the thread has a listener: %w", errno)
	default:
		return -1, fmt.Errorf("cannot watch system calls: %w", errno)
	}
}

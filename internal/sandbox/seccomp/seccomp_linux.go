//go:build amd64 || arm64

package seccomp

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

// noCall is the number that a tracer sets to skip a call, which must keep the result that
// the tracer chose.
const noCall = 1<<32 - 1

func low(arg uint32) uint32 { return offsetArgs + 8*arg }

func fail(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

func filter(opt Options) ([]bpf.RawInstruction, error) {
	p := &program{reversed: make([]bpf.RawInstruction, 0, 256)}
	allow, foreign := p.ret(unix.SECCOMP_RET_ALLOW), p.ret(fail(unix.ENOSYS))

	start := p.search(spans(targets(p, opt), allow))
	if firstX32 != 0 {
		other := p.branch(opEqual, noCall, allow, foreign)
		start = p.branch(opAtMin, firstX32, other, start)
	}
	start = p.then(opLoad, offsetNr, start)
	start = p.branch(opEqual, auditArch, start, foreign)
	p.then(opLoad, offsetArch, start)
	return p.instructions(), nil
}

// A target is where a system call leads.
type target struct {
	nr uint32
	to point
}

// targets adds the code that judges arguments, and returns the targets in the order of
// their numbers.
func targets(p *program, opt Options) []target {
	banned := uint32(nestable | neverNested)
	if opt.Nested {
		banned = neverNested
	}
	allow, deny := p.ret(unix.SECCOMP_RET_ALLOW), p.ret(fail(unix.EPERM))
	points := [...]point{
		byIoctl:      p.then(opLoad, low(1), p.oneOf(ioctls[:], deny, allow)),
		byCloneFlags: p.then(opLoad, low(0), p.branch(opAnySet, banned, deny, allow)),
		byUnshare:    p.then(opLoad, low(0), p.branch(opAnySet, banned|unshareOnly, deny, allow)),
		bySocket:     socket(p),
		byMode1:      p.then(opLoad, low(1), p.branch(opAnySet, setUserID, deny, allow)),
		byMode2:      p.then(opLoad, low(2), p.branch(opAnySet, setUserID, deny, allow)),
		byOpen:       open(p, 1),
		byOpenat:     open(p, 2),
		byPid:        p.then(opLoad, low(0), p.branch(opEqual, 1, deny, allow)),
	}
	sorted := make([]target, 0, len(table)+len(archTable))
	insert := func(e *entry) {
		to := points[e.judge]
		switch e.judge {
		case refused:
			to = p.ret(fail(e.errno))
		case unlessNested:
			if opt.Nested {
				return
			}
			to = p.ret(fail(e.errno))
		case byIoctl, byCloneFlags, byUnshare, bySocket, byMode1, byMode2, byOpen, byOpenat, byPid:
		}
		sorted = append(sorted, target{})
		i := len(sorted) - 1
		for ; i > 0 && sorted[i-1].nr > e.nr; i-- {
			sorted[i] = sorted[i-1]
		}
		sorted[i] = target{e.nr, to}
	}
	for i := range table {
		insert(&table[i])
	}
	for i := range archTable {
		insert(&archTable[i])
	}
	return sorted
}

// socket judges family, then type, then protocol.
func socket(p *program) point {
	allow := p.ret(unix.SECCOMP_RET_ALLOW)
	badProtocol := p.ret(fail(unix.EPROTONOSUPPORT))
	route := p.then(opLoad, low(2), p.oneOf([]uint32{unix.NETLINK_ROUTE}, allow, badProtocol))
	protocol := p.then(opLoad, low(2), p.oneOf(ipProtocols[:], allow, badProtocol))
	ip := p.oneOf(ipTypes[:], protocol, p.ret(fail(unix.EPERM)))
	ip = p.then(opLoad, low(1), p.then(opAnd, typeMask, ip))

	family := p.branch(opEqual, unix.AF_NETLINK, route, p.ret(fail(unix.EAFNOSUPPORT)))
	family = p.oneOf([]uint32{unix.AF_INET, unix.AF_INET6}, ip, family)
	family = p.branch(opEqual, unix.AF_UNIX, allow, family)
	return p.then(opLoad, low(0), family)
}

// open judges a call whose flags are in the given argument and whose mode is in the next
// one. The mode comes first, as that ends nearly every call. It is not enough: without a
// flag that creates, there may be anything in it.
func open(p *program, flags uint32) point {
	allow, deny := p.ret(unix.SECCOMP_RET_ALLOW), p.ret(fail(unix.EPERM))
	made := p.then(opLoad, low(flags), p.branch(opAnySet, creating, deny, allow))
	return p.then(opLoad, low(flags+1), p.branch(opAnySet, setUserID, made, allow))
}

// spans covers all numbers, with what is allowed between the targets.
func spans(targets []target, allow point) []span {
	out := make([]span, 1, 2*len(targets)+1)
	out[0] = span{0, allow}
	put := func(from uint32, to point) {
		if n := len(out); n > 1 && out[n-1].from == from {
			out = out[:n-1] // it would be empty
		}
		if out[len(out)-1].to != to {
			out = append(out, span{from, to})
		}
	}
	for _, t := range targets {
		put(t.nr, t.to)
		put(t.nr+1, allow)
	}
	return out
}

func install(filter []bpf.RawInstruction) error {
	if len(filter) == 0 || len(filter) > unix.BPF_MAXINSNS {
		return fmt.Errorf("cannot install a filter of %d instructions", len(filter))
	}
	// The kernel would let CAP_SYS_ADMIN pass without it, and set-id programs would then
	// run under a filter that they do not expect.
	if nnp, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || nnp != 1 {
		return errors.New("cannot install a filter on a thread that has not set no_new_privs")
	}
	// bpf.RawInstruction has the layout of struct sock_filter.
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: (*unix.SockFilter)(unsafe.Pointer(&filter[0]))}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("cannot install the seccomp filter: %w", errno)
	}
	if mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0); err != nil || mode != unix.SECCOMP_MODE_FILTER {
		return errors.New("cannot confirm the seccomp filter: the thread's mode did not change")
	}
	return nil
}

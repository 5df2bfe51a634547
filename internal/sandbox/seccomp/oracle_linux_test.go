//go:build amd64 || arm64

package seccomp

import (
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// oracle is the policy as plain code.
func oracle(c call, nested bool) string {
	if c.arch != auditArch {
		return enosys
	}
	if runtime.GOARCH == "amd64" && c.nr >= 0x40000000 {
		if c.nr == 0xffffffff {
			return ok
		}
		return enosys
	}
	a0, a1, a2 := uint32(c.args[0]), uint32(c.args[1]), uint32(c.args[2])
	const always = unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	const unlessNested = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	switch c.nr {
	case unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_CLONE3:
		return enosys
	case unix.SYS_CHROOT:
		if !nested {
			return eperm
		}
	case unix.SYS_CLONE:
		if a0&always != 0 || !nested && a0&unlessNested != 0 {
			return eperm
		}
	case unix.SYS_UNSHARE:
		if a0&(always|unix.CLONE_NEWTIME) != 0 || !nested && a0&unlessNested != 0 {
			return eperm
		}
	case unix.SYS_IOCTL:
		if a1 == 0x5412 || a1 == 0x541c || a1 == 0x5423 {
			return eperm
		}
	case unix.SYS_SOCKET, unix.SYS_SOCKETPAIR:
		return socketOracle(a0, a1, a2)
	}
	if slices.Contains(alwaysEPERM, c.nr) {
		return eperm
	}
	return ok
}

func socketOracle(family, kind, protocol uint32) string {
	switch family {
	case unix.AF_UNIX:
		return ok
	case unix.AF_NETLINK:
		if protocol != 0 {
			return "EPROTONOSUPPORT"
		}
		return ok
	case unix.AF_INET, unix.AF_INET6:
		if k := kind % 16; k != unix.SOCK_STREAM && k != unix.SOCK_DGRAM {
			return eperm
		}
		if protocol != 0 && protocol != 6 && protocol != 17 {
			return "EPROTONOSUPPORT"
		}
		return ok
	}
	return "EAFNOSUPPORT"
}

func TestTable(t *testing.T) {
	seen := map[uint32]bool{}
	for _, e := range slices.Concat(table[:], archTable[:]) {
		if seen[e.nr] {
			t.Errorf("number %d is there twice", e.nr)
		}
		seen[e.nr] = true
		if e.why == "" {
			t.Errorf("number %d has no reason", e.nr)
		}
		if takesErrno := e.judge == refused || e.judge == unlessNested; takesErrno != (e.errno != 0) {
			t.Errorf("number %d: errno %d does not fit how it is judged", e.nr, e.errno)
		}
	}
}

// TestFilterShape keeps what the cost depends on: a call that is always allowed is decided
// from its number and architecture alone, which lets the kernel skip the filter, and in
// few steps, for kernels that do not.
func TestFilterShape(t *testing.T) {
	for _, nested := range []bool{false, true} {
		raw, err := Filter(Options{Nested: nested})
		if err != nil {
			t.Fatal(err)
		}
		longest := 0
		for nr := range uint32(600) {
			c := call{arch: auditArch, nr: nr}
			steps := 0
			for pc := 0; ; pc++ {
				steps++
				ins := raw[pc]
				switch ins.Op {
				case opLoad:
					if ins.K >= offsetArgs && oracle(c, nested) == ok && slices.Contains(ordinary, nr) {
						t.Fatalf("number %d looks at arguments", nr)
					}
					if ins.K >= offsetArgs {
						pc = len(raw) // judged by arguments: not followed further
					}
				case opGoto:
					pc += int(ins.K)
				case opReturn:
					pc = len(raw)
				default:
					value := nr
					if pc == 1 {
						value = auditArch
					}
					taken := ins.Op == opEqual && value == ins.K || ins.Op == opAtMin && value >= ins.K
					if taken {
						pc += int(ins.Jt)
					} else {
						pc += int(ins.Jf)
					}
				}
				if pc >= len(raw) {
					break
				}
			}
			longest = max(longest, steps)
		}
		t.Logf("nested=%v: %d instructions, at most %d steps by number", nested, len(raw), longest)
		if longest > 16 {
			t.Errorf("a number takes %d steps", longest)
		}
	}
}

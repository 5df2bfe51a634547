//go:build amd64 || arm64

package seccomp

import (
	"maps"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/net/bpf"
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
	case unix.SYS_PRLIMIT64:
		if a0 == 1 {
			return eperm
		}
	case unix.SYS_IOCTL:
		if a1 == 0x5412 || a1 == 0x541c || a1 == 0x5423 {
			return eperm
		}
	case unix.SYS_SOCKET, unix.SYS_SOCKETPAIR:
		return socketOracle(a0, a1, a2)
	case unix.SYS_OPENAT2:
		return enosys
	}
	if at, there := modes[c.nr]; there && uint32(c.args[at])>>11&1 == 1 {
		return eperm
	}
	if at, there := opens[c.nr]; there && uint32(c.args[at])>>11&1 == 1 && uint32(c.args[at-1])&(0o100|0o20000000) != 0 {
		return eperm
	}
	if slices.Contains(alwaysEPERM, c.nr) {
		return eperm
	}
	return ok
}

// Which argument holds the mode, where it always counts and where only with a flag, in the
// argument before it, that creates.
var (
	modes = merge(archModes, map[uint32]int{unix.SYS_FCHMOD: 1, unix.SYS_FCHMODAT: 2, 452: 2, unix.SYS_MKDIRAT: 2, unix.SYS_MKNODAT: 2})
	opens = merge(archOpens, map[uint32]int{unix.SYS_OPENAT: 3})
)

func merge(a, b map[uint32]int) map[uint32]int {
	maps.Copy(b, a)
	return b
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
// few steps, for kernels that do not. What opens and changes modes cannot be skipped, and
// takes few steps for what programs ordinarily ask.
func TestFilterShape(t *testing.T) {
	for _, nested := range []bool{false, true} {
		raw, err := Filter(Options{Nested: nested})
		if err != nil {
			t.Fatal(err)
		}
		longest, longestMode := 0, 0
		for nr := range uint32(600) {
			steps, looks := walk(t, raw, call{arch: auditArch, nr: nr})
			if looks && slices.Contains(ordinary, nr) {
				t.Errorf("number %d looks at arguments", nr)
			}
			_, byMode := modes[nr]
			_, byOpen := opens[nr]
			if looks != (byMode || byOpen || slices.Contains(judged, nr)) {
				t.Errorf("number %d looks at arguments: %v", nr, looks)
			}
			if byMode || byOpen {
				longestMode = max(longestMode, steps)
			} else if !looks {
				longest = max(longest, steps)
			}
		}
		t.Logf("nested=%v: %d instructions, at most %d steps by number and %d by an ordinary mode", nested, len(raw), longest, longestMode)
		if longest > 16 {
			t.Errorf("a number takes %d steps", longest)
		}
		if longestMode > 16 {
			t.Errorf("an ordinary mode takes %d steps", longestMode)
		}
	}
}

// walk follows a call through the filter.
func walk(t *testing.T, raw []bpf.RawInstruction, c call) (steps int, looks bool) {
	var word uint32
	for pc := 0; pc < len(raw); pc++ {
		steps++
		ins := raw[pc]
		taken := false
		switch ins.Op {
		case opLoad:
			switch ins.K {
			case offsetNr:
				word = c.nr
			case offsetArch:
				word = c.arch
			default:
				looks = true
				word = uint32(c.args[(ins.K-offsetArgs)/8])
			}
			continue
		case opAnd:
			word &= ins.K
			continue
		case opGoto:
			pc += int(ins.K)
			continue
		case opReturn:
			return steps, looks
		case opEqual:
			taken = word == ins.K
		case opAtMin:
			taken = word >= ins.K
		case opAnySet:
			taken = word&ins.K != 0
		}
		if taken {
			pc += int(ins.Jt)
		} else {
			pc += int(ins.Jf)
		}
	}
	t.Fatalf("number %d runs off the end", c.nr)
	return 0, false
}

package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"bourn/internal/posix"
)

// become makes this process, all of its threads, the person of the order, for good.
func become(o order) error {
	for _, step := range []struct {
		what string
		do   func() error
	}{
		// Before the uid: it takes CAP_SETPCAP. Of this thread only; the others end when it executes, and
		// with no_new_privs nothing can use what they keep.
		{"empty the bounding set", dropBounding},
		// Groups before the uid, or they could not be set any more.
		{"set the groups", func() error { return syscall.Setgroups(ints(o.groups)) }},
		{"set the gid", func() error { return syscall.Setresgid(int(o.gid), int(o.gid), int(o.gid)) }},
		{"set no_new_privs", func() error { return everyThread(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0) }},
		// What is inheritable, and so what is ambient, may be the caller's.
		{"clear the capabilities", clearInheritable},
		// With the last uid that is root's, the permitted and the effective set go (capabilities(7)).
		// Last, because threads are told by signals, and of a person's there may be as many as can wait.
		{"set the uid", func() error {
			ruid, euid, suid := o.ids()
			return syscall.Setresuid(int(ruid), int(euid), int(suid))
		}},
		{"become the person", func() error { return assertBecome(o) }},
	} {
		if err := step.do(); err != nil {
			return refuse(posix.RuntimeUnavailable, "cannot %s: %v", step.what, err)
		}
	}
	return nil
}

func ints(numbers []uint32) []int {
	list := make([]int, 0, len(numbers))
	for _, n := range numbers {
		list = append(list, int(n))
	}
	return list
}

func dropBounding() error {
	for capability := uintptr(0); capability < 64; capability++ {
		_, _, errno := unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, capability, 0, 0, 0, 0)
		if errors.Is(errno, unix.EINVAL) {
			return nil // past the last one that this kernel knows
		}
		if errno != 0 {
			return errno
		}
	}
	return nil
}

func clearInheritable() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return err
	}
	if sets[0].Inheritable == 0 && sets[1].Inheritable == 0 {
		return nil // as the threads began alike, of all of them; assertBecome looks at each
	}
	sets[0].Inheritable, sets[1].Inheritable = 0, 0
	return everyThread(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&sets[0])), 0)
}

//go:uintptrescapes
func everyThread(trap, a1, a2, a3 uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall(trap, a1, a2, a3); errno != 0 {
		return errno
	}
	return nil
}

// regains are system calls that would give root back. Each must be refused: what a system call returned
// on the way here is not believed, since a filter on system calls can answer in its place.
var regains = []struct {
	name           string
	trap, a, b, c_ uintptr
}{
	{"setuid(0)", unix.SYS_SETUID, 0, 0, 0},
	{"setgid(0)", unix.SYS_SETGID, 0, 0, 0},
	{"setreuid(-1, 0)", unix.SYS_SETREUID, ^uintptr(0), 0, 0},
	{"setregid(-1, 0)", unix.SYS_SETREGID, ^uintptr(0), 0, 0},
	{"setresuid(0, 0, 0)", unix.SYS_SETRESUID, 0, 0, 0},
	{"setresgid(0, 0, 0)", unix.SYS_SETRESGID, 0, 0, 0},
}

// assertBecome proves that the person is all that this process is.
func assertBecome(o order) error {
	for _, r := range regains {
		if _, _, errno := unix.RawSyscall(r.trap, r.a, r.b, r.c_); !errors.Is(errno, unix.EPERM) {
			return fmt.Errorf("%s was not refused", r.name)
		}
	}
	zero := [1]uint32{}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 1, uintptr(unsafe.Pointer(&zero)), 0); !errors.Is(errno, unix.EPERM) {
		return errors.New("setgroups was not refused")
	}
	threads, err := numbersIn("/proc/self/task")
	if err != nil {
		return err
	}
	self := unix.Gettid()
	if !slices.Contains(threads, self) {
		return errors.New("this thread is not in /proc")
	}
	for _, thread := range threads {
		status, err := readProc(fmt.Sprintf("/proc/self/task/%d/status", thread))
		if thread != self && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH)) {
			continue // it has ended
		}
		if err != nil {
			return err
		}
		if err := hasBecome(status, o, thread == self); err != nil {
			return fmt.Errorf("thread %d: %w", thread, err)
		}
	}
	return nil
}

// hasBecome compares a thread's status file with what an order makes of it; bounding says whether the
// bounding set counts.
func hasBecome(status []byte, o order, bounding bool) error {
	ruid, euid, suid := o.ids()
	groups := slices.Sorted(slices.Values(o.groups))
	want := []struct{ field, value string }{
		{"Uid", decimals(ruid, euid, suid, euid)}, // the last is of file access, and follows the effective one
		{"Gid", decimals(o.gid, o.gid, o.gid, o.gid)},
		{"Groups", decimals(groups...)},
		{"NoNewPrivs", "1"},
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb", "CapBnd"} {
		if set != "CapBnd" || bounding {
			want = append(want, struct{ field, value string }{set, strings.Repeat("0", 16)})
		}
	}
	for _, w := range want {
		is := strings.Join(strings.Fields(statusField(status, w.field)), " ")
		if is != w.value {
			return fmt.Errorf("%s is %q, not %q", w.field, is, w.value)
		}
	}
	return nil
}

func decimals(numbers ...uint32) string {
	words := make([]string, 0, len(numbers))
	for _, n := range numbers {
		words = append(words, strconv.FormatUint(uint64(n), 10))
	}
	return strings.Join(words, " ")
}

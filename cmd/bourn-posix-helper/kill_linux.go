package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"bourn/internal/posix"
)

// How long ending processes is tried, and how often it is looked.
const (
	killWithin = 5 * time.Second
	killPause  = 10 * time.Millisecond
)

// turnWait is how long others who end processes are waited for. With this and the lock of the registry, no
// helper takes more than 10 s, which is what the control plane waits.
const turnWait = 3 * time.Second

// prepareKill waits its turn.
func prepareKill(o order) (func() error, error) {
	if err := takeTurn(); err != nil {
		return nil, err
	}
	return func() error { return killAll(o) }, nil
}

// takeTurn makes this the only process that has the shield's number, until it ends: with it as
// real uid one could end the others (kill(2)). The lock is on this program's own file, which only the service and
// root can open. Root ends processes with a number of its own, and waits for nobody here.
func takeTurn() error {
	// The caller has the old real uid. Without it, nobody but root can stop or end this process, so it is
	// not left lying with a lock in its hands.
	if err := syscall.Setresuid(0, 0, 0); err != nil {
		return refuse(posix.RuntimeUnavailable, "cannot set the real uid: %v", err)
	}
	fd, err := unix.Open("/proc/self/exe", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return refuse(posix.RuntimeUnavailable, "cannot open its own file: %v", err)
	}
	for until := time.Now().Add(turnWait); ; time.Sleep(killPause) {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil // and fd stays open
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Now().After(until) {
			unix.Close(fd)
			return refuse(posix.RuntimeUnavailable, "cannot wait for others who end processes: %v", err)
		}
	}
}

// killAll ends every process of the person. Real and saved uid are the shield's, so they cannot end
// this one first. A process that forks does not escape: kill(2) goes through all of them under
// the lock that fork(2) needs, and a process with a signal that kills it forks no more.
func killAll(o order) error {
	var left []string
	for until := time.Now().Add(killWithin); time.Now().Before(until); {
		// The kernel leaves the caller out of -1. It is never root here; see assertBecome. The raw call
		// starts no thread: the host may have no room for one.
		_, _, errno := unix.RawSyscall(unix.SYS_KILL, ^uintptr(0), uintptr(unix.SIGKILL), 0)
		if errno != 0 && !errors.Is(errno, unix.ESRCH) && !errors.Is(errno, unix.EPERM) {
			return refuse(posix.RuntimeUnavailable, "cannot signal the processes of %s: %v", o.Person, errno)
		}
		var err error
		if left, err = running(o.uid); err != nil {
			return refuse(posix.RuntimeUnavailable, "cannot see what %s runs: %v", o.Person, err)
		}
		if len(left) == 0 {
			return nil
		}
		pause := unix.NsecToTimespec(int64(killPause))
		_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0)
	}
	const most = 8
	more := ""
	if len(left) > most {
		left, more = left[:most], ", …"
	}
	return refuse(posix.OperationFailed, "what %s runs does not end: %s%s", o.Person, strings.Join(left, ", "), more)
}

// running returns the processes that have a uid as real, effective or saved one, but for this one and
// those that have ended.
func running(uid uint32) ([]string, error) {
	pids, err := numbersIn("/proc")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, pid := range pids {
		if pid == unix.Getpid() {
			continue
		}
		status, err := readProc(fmt.Sprintf("/proc/%d/status", pid))
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if isOf(status, uid) && !hasEnded(status) {
			found = append(found, fmt.Sprintf("%d (%s)", pid, statusField(status, "Name")))
		}
	}
	return found, nil
}

func isOf(status []byte, uid uint32) bool {
	return slices.Contains(strings.Fields(statusField(status, "Uid")), strconv.FormatUint(uint64(uid), 10))
}

// hasEnded reports whether only the parent's wait is missing. A process whose first thread has ended
// while others run looks like it, with more than one thread.
func hasEnded(status []byte) bool {
	state, threads := statusField(status, "State"), statusField(status, "Threads")
	return (strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")) && (threads == "1" || threads == "0" || threads == "")
}

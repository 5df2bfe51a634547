package main

import (
	"errors"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"bourn"
	"bourn/internal/posix"
)

const unlimited = unix.RLIM_INFINITY

// limits are those of every person's actor, whatever the caller's are. The seal sets narrower ones. Where
// root may not raise a limit, as in most containers, what was inherited stays if it is at least least.
var limits = []struct {
	name              string
	resource          int
	soft, hard, least uint64
}{
	{"address space", unix.RLIMIT_AS, unlimited, unlimited, unlimited},
	{"core", unix.RLIMIT_CORE, 0, 0, 0}, // a core file would be a copy of what the actor holds
	{"processor time", unix.RLIMIT_CPU, unlimited, unlimited, unlimited},
	{"data", unix.RLIMIT_DATA, unlimited, unlimited, unlimited},
	{"file size", unix.RLIMIT_FSIZE, unlimited, unlimited, unlimited},
	{"locks", unix.RLIMIT_LOCKS, unlimited, unlimited, unlimited},
	{"locked memory", unix.RLIMIT_MEMLOCK, 8 << 20, 8 << 20, 0},
	{"message queues", unix.RLIMIT_MSGQUEUE, 819200, 819200, 0},
	{"nice", unix.RLIMIT_NICE, 0, 0, 0},
	{"open files", unix.RLIMIT_NOFILE, 1024, 65536, 1024},
	{"processes", unix.RLIMIT_NPROC, 4096, 4096, 256}, // of the uid, so of the person
	{"resident set", unix.RLIMIT_RSS, unlimited, unlimited, unlimited},
	{"real-time priority", unix.RLIMIT_RTPRIO, 0, 0, 0},
	{"real-time", unix.RLIMIT_RTTIME, unlimited, unlimited, unlimited},
	{"pending signals", unix.RLIMIT_SIGPENDING, pendingSignals, pendingSignals, 256},
	{"stack", unix.RLIMIT_STACK, 8 << 20, unlimited, 8 << 20},
}

// pendingSignals counts for all that a user runs. Here it is lifted until bourn is executed: threads
// change their identity by signals, and the runtime waits for each without end.
const pendingSignals = 16384

// setLimits sets the limits.
func setLimits() error {
	for _, l := range limits {
		if l.resource == unix.RLIMIT_SIGPENDING {
			l.soft, l.hard = unlimited, unlimited
		}
		err := unix.Prlimit(0, l.resource, &unix.Rlimit{Cur: l.soft, Max: l.hard}, nil)
		var had unix.Rlimit
		if errors.Is(err, unix.EPERM) && unix.Prlimit(0, l.resource, nil, &had) == nil && had.Max >= l.least {
			had.Cur = min(l.soft, had.Max)
			err = unix.Prlimit(0, l.resource, &had, nil)
		}
		if err != nil {
			return bourn.WithHint(refuse(posix.RuntimeUnavailable, "cannot limit %s: %v", l.name, err),
				"the service's own limit is too low, and raising it takes CAP_SYS_RESOURCE")
		}
	}
	return nil
}

// settle replaces what a process inherits besides its identity. README.md lists each thing, also those
// that stay as they are.
func settle() error {
	if err := setLimits(); err != nil {
		return err
	}
	unix.Umask(0o007)
	for _, timer := range []unix.ItimerWhich{unix.ITIMER_REAL, unix.ITIMER_VIRTUAL, unix.ITIMER_PROF} {
		if _, err := unix.Setitimer(timer, unix.Itimerval{}); err != nil {
			return refuse(posix.RuntimeUnavailable, "cannot stop a timer: %v", err)
		}
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, 0, 0, 0); errno != 0 {
		return refuse(posix.RuntimeUnavailable, "cannot reset the personality: %v", errno)
	}
	if err := leaveSession(); err != nil {
		return err
	}
	return unprotect()
}

// limitSignals undoes what setLimits lifted; it takes no privilege.
func limitSignals() error {
	var had unix.Rlimit
	err := unix.Prlimit(0, unix.RLIMIT_SIGPENDING, nil, &had)
	if err == nil && had.Max > pendingSignals {
		err = unix.Prlimit(0, unix.RLIMIT_SIGPENDING, &unix.Rlimit{Cur: pendingSignals, Max: pendingSignals}, nil)
	}
	if err != nil {
		return refuse(posix.RuntimeUnavailable, "cannot limit pending signals: %v", err)
	}
	return nil
}

// leaveSession makes the process lead a session without a terminal, so that nothing it starts can
// push input into the caller's.
func leaveSession() error {
	if _, err := unix.Setsid(); err == nil {
		return nil
	}
	session, err := unix.Getsid(0)
	if err != nil || session != unix.Getpid() {
		return bourn.WithHint(refuse(posix.RuntimeUnavailable, "it leads a process group and cannot leave the caller's session"),
			"start it without a process group of its own, or in a session of its own")
	}
	stat, err := readProc("/proc/self/stat")
	if err != nil {
		return refuse(posix.RuntimeUnavailable, "cannot tell whether there is a terminal: %v", err)
	}
	// tty_nr is the fifth field after the command's name, which may hold anything (proc_pid_stat(5)).
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 5 || fields[4] != "0" {
		return refuse(posix.RuntimeUnavailable, "it leads a session that has a terminal")
	}
	return nil
}

// unprotect takes away what keeps the service from being ended when memory runs out: a person's
// processes do not get that.
func unprotect() error {
	const name = "/proc/self/oom_score_adj"
	adj, err := readProc(name)
	if err != nil {
		return refuse(posix.RuntimeUnavailable, "cannot read oom_score_adj: %v", err)
	}
	if !strings.HasPrefix(string(adj), "-") {
		return nil
	}
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(fd)
		_, err = unix.Write(fd, []byte("0"))
	}
	if err != nil {
		return refuse(posix.RuntimeUnavailable, "cannot reset oom_score_adj: %v", err)
	}
	return nil
}

// resetSignals gives every signal its default and blocks none. It is the last thing before bourn is
// executed: the runtime cannot do without its handlers, and no longer needs them.
func resetSignals() error {
	// SIG_DFL, no flags, no restorer, an empty mask: all zero in every layout of a kernel_sigaction.
	var standard [64]byte
	const setSize = 8 // bytes of a kernel sigset_t, of 64 signals
	for signal := uintptr(1); signal <= 64; signal++ {
		if signal == uintptr(unix.SIGKILL) || signal == uintptr(unix.SIGSTOP) {
			continue
		}
		if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, signal, uintptr(unsafe.Pointer(&standard)), 0, setSize, 0, 0); errno != 0 {
			return refuse(posix.RuntimeUnavailable, "cannot reset signal %d: %v", signal, errno)
		}
	}
	var none unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &none, nil); err != nil {
		return refuse(posix.RuntimeUnavailable, "cannot unblock signals: %v", err)
	}
	return nil
}

// newKeyring leaves the service's session keyring, whose keys a process could use by merely having it.
func newKeyring() error {
	// The name is a null pointer, so the keyring is new and nobody else can join it (keyctl(2)).
	_, _, errno := unix.RawSyscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
	switch {
	case errno == 0, errors.Is(errno, unix.ENOSYS), errors.Is(errno, unix.EPERM):
		return nil // no keyrings here, or a container that lets nobody use them
	}
	return refuse(posix.RuntimeUnavailable, "cannot leave the session keyring: %v", errno)
}

package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"bourn"

	"golang.org/x/sys/unix"
)

// namespaces are those that a peer shares with the control plane: who is in others of its
// own is a container's or a seal's process of the same user.
var namespaces = []string{"user", "mnt", "pid"}

// peerOf returns who connected, and refuses a process that runs sealed: one in another
// user, mount or pid namespace, with no_new_privs or under seccomp. The kernel notes the
// process when it connects (SO_PEERCRED, unix(7)), and its pidfd (SO_PEERPIDFD, Linux
// 6.5) tells that what was read in /proc was about it and no process that came after. An
// older kernel has no such descriptor: there the process of that number must have been
// started by the time the daemon took the connection, and be the same user's. What that
// leaves open is a number that is used again between connecting and being accepted.
func peerOf(conn *net.UnixConn) (Peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var cred *unix.Ucred
	pidfd := -1
	var credErr, fdErr error
	accepted := time.Now()
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		pidfd, fdErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	})
	if fdErr == nil && pidfd >= 0 {
		defer unix.Close(pidfd)
	}
	if err = errors.Join(err, credErr); err != nil {
		return Peer{}, fmt.Errorf("%w: cannot tell who connected: %w", bourn.ErrDenied, err)
	}
	if cred.Pid <= 0 {
		return Peer{}, errSealed("it is in another pid namespace")
	}
	switch {
	case errors.Is(fdErr, unix.ENOPROTOOPT):
		if pidfd, err = unix.PidfdOpen(int(cred.Pid), 0); err != nil {
			return Peer{}, errGone
		}
		defer unix.Close(pidfd)
		if err := stillTheOne(int(cred.Pid), cred.Uid, accepted); err != nil {
			return Peer{}, err
		}
	case fdErr != nil:
		// The kernel has such descriptors, and none of this process: it has ended, and its
		// number may be another's.
		return Peer{}, errGone
	}
	if err := unsealed(int(cred.Pid), cred.Uid); err != nil {
		return Peer{}, err
	}
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil && !errors.Is(err, unix.EPERM) {
		return Peer{}, errGone
	}
	return Peer{Pid: int(cred.Pid), UID: cred.Uid, GID: cred.Gid}, nil
}

// errGone refuses a peer that has ended.
var errGone = fmt.Errorf("%w: cannot tell who connected: the process is gone", bourn.ErrDenied)

// ticks is how many ticks of /proc a second has: it is the same on every architecture
// (USER_HZ, time(7)).
const ticks = 100

// stillTheOne returns an error if the process of that number is another user's, or was
// started after a time.
func stillTheOne(pid int, uid uint32, at time.Time) error {
	var dir unix.Stat_t
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil || unix.Stat("/proc/"+strconv.Itoa(pid), &dir) != nil || dir.Uid != uid {
		return errGone
	}
	// The name in parentheses may hold anything; the start time is field 22 (proc(5)).
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return errGone
	}
	started, err := strconv.ParseInt(fields[19], 10, 64)
	var boot unix.Timespec
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return errGone
	}
	limit := time.Duration(boot.Nano()) - time.Since(at)
	if time.Duration(started)*(time.Second/ticks) > limit {
		return errGone
	}
	return nil
}

// unsealed returns an error unless the process, of a user, runs as freely as this one. What
// cannot be read is refused. Root, and the process's own user, are told its namespaces by the
// kernel; anybody else goes by what everybody may read of it.
func unsealed(pid int, uid uint32) error {
	dir := "/proc/" + strconv.Itoa(pid)
	same := sameNamespaces
	if me := uint32(os.Geteuid()); me != 0 && me != uid {
		same = sharesNamespaces
	}
	if err := same(dir); err != nil {
		return err
	}
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return errHidden("status")
	}
	seen := 0
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch name {
		case "NoNewPrivs":
			seen++
			if value != "0" {
				return errSealed("no_new_privs is set")
			}
		case "Seccomp":
			seen++
			if value != "0" {
				return errSealed("it runs under seccomp")
			}
		}
	}
	if seen != 2 {
		return errSealed("its status does not say how it runs")
	}
	return nil
}

// sameNamespaces returns an error unless the process with that directory in /proc is in this
// one's namespaces. It takes what ptrace(2) takes: the same user, or root.
func sameNamespaces(dir string) error {
	for _, name := range namespaces {
		theirs, err := os.Readlink(dir + "/ns/" + name)
		if err != nil {
			return errSealed("its " + name + " namespace cannot be read")
		}
		ours, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			return fmt.Errorf("%w: cannot read the own %s namespace: %w", bourn.ErrInternal, name, err)
		}
		if theirs != ours {
			return errSealed("it is in another " + name + " namespace")
		}
	}
	return nil
}

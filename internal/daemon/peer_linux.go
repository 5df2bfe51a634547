package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"bourn"

	"golang.org/x/sys/unix"
)

// namespaces are those that a peer shares with the control plane: who is in others of its
// own is a container's or a seal's process of the same user.
var namespaces = []string{"user", "mnt", "pid"}

// peerOf returns who connected, and refuses a process that runs sealed: one in another
// user, mount or pid namespace, with no_new_privs or under seccomp. The kernel notes the
// process when it connects (SO_PEERCRED, unix(7)), and its pidfd (SO_PEERPIDFD, Linux
// 6.5) tells that what was read in /proc was about it and no process that came after.
func peerOf(conn *net.UnixConn) (Peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var cred *unix.Ucred
	pidfd := -1
	var credErr, fdErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		pidfd, fdErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	})
	if err = errors.Join(err, credErr); err != nil {
		return Peer{}, fmt.Errorf("%w: cannot tell who connected: %w", bourn.ErrDenied, err)
	}
	if fdErr == nil {
		defer unix.Close(pidfd)
	} else if pidfd, err = unix.PidfdOpen(int(cred.Pid), 0); err == nil {
		// Before Linux 6.5: the process of this number now. One that took the number over
		// since has the same user, or the credentials would differ below.
		defer unix.Close(pidfd)
	} else {
		return Peer{}, fmt.Errorf("%w: cannot tell who connected: the process is gone", bourn.ErrDenied)
	}
	if cred.Pid <= 0 {
		return Peer{}, errSealed("it is in another pid namespace")
	}
	if err := unsealed(int(cred.Pid)); err != nil {
		return Peer{}, err
	}
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil && !errors.Is(err, unix.EPERM) {
		return Peer{}, fmt.Errorf("%w: cannot tell who connected: the process is gone", bourn.ErrDenied)
	}
	return Peer{Pid: int(cred.Pid), UID: cred.Uid, GID: cred.Gid}, nil
}

// unsealed returns an error unless the process runs as freely as this one. What cannot be
// read is refused.
func unsealed(pid int) error {
	dir := "/proc/" + strconv.Itoa(pid)
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
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return errSealed("its status cannot be read")
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

package main

import (
	"errors"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"bourn/internal/posix"
)

// dialWait is how long the database may take to accept, and the caller to take the descriptor.
var dialWait = unix.Timeval{Sec: 5}

// prepareDial finds out where the database's socket stands.
func prepareDial(o order) (func() error, error) {
	name, err := databaseAt()
	if err != nil {
		return nil, err
	}
	return func() error { return dial(name) }, nil
}

// databaseAt returns the path of the database's socket: the one line of the file at databasePath or,
// without one, databaseSocket.
func databaseAt() (string, error) {
	dir, err := openDirectory(path.Dir(databasePath), false)
	if err != nil {
		return "", err
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	if err := unix.Fstatat(dir, path.Base(databasePath), &st, unix.AT_SYMLINK_NOFOLLOW); errors.Is(err, unix.ENOENT) {
		return databaseSocket, nil
	}
	line, err := readTrusted(databasePath, maxDatabase)
	if err != nil {
		return "", err
	}
	name, err := parseSocketPath(line)
	if err != nil {
		return "", refuseFile(databasePath, "does not say where a socket stands: %v", err)
	}
	return name, nil
}

// parseSocketPath reads a line that holds the path of a socket.
func parseSocketPath(line []byte) (string, error) {
	name := strings.TrimSuffix(string(line), "\n")
	if !path.IsAbs(name) || path.Clean(name) != name || strings.ContainsAny(name, "\n\x00") {
		return "", errors.New("one clean absolute path is needed")
	}
	if len(name) > 107 {
		return "", errors.New("the path has more than 107 bytes, the most that unix(7) takes")
	}
	return name, nil
}

// dial connects as the person, which is what the database looks at, and gives the connection to the caller:
// one byte, 0, that carries one descriptor.
func dial(name string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return refuse(posix.RuntimeUnavailable, "cannot make a socket: %v", err)
	}
	defer unix.Close(fd)
	for _, s := range []int{fd, 0} {
		if err := unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &dialWait); err != nil {
			return refuse(posix.RuntimeUnavailable, "cannot limit how long a socket waits: %v", err)
		}
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		return refuse(posix.RuntimeUnavailable, "cannot connect to the database at %s: %v", name, err)
	}
	// The limit was this process's own; the connection is the caller's.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{}); err != nil {
		return refuse(posix.RuntimeUnavailable, "cannot hand the connection over: %v", err)
	}
	if err := unix.Sendmsg(0, []byte{0}, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL); err != nil {
		return refuse(posix.RuntimeUnavailable, "cannot hand the connection over: %v", err)
	}
	return nil
}

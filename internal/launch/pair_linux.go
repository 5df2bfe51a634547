package launch

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

func socketPair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "socketpair"), os.NewFile(uintptr(fds[1]), "socketpair")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("cannot make a socketpair: %w", err)
	}
	return conn, theirs, nil
}

//go:build !linux

package launch

import (
	"errors"
	"net"
	"os"
)

func socketPair() (net.Conn, *os.File, error) {
	return nil, nil, errors.New("cannot make a socketpair on this system")
}

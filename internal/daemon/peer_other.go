//go:build !linux

package daemon

import (
	"fmt"
	"net"

	"bourn"
)

func peerOf(*net.UnixConn) (Peer, error) {
	return Peer{}, fmt.Errorf("%w: this system does not tell who is at the other end of a socket", bourn.ErrWeakHost)
}

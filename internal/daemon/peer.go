package daemon

import (
	"fmt"

	"bourn"
)

// A Peer is who is at the other end of the local socket, as the kernel says.
type Peer struct {
	Pid int
	UID uint32
	GID uint32
}

// errSealed refuses a peer that runs sealed. It says nothing of what there is here.
func errSealed(why string) error {
	return bourn.WithHint(fmt.Errorf("%w: the control plane does not serve sealed processes (%s)", bourn.ErrDenied, why),
		"ask the person who started this run")
}

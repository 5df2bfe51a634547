package posix

import (
	"fmt"
	"math"

	"bourn"
)

// EndProcesses ends every process of a person, whose uid must be of this range, and returns
// when none is left: [Options].Stop for the machine itself. A thread signals as the person, with
// a reserved number, which no account gets, as its real and saved uid, so that what
// it signals cannot end it first. A process that forks does not escape: kill(2) of -1 reaches
// all at once. Helpers that end processes of the person at the same time are left alone.
//
// It needs CAP_SETUID in the user namespace of the host, and the processes must be in this
// pid namespace or below it. Processes that are not gone after 10 seconds are ErrUnavailable.
func (r Range) EndProcesses(uid uint32) error {
	shield := r.shield()
	if !r.people().contains(uid) || uid == 0 || uid > math.MaxInt32 || shield == 0 {
		return fmt.Errorf("cannot end what user %d runs: %w: it is not a person's number, which are %s", uid, bourn.ErrInvalid, r.people())
	}
	return endProcesses(uid, shield, r.HelperShield())
}

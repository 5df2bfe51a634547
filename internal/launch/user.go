package launch

import "bourn/internal/policy"

// As calls f as another user of the host's: with that user's ids where files are concerned,
// and without the capabilities that root has there. Only the thread that f begins on is
// changed, so f must start no goroutine that opens anything. It is root's to call. Where
// this host does not let root change the error is bourn.ErrWeakHost, and f was not called.
func As(u *policy.User, f func()) error { return as(u, f) }

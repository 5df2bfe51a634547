package workspace

import (
	"sync"
	"time"
)

// relief has who is busy for longer than after, or up to twice that, be relieved. Its timer goes
// on from one call to the next: to set one for each would wake a thread each time.
type relief struct {
	after time.Duration

	mu       sync.Mutex
	timer    *time.Timer // nil at first
	armed    bool
	calls    uint64
	busy     uint64 // the call that is being performed; 0 for none
	seen     uint64 // calls, when the timer was last heard
	relieved func()
}

// begin is called before a call, and returns its number for end after it. Between them
// relieved may be called, once, in a goroutine of its own: end reports whether.
func (r *relief) begin(relieved func()) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	r.busy, r.relieved = r.calls, relieved
	switch {
	case r.armed:
	case r.timer == nil:
		r.timer = time.AfterFunc(r.after, r.late)
	default:
		r.timer.Reset(r.after)
	}
	r.armed = true
	return r.calls
}

func (r *relief) end(call uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy != call {
		return true // and who relieved it may be busy by now
	}
	r.busy = 0
	return false
}

// late is called while there are calls.
func (r *relief) late() {
	r.mu.Lock()
	again, relieved := r.calls != r.seen, func() {}
	if r.seen = r.calls; !again && r.busy != 0 {
		r.busy, relieved = 0, r.relieved
	}
	if r.armed = again; again {
		r.timer.Reset(r.after)
	}
	r.mu.Unlock()
	relieved()
}

package daemon

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"bourn/internal/store"
)

// The control plane acts on records as a member: with a session that it issues for them, and
// for nobody else. One is used again until it nears its end.
const (
	sessionValid = 15 * time.Minute
	sessionSpare = 2 * time.Minute // what is left of one that is not used any more
	maxSessions  = 4096            // of members who ask over HTTP or the local socket
)

// A heldSession is a session of one member's. Its zero value has none yet.
type heldSession struct {
	mu       sync.Mutex
	live     []store.Session // not revoked yet, the newest last; the others may still be in use
	readOnly bool
	closed   bool
}

// as runs f as the member, with a session of the kind that may write or not. A session that
// has ended meanwhile is issued anew, once: whether the member may have one, the database says.
func (h *heldSession) as(ctx context.Context, c *control, member store.MemberID, kind store.Kind, readOnly bool, f func(context.Context, store.Querier) error) error {
	for again := false; ; again = true {
		s, err := h.get(ctx, c, member, kind, readOnly)
		if err != nil {
			return err
		}
		err = c.store.Records.As(ctx, s, f)
		if !errors.Is(err, store.ErrSessionEnded) || again {
			return err
		}
		h.mu.Lock()
		h.live = slices.DeleteFunc(h.live, func(one store.Session) bool { return one == s })
		h.mu.Unlock()
	}
}

// get returns the session, and issues one where there is none that lasts, or one for the other
// purpose.
func (h *heldSession) get(ctx context.Context, c *control, member store.MemberID, kind store.Kind, readOnly bool) (store.Session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return store.Session{}, store.ErrSessionEnded
	}
	if n := len(h.live); n > 0 && h.readOnly == readOnly && h.live[n-1].Expires.Sub(c.now()) > sessionSpare {
		return h.live[n-1], nil
	}
	if h.readOnly != readOnly {
		// What was granted before is not any more, also to who is at it.
		if err := h.revoke(ctx, c, 0); err != nil {
			return store.Session{}, err
		}
	}
	issue := c.store.Records.Issue
	if readOnly {
		issue = c.store.Records.IssueReading
	}
	s, err := issue(ctx, member, kind, sessionValid)
	if err != nil {
		return s, err
	}
	h.live, h.readOnly = append(h.live, s), readOnly
	return s, h.revoke(ctx, c, 2)
}

// revoke ends all sessions but the newest few. Who is at it with one is refused from the next
// statement on.
func (h *heldSession) revoke(ctx context.Context, c *control, keep int) error {
	for len(h.live) > keep {
		if err := c.store.Records.Revoke(ctx, h.live[0]); err != nil {
			return err
		}
		h.live = h.live[1:]
	}
	return nil
}

// close revokes the sessions, and lets no other be issued.
func (h *heldSession) close(ctx context.Context, c *control) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	return h.revoke(ctx, c, 0)
}

// memberSessions are the sessions of members who ask themselves.
type memberSessions struct {
	mu   sync.Mutex
	kept map[store.MemberID]*heldSession
}

// of returns what holds a member's session. Where there are too many, others are forgotten:
// they end by themselves.
func (m *memberSessions) of(member store.MemberID) *heldSession {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.kept[member]
	if h == nil {
		if m.kept == nil || len(m.kept) >= maxSessions {
			m.kept = map[store.MemberID]*heldSession{}
		}
		h = &heldSession{}
		m.kept[member] = h
	}
	return h
}

// close revokes all of them. What cannot be revoked ends by itself.
func (m *memberSessions) close(ctx context.Context, c *control) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for member, h := range m.kept {
		if err := h.close(ctx, c); err != nil {
			c.config.Log.WarnContext(ctx, "a session is not revoked", "member", member.String(), "error", err)
			return // the database is away
		}
	}
}

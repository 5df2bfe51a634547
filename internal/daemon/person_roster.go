package daemon

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"bourn"
	"bourn/internal/audit"
	"bourn/internal/posix"
	"bourn/internal/store"
)

// rootName is the member that root is on a shared host: an administrator.
const rootName = "root"

// A rosterChange is a member as the registry wants it.
type rosterChange struct {
	what   string
	member store.Member
}

// rosterChanges returns what is to be done so that the members are the registry's people, the
// service, and root as an administrator. Who loses something comes first: a user is one
// member's at most.
func rosterChanges(members []store.Member, r posix.Registry) (all []rosterChange, err error) {
	wanted, known := map[store.MemberID]posix.Entry{}, map[store.MemberID]store.Member{}
	ids := map[uint32]store.MemberID{}
	for _, e := range r.People {
		if e.Member == "" {
			continue
		}
		id, err := memberID(e.Member)
		if err != nil {
			return nil, fmt.Errorf("%w person %q: %w", bourn.ErrInvalid, e.ID, err)
		}
		wanted[id], ids[e.UID] = e, id
	}
	root := false
	for _, m := range members {
		known[m.ID] = m
		e, isWanted := wanted[m.ID]
		switch {
		case m.UID == nil || isWanted && *m.UID == e.UID:
		case *m.UID == 0 && isWanted:
			// The person would become an administrator, and root nobody.
			return nil, bourn.WithHint(fmt.Errorf("%w person %q: the member %s is root's", bourn.ErrDenied, e.ID, m.ID), "give the person another member: bourn people add --member, or leave it out")
		case *m.UID == 0:
			root = true
			if want := (store.Member{ID: m.ID, Name: m.Name, Administrator: true, UID: m.UID}); m.Removed || !m.Administrator {
				all = append(all, rosterChange{"member made an administrator: root", want})
			}
		case *m.UID >= r.Range.First && *m.UID <= r.Range.Last || ids[*m.UID] != (store.MemberID{}):
			// Their number is nobody's, or another member's by now.
			m.UID, m.Removed = nil, true
			known[m.ID] = m
			if !isWanted {
				all = append(all, rosterChange{"member removed: no person of this host any more", m})
			} else {
				all = append(all, rosterChange{"member's user taken away", m})
			}
		}
	}
	for _, e := range r.People {
		if e.Member == "" {
			continue
		}
		id, _ := memberID(e.Member)
		m, there := known[id]
		uid := e.UID
		want := store.Member{ID: id, Name: e.ID, Administrator: m.Administrator, UID: &uid, Removed: !e.Active}
		if there && sameMember(m, want) || !there && !e.Active {
			continue
		}
		what := "member changed"
		switch {
		case !there:
			what = "member made"
		case want.Removed && !m.Removed:
			what = "member removed"
		case !want.Removed && m.Removed:
			what = "member came back"
		}
		all = append(all, rosterChange{what, want})
	}
	if !root {
		uid := uint32(0)
		all = append(all, rosterChange{"member made, administrator: root", store.Member{ID: store.NewMemberID(), Name: rootName, Administrator: true, UID: &uid}})
	}
	return all, nil
}

func sameMember(a, b store.Member) bool {
	return a.Name == b.Name && a.Administrator == b.Administrator && a.Removed == b.Removed && a.UID != nil && b.UID != nil && *a.UID == *b.UID
}

// memberID reads an id as the registry has it.
func memberID(text string) (id store.MemberID, err error) {
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(b) != len(id) {
		return id, errors.New("its member is no uuid")
	}
	return store.MemberID(b), nil
}

// syncPeople makes the members and circles as the registry has them. The log has each change first.
func (c *control) syncPeople(ctx context.Context) error {
	p := c.people
	p.mu.Lock()
	r, done := p.registry, p.synced || p.bad != nil
	p.mu.Unlock()
	if done {
		return nil
	}
	members, err := c.store.Roster(ctx)
	if err != nil {
		return err
	}
	all, err := rosterChanges(members, r)
	if err != nil {
		return err
	}
	for _, change := range all {
		e := audit.Entry{Kind: audit.KindChange, Who: "host", For: change.member.ID.String(), What: change.what, Target: change.member.Name, By: "registry of people", Outcome: audit.Allowed}
		if err := c.log.Effect(ctx, e, func() error { return c.store.PutMember(ctx, change.member) }); err != nil {
			return err
		}
	}
	if err := c.syncCircles(ctx, r); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.synced = true // what changed meanwhile is seen within a second
	return nil
}

// watchPeople follows the registry until ctx ends.
func (c *control) watchPeople(ctx context.Context, say func(string, ...any)) {
	p := c.people
	every(ctx, watchEvery, func() {
		before := p.problem()
		if all := p.reread(); len(all) > 0 {
			p.mu.Lock()
			end := p.end
			p.mu.Unlock()
			if end != nil {
				end(all)
			}
		}
		err := c.syncPeople(ctx)
		if now := p.problem(); err == nil && now != nil && (before == nil || before.Error() != now.Error()) {
			err = now
		}
		if err != nil && ctx.Err() == nil {
			say("the people of this host", "error", err)
		}
	})
}

package daemon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"bourn"
	"bourn/internal/audit"
	"bourn/internal/posix"
	"bourn/internal/store"
)

// A circleChange is a circle as the registry wants it.
type circleChange struct {
	what   string
	circle store.RosterCircle
}

// circleID is the circle of the records that a registry's is: the same on every start, in both
// databases. A number is never given twice, so that a circle of a name that another had is
// another.
func circleID(c posix.CircleEntry) store.ID {
	sum := sha256.Sum256(fmt.Appendf(nil, "bourn circle\x00%s\x00%d", c.ID, c.GID))
	id := store.ID(sum[:16])
	id[6] = id[6]&0x0f | 0x80 // RFC 9562 version 8
	id[8] = id[8]&0x3f | 0x80
	return id
}

// circleChanges returns what is to be done so that the circles of the host are the registry's,
// with the active persons who are members. What takes something from somebody comes first.
// Circles that administrators made are theirs.
func circleChanges(circles []store.RosterCircle, r posix.Registry) (all []circleChange, err error) {
	known := map[store.ID]store.RosterCircle{}
	for _, c := range circles {
		known[c.ID] = c
	}
	for _, e := range r.Circles {
		members, err := membersOf(e, r)
		if err != nil {
			return nil, err
		}
		name := e.ID
		want := store.RosterCircle{ID: circleID(e), Name: name, Host: &name, Members: members}
		has, there := known[want.ID]
		delete(known, want.ID)
		if there && has.Same(want) {
			continue
		}
		all = append(all, circleChange{differs(has, want, there), want})
	}
	for _, c := range circles {
		if _, left := known[c.ID]; left && c.Host != nil && !c.Removed {
			c.Removed, c.Members = true, nil
			all = append(all, circleChange{"circle removed: not of this host any more", c})
		}
	}
	takes := func(c circleChange) int {
		if c.circle.Removed {
			return 0 // another may have its name
		}
		for _, has := range circles {
			if has.ID == c.circle.ID && slices.ContainsFunc(has.Members, func(m store.MemberID) bool { return !slices.Contains(c.circle.Members, m) }) {
				return 0
			}
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b circleChange) int { return cmp.Compare(takes(a), takes(b)) })
	return all, nil
}

// membersOf are the members that are in a circle, sorted.
func membersOf(c posix.CircleEntry, r posix.Registry) ([]store.MemberID, error) {
	members := []store.MemberID{}
	for _, e := range r.People {
		if !e.Active || e.Member == "" || !slices.Contains(e.Groups, c.GID) {
			continue
		}
		id, err := memberID(e.Member)
		if err != nil {
			return nil, fmt.Errorf("%w person %q: %w", bourn.ErrInvalid, e.ID, err)
		}
		members = append(members, id)
	}
	slices.SortFunc(members, func(a, b store.MemberID) int { return slices.Compare(a[:], b[:]) })
	return members, nil
}

// differs says what changes about a circle.
func differs(has, want store.RosterCircle, there bool) string {
	switch {
	case !there:
		return "circle made"
	case has.Removed:
		return "circle came back"
	}
	count := func(of, without []store.MemberID) (n int) {
		for _, m := range of {
			if !slices.Contains(without, m) {
				n++
			}
		}
		return n
	}
	return fmt.Sprintf("circle changed: %d joined, %d left", count(want.Members, has.Members), count(has.Members, want.Members))
}

// syncCircles makes the circles of the host as the registry has them. The log has each change
// first.
func (c *control) syncCircles(ctx context.Context, r posix.Registry) error {
	return c.changeCircles(ctx, func(circles []store.RosterCircle) error {
		all, err := circleChanges(circles, r)
		if err != nil {
			return err
		}
		for _, change := range all {
			e := audit.Entry{Kind: audit.KindChange, Who: "host", What: change.what, Target: change.circle.Name, By: "registry of people", Outcome: audit.Allowed}
			if err := c.log.Effect(ctx, e, func() error { return c.store.WriteCircle(ctx, change.circle) }); err != nil {
				return err
			}
		}
		return nil
	})
}

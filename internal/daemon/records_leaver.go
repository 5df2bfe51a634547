package daemon

import (
	"context"
	"slices"

	"bourn/internal/store"
)

// Who leaves a circle sees nothing of it from their next statement on: the database keeps that.
// A statement in the midst of its rows, and a cursor that is open, ask no policy again. Their
// connections end, whoever changes the circle here.

// onLeaving has f told of each member who has left a circle.
func (c *control) onLeaving(f func(store.MemberID)) {
	c.circles.Lock()
	defer c.circles.Unlock()
	c.leaving = append(c.leaving, f)
}

// changeCircles has change do what changes circles, which it is told as they are; nobody else
// changes them meanwhile. Who is in fewer of them afterwards has left, also where change fails
// halfway.
func (c *control) changeCircles(ctx context.Context, change func([]store.RosterCircle) error) error {
	c.circles.Lock()
	defer c.circles.Unlock()
	before, err := c.store.RosterCircles(ctx)
	if err != nil {
		return err
	}
	defer c.endLeavers(context.WithoutCancel(ctx), before)
	return change(before)
}

// endLeavers tells of those who are not in a circle any more. Where it is not known who is,
// nobody is.
func (c *control) endLeavers(ctx context.Context, before []store.RosterCircle) {
	ctx, cancel := context.WithTimeout(ctx, revokeWithin)
	defer cancel()
	now, err := c.store.RosterCircles(ctx)
	if err != nil {
		c.config.Log.WarnContext(ctx, "it is not known who has left a circle: SQL of all who were in one ends", "error", err)
	}
	in := map[store.ID][]store.MemberID{}
	for _, circle := range now {
		in[circle.ID] = circle.Members
	}
	for _, circle := range before {
		for _, member := range circle.Members {
			if slices.Contains(in[circle.ID], member) {
				continue
			}
			for _, f := range c.leaving {
				f(member)
			}
		}
	}
}

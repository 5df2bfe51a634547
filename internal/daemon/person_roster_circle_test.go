package daemon

import (
	"context"
	"slices"
	"testing"

	"bourn"
	"bourn/internal/posix"
	"bourn/internal/store"
)

// circlesOf is a registry with circles, and with people in them by the circles' gids.
func circlesOf(circles []posix.CircleEntry, in map[store.MemberID][]uint32, inactive ...store.MemberID) posix.Registry {
	r := posix.Registry{Range: posix.DefaultRange, Circles: circles}
	for m, groups := range in {
		r.People = append(r.People, posix.Entry{ID: m.String(), Member: m.String(), Groups: groups, Active: !slices.Contains(inactive, m)})
	}
	r.People = append(r.People, posix.Entry{ID: "eve", Groups: []uint32{70000}, Active: true}) // who is no member
	return r
}

// The circles follow the registry: who leaves one sees its records no more, and what
// administrators made is theirs.
func TestCirclesFollowRegistry(t *testing.T) {
	o := newOffice(t)
	ids := map[string]store.MemberID{}
	for name, text := range o.ids {
		id, err := store.ParseID(text)
		must(t, err)
		ids[name] = store.MemberID(id)
	}
	sales, lab := posix.CircleEntry{ID: "sales", GID: 70000}, posix.CircleEntry{ID: "lab", GID: 70001}
	apps := store.ID{0: 5}
	must(t, o.store.WriteCircle(t.Context(), store.RosterCircle{ID: apps, Name: "sales", Members: []store.MemberID{ids["ann"]}}))
	h := &heldSession{}
	records := func(who string) (n int) {
		must(t, o.server.members.of(ids[who]).as(t.Context(), o.control, ids[who], store.Socket, false, func(ctx context.Context, q store.Querier) error {
			all, _, err := store.Records(ctx, q, store.RecordFilter{})
			n = len(all)
			return err
		}))
		return n
	}
	id := circleID(sales)
	for i, step := range []struct {
		registry posix.Registry
		changes  int
		bob      int // records that he sees
	}{
		{circlesOf([]posix.CircleEntry{sales, lab}, map[store.MemberID][]uint32{ids["ann"]: {70000, 70001}, ids["bob"]: {70000}}), 2, 0},
		{circlesOf([]posix.CircleEntry{sales, lab}, map[store.MemberID][]uint32{ids["ann"]: {70000, 70001}, ids["bob"]: {70000}}), 0, 1},
		{circlesOf([]posix.CircleEntry{sales, lab}, map[store.MemberID][]uint32{ids["ann"]: {70000}, ids["bob"]: {70001}}), 2, 0},
		{circlesOf([]posix.CircleEntry{sales, lab}, map[store.MemberID][]uint32{ids["ann"]: {70000}, ids["bob"]: {70000, 70001}}), 1, 1},
		{circlesOf([]posix.CircleEntry{sales, lab}, map[store.MemberID][]uint32{ids["ann"]: {70000}, ids["bob"]: {70000, 70001}}, ids["bob"]), 2, 0},
		{circlesOf([]posix.CircleEntry{sales}, map[store.MemberID][]uint32{ids["ann"]: {70000}, ids["bob"]: {70000}}), 2, 1},
		{circlesOf(nil, map[store.MemberID][]uint32{ids["ann"]: {}, ids["bob"]: {}}), 1, 0},
		// Another circle of the name that one had.
		{circlesOf([]posix.CircleEntry{{ID: "sales", GID: 70002}}, map[store.MemberID][]uint32{ids["ann"]: {70002}, ids["bob"]: {70002}}), 1, 0},
	} {
		has, err := o.store.RosterCircles(t.Context())
		must(t, err)
		all, err := circleChanges(has, step.registry)
		must(t, err)
		if len(all) != step.changes {
			t.Errorf("step %d: %+v", i, all)
		}
		must(t, o.syncCircles(t.Context(), step.registry))
		if i == 0 {
			must(t, h.as(t.Context(), o.control, ids["ann"], store.Socket, false, func(ctx context.Context, q store.Querier) error {
				_, err := store.AddRecord(ctx, q, store.NewRecord{Collection: "plans", Circle: &id, Body: []byte("{}")})
				return err
			}))
			continue
		}
		if n := records("bob"); n != step.bob {
			t.Errorf("step %d: Bob sees %d records, want %d", i, n, step.bob)
		}
		if n := records("ann"); n != 1 {
			t.Errorf("step %d: Ann sees %d records, want her own", i, n)
		}
	}
	all, err := o.store.RosterCircles(t.Context())
	must(t, err)
	for _, c := range all {
		if c.ID == apps && (c.Removed || len(c.Members) != 1) {
			t.Errorf("an administrator's circle is %+v", c)
		}
		if c.ID == id && (!c.Removed || len(c.Members) != 0) {
			t.Errorf("a circle that is gone is %+v", c)
		}
	}
}

// Who loses something comes first.
func TestCircleChangesOrder(t *testing.T) {
	ann, bob := store.MemberID{1}, store.MemberID{2}
	a, b := posix.CircleEntry{ID: "a", GID: 70000}, posix.CircleEntry{ID: "b", GID: 70001}
	host := "x"
	has := []store.RosterCircle{{ID: circleID(b), Name: "b", Host: &b.ID, Members: []store.MemberID{ann, bob}}, {ID: store.ID{7}, Name: "x", Host: &host, Members: []store.MemberID{ann}}}
	all, err := circleChanges(has, circlesOf([]posix.CircleEntry{a, b}, map[store.MemberID][]uint32{ann: {70000}, bob: {70001}}))
	if err != nil || len(all) != 3 || all[2].what != "circle made" || all[0].what != "circle changed: 0 joined, 1 left" || all[1].what != "circle removed: not of this host any more" {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := circleChanges(nil, posix.Registry{Circles: []posix.CircleEntry{a}, People: []posix.Entry{{ID: "ann", Member: "ann", Groups: []uint32{70000}, Active: true}}}); bourn.CodeOf(err) != bourn.CodeInvalid {
		t.Errorf("a member that is none: %v", err)
	}
}

package daemon

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/posix"
	"bourn/internal/store"
	"bourn/internal/workspace"
)

// idOf is the id of a member of the office's.
func (o *office) idOf(name string) store.MemberID {
	id, err := store.ParseID(o.ids[name])
	must(o.t, err)
	return store.MemberID(id)
}

// sleeping opens a connection of a member's, on which a statement sleeps for longer than a test
// may take; ended is what comes of it.
func (o *office) sleeping(member store.MemberID, role string) (c *store.SQL, ended <-chan error) {
	o.t.Helper()
	c, err := o.server.tools.sql.all.Open(o.t.Context(), store.SQLFor{Member: member, Role: role, Kind: store.Agent, Socket: o.db.SocketDir()})
	must(o.t, err)
	o.t.Cleanup(c.End)
	return c, o.sleeps(c)
}

// sleeps runs a statement that sleeps, and returns once it does.
func (o *office) sleeps(c *store.SQL) <-chan error {
	o.t.Helper()
	before, ended := o.asleep(), make(chan error, 1)
	go func() {
		_, err := c.Run(context.WithoutCancel(o.t.Context()), store.SQLQuery{Text: "begin; declare c cursor for select from record; fetch 1 from c; select pg_sleep(600)", Limits: agentLimits})
		ended <- err
	}()
	for o.asleep() <= before {
		select {
		case err := <-ended:
			o.t.Fatal(err)
		case <-o.t.Context().Done():
			o.t.FailNow()
		default:
		}
	}
	return ended
}

func (o *office) asleep() (n int) {
	conn := o.db.Connect(o.t, "postgres", "records")
	defer conn.Close(o.t.Context())
	must(o.t, conn.QueryRow(o.t.Context(), "select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'").Scan(&n))
	return n
}

// Who leaves a circle, in whatever way, loses what runs: a cursor that was open before would
// show its rows on. Who stays loses nothing.
func TestCircleLeaversLoseSQL(t *testing.T) {
	o := newOffice(t)
	_, err := store.AgentRoles(t.Context(), o.db.ServerURL("postgres", "postgres"), store.AgentRoleWish{Active: []string{"bc_m_ann", "bc_m_bob"}})
	must(t, err)
	ann, bob := o.idOf("ann"), o.idOf("bob")
	stays, _ := o.sleeping(bob, "bc_m_bob")
	made := func(name string) string {
		c, err := o.clients["admin"].PutCircle(t.Context(), api.PutCircle{Name: name})
		must(t, err)
		for _, who := range []string{"ann", "bob"} {
			must(t, o.clients["admin"].PutCircleMember(t.Context(), c.ID, o.ids[who]))
		}
		return c.ID
	}
	sales, lab := posix.CircleEntry{ID: "sales", GID: 70000}, posix.CircleEntry{ID: "lab", GID: 70001}
	both := map[store.MemberID][]uint32{ann: {70000, 70001}, bob: {70000}}
	must(t, o.syncCircles(t.Context(), circlesOf([]posix.CircleEntry{sales, lab}, both)))
	one, other := made("one"), made("other")
	must(t, o.clients["admin"].RemoveCircleMember(t.Context(), other, o.ids["bob"]))
	select {
	case <-stays.Done():
	default:
		t.Error("who left one circle of two goes on")
	}
	stays, _ = o.sleeping(bob, "bc_m_bob")
	for what, leave := range map[string]func() error{
		"over HTTP":        func() error { return o.clients["admin"].RemoveCircleMember(t.Context(), one, o.ids["ann"]) },
		"a removed circle": func() error { return o.clients["admin"].RemoveCircle(t.Context(), other) },
		"in the registry": func() error {
			return o.syncCircles(t.Context(), circlesOf([]posix.CircleEntry{sales, lab}, map[store.MemberID][]uint32{ann: {70001}, bob: {70000}}))
		},
		"gone from the host": func() error {
			return o.syncCircles(t.Context(), circlesOf([]posix.CircleEntry{sales}, map[store.MemberID][]uint32{ann: {}, bob: {70000}}))
		},
	} {
		c, ended := o.sleeping(ann, "bc_m_ann")
		must(t, leave())
		select {
		case <-c.Done():
		default:
			t.Errorf("%s: who left goes on", what)
			c.End()
		}
		if err := <-ended; bourn.CodeOf(err) != bourn.CodeDenied && !t.Failed() {
			t.Errorf("%s: %v", what, err)
		}
		must(t, o.syncCircles(t.Context(), circlesOf([]posix.CircleEntry{sales, lab}, both)))
	}
	select {
	case <-stays.Done():
		t.Error("who stays was ended")
	default:
	}
}

// Runs of a member's leave room for what the person asks: also where each of them sleeps.
func TestRunsLeaveRoom(t *testing.T) {
	o := newOffice(t)
	_, err := store.AgentRoles(t.Context(), o.db.ServerURL("postgres", "postgres"), store.AgentRoleWish{Active: []string{store.SelfRole}})
	must(t, err)
	// A control plane whose own the database is: nothing else of it is asked for.
	o.server.tools.sql.control = &control{store: o.store, db: &database{running: o.db.Cluster()}}
	members, err := o.store.Roster(t.Context())
	must(t, err)
	at := slices.IndexFunc(members, func(m store.Member) bool { return m.UID != nil && int(*m.UID) == os.Geteuid() })
	if at < 0 {
		t.Fatalf("%+v", members)
	}
	me := members[at]
	var busy []<-chan error
	var all []*store.SQL
	run := func() (*store.SQL, error) {
		return o.server.tools.sql.connection(t.Context(), &gatedRun{member: me.ID, actor: new(workspace.Client)}, false)
	}
	for range maxRunSQL {
		c, err := run()
		must(t, err)
		t.Cleanup(c.End)
		all, busy = append(all, c), append(busy, o.sleeps(c))
	}
	if _, err := run(); bourn.CodeOf(err) != bourn.CodeUnavailable || bourn.HintOf(err) == "" {
		t.Errorf("a run more: %v", err)
	}
	mine := context.WithValue(context.WithValue(t.Context(), peerKey, Peer{UID: uint32(os.Geteuid())}), principalKey, principal{member: &me})
	if r, err := o.server.queryRecords(mine, api.QueryRecords{SQL: "select 1"}); err != nil || len(r.Statements) != 1 {
		t.Errorf("the person's own: %+v, %v", r, err)
	}
	// One that nobody uses gives way.
	all[0].End()
	if err := <-busy[0]; bourn.CodeOf(err) != bourn.CodeUnavailable {
		t.Error(err)
	}
	idle, err := run()
	for bourn.CodeOf(err) == bourn.CodeUnavailable { // until it is known that one has ended
		idle, err = run()
	}
	must(t, err)
	next, err := run()
	must(t, err)
	t.Cleanup(next.End)
	select {
	case <-idle.Done():
	case <-time.After(10 * time.Second):
		t.Error("one that nobody uses keeps its place")
	}
}

// What a run is granted of records is known at the door, or the run is refused.
func TestActorsRecordsFlag(t *testing.T) {
	o := newOffice(t)
	for word, refused := range map[string]bool{"": false, "read": false, "write": false, "all": true, "none": true, "Read": true, "read,write": true} {
		a := o.ask("GET", "/v1/runs/r1/actor?agent=mur&records="+word, "")
		p := a.problem(t)
		if is := a.status == 422 && p.Hint == "leave it out for none"; is != refused {
			t.Errorf("records=%s: %d %s", word, a.status, a.body)
		}
	}
}

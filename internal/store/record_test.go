package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"bourn"
	"bourn/internal/store"
	"bourn/internal/store/cluster"
	"bourn/internal/store/storetest"

	"github.com/jackc/pgx/v5"
)

// A database that the first release made, with what is in it, is brought up to date.
func TestMigrateFirstRelease(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		server, err := pgx.Connect(t.Context(), db.ServerURL(cluster.Admin, "postgres"))
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close(context.WithoutCancel(t.Context()))
		const name = "first_release"
		for _, sql := range []string{"create database " + name + " template template0 encoding 'UTF8'", "revoke all on database " + name + " from public", "grant connect on database " + name + " to bourn_control, bourn_app, bc_person"} {
			if _, err := server.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() {
			db.Admin(t, "records", "drop database "+name+" with (force)")
		})
		url := db.ServerURL(cluster.Admin, name)
		for _, set := range []string{"auth", "records"} {
			if err := store.MigrateTo(t.Context(), url, set, 1); err != nil {
				t.Fatal(err)
			}
		}
		old, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer old.Close(context.WithoutCancel(t.Context()))
		for _, sql := range []string{
			"insert into auth.members (id, name) values ('" + annID + "', 'Ann')",
			"insert into auth.circles (id, name) values ('" + circleID + "', 'sales')",
			"insert into auth.circle_members values ('" + circleID + "', '" + annID + "')",
			"insert into app.record (id, collection, owner_id, visibility, circle_id, body) values ('" + recordID + "', 'notes', '" + annID + "', 'circle', '" + circleID + `', '{"text": "the blue teapot"}')`,
			"insert into app.record (collection, owner_id, body) values ('notes', '" + annID + "', '[]')", // of before there was a rule
		} {
			if _, err := old.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		if err := store.PrepareDatabase(t.Context(), url, []string{"auth", "records"}, ""); err != nil {
			t.Fatal(err)
		}
		opened, err := store.Open(t.Context(), func(role, database string) string {
			if database == store.RecordsDatabase {
				return db.ServerURL(role, name)
			}
			return db.URL(role, database)
		})
		if err != nil {
			t.Fatal(err)
		}
		defer opened.Close()
		s := issue(t, opened.Records, parseMember(t, annID), time.Minute)
		err = opened.Records.As(t.Context(), s, func(ctx context.Context, q store.Querier) error {
			all, _, err := store.Records(ctx, q, store.RecordFilter{Words: "teapot"})
			if err == nil && (len(all) != 1 || all[0].ID.String() != recordID || all[0].Visibility != store.Circle) {
				t.Errorf("got %+v", all)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// as runs f as somebody.
func (c *cast) as(t testing.TB, who string, f func(ctx context.Context, q store.Querier) error) error {
	t.Helper()
	return c.db.Records.As(t.Context(), c.sessions[who], f)
}

// add keeps a record of somebody's.
func (c *cast) add(t testing.TB, who string, n store.NewRecord) store.Record {
	t.Helper()
	var r store.Record
	err := c.as(t, who, func(ctx context.Context, q store.Querier) (err error) {
		r, err = store.AddRecord(ctx, q, n)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func parseID(t testing.TB, text string) *store.ID {
	t.Helper()
	id, err := store.ParseID(text)
	if err != nil {
		t.Fatal(err)
	}
	return &id
}

func TestRecordPages(t *testing.T) {
	c := newCast(t, storetest.New(t))
	var want []string
	for i := range 25 {
		n := store.NewRecord{Collection: "notes", Body: json.RawMessage(fmt.Sprintf(`{"n": %d}`, i))}
		if i%5 == 0 {
			n.Collection, n.Circle = "plans", parseID(t, circleID)
		}
		if i%5 == 1 {
			n.Visibility = store.Company
		}
		want = append(want, c.add(t, "ann", n).ID.String())
	}
	// Several of one moment: the place is exact all the same.
	c.db.Admin(t, "records", "update app.record set created_at = '2026-01-02 03:04:05.678901Z' where (body->>'n')::int between 5 and 14")
	read := func(who string, f store.RecordFilter) (got []string, pages int) {
		for {
			var all []store.Record
			var next store.Place
			err := c.as(t, who, func(ctx context.Context, q store.Querier) (err error) {
				all, next, err = store.Records(ctx, q, f)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if pages++; pages > 100 {
				t.Fatal("the pages have no end")
			}
			for _, r := range all {
				got = append(got, r.ID.String())
			}
			if next == (store.Place{}) {
				return got, pages
			}
			if len(all) != f.Limit {
				t.Fatalf("a page of %d with a next one", len(all))
			}
			// As it travels.
			if f.After, err = store.ParsePlace(next.String()); err != nil || f.After.String() != next.String() {
				t.Fatal(err)
			}
		}
	}
	for _, limit := range []int{1, 3, 4, 5, 25, 26} {
		got, pages := read("ann", store.RecordFilter{Limit: limit})
		if pages != (24+limit)/limit {
			t.Errorf("%d pages of %d", pages, limit)
		}
		slices.Sort(got)
		all := slices.Sorted(slices.Values(want))
		if !slices.Equal(got, all) {
			t.Errorf("pages of %d have %d records, want each of 25 once", limit, len(got))
		}
	}
	for _, test := range []struct {
		who    string
		filter store.RecordFilter
		want   int
	}{
		{"ann", store.RecordFilter{Collection: "plans"}, 5}, {"ann", store.RecordFilter{Collection: "none"}, 0},
		{"ann", store.RecordFilter{Circle: parseID(t, circleID)}, 5}, {"ann", store.RecordFilter{Visibility: store.Private}, 15},
		{"ann", store.RecordFilter{Collection: "notes", Visibility: store.Company}, 5}, {"ann", store.RecordFilter{Circle: parseID(t, alienID)}, 0},
		{"bob", store.RecordFilter{}, 11}, {"eve", store.RecordFilter{}, 5}, {"agent", store.RecordFilter{}, 5}, {"reading", store.RecordFilter{}, 25},
	} {
		test.filter.Limit = 7
		if got, _ := read(test.who, test.filter); len(got) != test.want {
			t.Errorf("%s, %+v: %d records, want %d", test.who, test.filter, len(got), test.want)
		}
	}
	for _, bad := range []string{"x", "AAAA", strings.Repeat("A", 31), strings.Repeat("A", 33), " "} {
		if _, err := store.ParsePlace(bad); bourn.CodeOf(err) != bourn.CodeInvalid {
			t.Errorf("%q is a place: %v", bad, err)
		}
	}
}

func TestRecordWords(t *testing.T) {
	c := newCast(t, storetest.New(t))
	c.add(t, "ann", store.NewRecord{Collection: "notes", Body: json.RawMessage(`{"text": "the blue teapot", "more": ["of Bob's kitchen"]}`)})
	c.add(t, "ann", store.NewRecord{Collection: "notes", Body: json.RawMessage(`{"text": "the red teapot"}`)})
	for words, want := range map[string]int{"teapot": 2, "blue teapot": 1, `"teapot blue"`: 0, `"blue teapot"`: 1, "teapot -blue": 1, "kitchen or red": 2, "TEAPOT": 2, "'": 2, "!(&|": 2, "cup": 0, "x' or 1=1": 0} {
		for who, of := range map[string]int{"ann": want, "bob": 0} {
			err := c.as(t, who, func(ctx context.Context, q store.Querier) error {
				all, _, err := store.Records(ctx, q, store.RecordFilter{Words: words})
				if len(all) != of && words != "'" && words != "!(&|" { // words that are none
					t.Errorf("%s finds %d by %q, want %d", who, len(all), words, of)
				}
				return err
			})
			if err != nil {
				t.Errorf("%q: %v", words, err)
			}
		}
	}
}

// A record that is hidden and one that is not there are refused by the same words.
func TestHiddenIsMissing(t *testing.T) {
	c := newCast(t, storetest.New(t))
	r := c.add(t, "ann", store.NewRecord{Collection: "notes", Body: json.RawMessage(`{}`)})
	none := store.ID{0: 1, 15: 7}
	text := "x"
	for what, do := range map[string]func(context.Context, store.Querier, store.ID) error{
		"get record": func(ctx context.Context, q store.Querier, id store.ID) error {
			_, err := store.GetRecord(ctx, q, id)
			return err
		},
		"change record": func(ctx context.Context, q store.Querier, id store.ID) error {
			_, err := store.ChangeRecord(ctx, q, id, store.RecordChange{Collection: &text})
			return err
		},
		"delete record": store.DeleteRecord,
		"add task": func(ctx context.Context, q store.Querier, id store.ID) error {
			_, err := store.AddTask(ctx, q, store.NewTask{Title: "t", Record: &id})
			return err
		},
		"get task": func(ctx context.Context, q store.Querier, id store.ID) error {
			_, err := store.GetTask(ctx, q, id)
			return err
		},
		"delete task": store.DeleteTask,
	} {
		hidden := c.as(t, "eve", func(ctx context.Context, q store.Querier) error { return do(ctx, q, r.ID) })
		missing := c.as(t, "eve", func(ctx context.Context, q store.Querier) error { return do(ctx, q, none) })
		if hidden == nil || missing == nil || bourn.HintOf(hidden) == "" || bourn.HintOf(hidden) != bourn.HintOf(missing) ||
			strings.ReplaceAll(hidden.Error(), r.ID.String(), none.String()) != missing.Error() {
			t.Errorf("%s: hidden: %v; missing: %v", what, hidden, missing)
		}
		if code := bourn.CodeOf(hidden); code != bourn.CodeNotFound && code != bourn.CodeDenied {
			t.Errorf("%s: %v", what, hidden)
		}
	}
	// What is seen and another's is refused for what it is.
	open := c.add(t, "ann", store.NewRecord{Collection: "notes", Visibility: store.Company, Body: json.RawMessage(`{}`)})
	if err := c.as(t, "eve", func(ctx context.Context, q store.Querier) error { return store.DeleteRecord(ctx, q, open.ID) }); bourn.CodeOf(err) != bourn.CodeDenied || bourn.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
}

// Whoever leaves a circle sees nothing of it from the next statement on, also inside a
// transaction, and takes back what is theirs.
func TestLeaver(t *testing.T) {
	c := newCast(t, storetest.New(t))
	anns := c.add(t, "ann", store.NewRecord{Collection: "notes", Circle: parseID(t, circleID), Body: json.RawMessage(`{}`)})
	left := c.add(t, "bob", store.NewRecord{Collection: "notes", Circle: parseID(t, circleID), Body: json.RawMessage(`{}`)})
	bobs := c.add(t, "bob", store.NewRecord{Collection: "notes", Circle: parseID(t, circleID), Body: json.RawMessage(`{}`)})
	err := c.as(t, "bob", func(ctx context.Context, q store.Querier) error {
		if _, err := store.GetRecord(ctx, q, anns.ID); err != nil {
			return err
		}
		// While Bob's transaction is open.
		if err := c.as(t, "admin", func(ctx context.Context, q store.Querier) error {
			return store.RemoveCircleMember(ctx, q, *parseID(t, circleID), c.members["bob"])
		}); err != nil {
			return err
		}
		if _, err := store.GetRecord(ctx, q, anns.ID); bourn.CodeOf(err) != bourn.CodeNotFound {
			t.Errorf("Bob sees it still: %v", err)
		}
		if r, err := store.GetRecord(ctx, q, bobs.ID); err != nil || r.Circle == nil {
			t.Errorf("Bob does not see his own: %+v, %v", r, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	private := store.Private
	if err := c.as(t, "bob", func(ctx context.Context, q store.Querier) error {
		_, err := store.ChangeRecord(ctx, q, bobs.ID, store.RecordChange{Body: json.RawMessage(`{"more": 1}`)})
		return err
	}); bourn.CodeOf(err) != bourn.CodeDenied {
		t.Errorf("who has left changes what the circle sees: %v", err)
	}
	if err := c.as(t, "bob", func(ctx context.Context, q store.Querier) error {
		r, err := store.ChangeRecord(ctx, q, bobs.ID, store.RecordChange{Visibility: &private})
		if err == nil && (r.Circle != nil || r.Visibility != store.Private) {
			t.Errorf("got %+v", r)
		}
		if err != nil {
			return err
		}
		// One that is still in the circle is deleted as it is.
		return errors.Join(store.DeleteRecord(ctx, q, bobs.ID), store.DeleteRecord(ctx, q, left.ID))
	}); err != nil {
		t.Errorf("Bob does not take back what is his: %v", err)
	}
	if err := c.as(t, "admin", func(ctx context.Context, q store.Querier) error {
		return store.RemoveCircle(ctx, q, *parseID(t, circleID))
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.as(t, "ann", func(ctx context.Context, q store.Querier) error {
		all, _, err := store.Circles(ctx, q, 0, store.Place{})
		if len(all) != 1 {
			t.Errorf("the circles are %+v", all)
		}
		if r, err := store.GetRecord(ctx, q, anns.ID); err != nil || r.Owner != c.members["ann"] {
			t.Errorf("%+v, %v", r, err)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// A circle of the host is the control plane's to change, and no administrator's.
func TestHostCircle(t *testing.T) {
	c := newCast(t, storetest.New(t))
	host := "sales"
	circle := store.RosterCircle{ID: store.ID{0: 9}, Name: "sales", Host: &host, Members: []store.MemberID{c.members["ann"], c.members["bob"]}}
	if err := c.db.WriteCircle(t.Context(), circle); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(context.Context, store.Querier) error{
		"put":    func(ctx context.Context, q store.Querier) error { return store.PutCircle(ctx, q, circle.ID, "x") },
		"remove": func(ctx context.Context, q store.Querier) error { return store.RemoveCircle(ctx, q, circle.ID) },
		"put member": func(ctx context.Context, q store.Querier) error {
			return store.PutCircleMember(ctx, q, circle.ID, c.members["eve"])
		},
		"remove member": func(ctx context.Context, q store.Querier) error {
			return store.RemoveCircleMember(ctx, q, circle.ID, c.members["ann"])
		},
	} {
		if err := c.as(t, "admin", change); bourn.CodeOf(err) != bourn.CodeConflict || bourn.HintOf(err) == "" {
			t.Errorf("%s: %v", what, err)
		}
		if err := c.as(t, "agent", change); bourn.CodeOf(err) != bourn.CodeDenied {
			t.Errorf("%s as an agent: %v", what, err)
		}
	}
	inside := func(who string) (n int) {
		if err := c.as(t, who, func(ctx context.Context, q store.Querier) error {
			return q.QueryRow(ctx, "select cardinality(auth.my_circles())").Scan(&n)
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if inside("ann") != 2 || inside("eve") != 0 {
		t.Errorf("Ann is in %d circles, Eve in %d", inside("ann"), inside("eve"))
	}
	// No list of members is one without any.
	if _, err := c.db.Connect(t, "bourn_control", "records").Exec(t.Context(), "select auth.write_circle($1, 'sales', 'sales', false, null)", circle.ID); err != nil || inside("ann") != 1 {
		t.Errorf("with null for the members Ann is in %d circles, %v", inside("ann"), err)
	}
	for _, step := range []struct {
		members  []store.MemberID
		removed  bool
		ann, eve int
	}{{[]store.MemberID{c.members["eve"]}, false, 1, 1}, {nil, false, 1, 0}, {[]store.MemberID{c.members["ann"]}, false, 2, 0}, {[]store.MemberID{c.members["ann"]}, true, 1, 0}} {
		circle.Members, circle.Removed = step.members, step.removed
		if err := c.db.WriteCircle(t.Context(), circle); err != nil {
			t.Fatal(err)
		}
		if inside("ann") != step.ann || inside("eve") != step.eve {
			t.Errorf("%+v: Ann is in %d circles, Eve in %d", step, inside("ann"), inside("eve"))
		}
	}
	// Control has what the record has, also where the writing was cut short between the two.
	c.db.Admin(t, "control", "delete from auth.circle_members; delete from auth.circles")
	if err := c.db.SyncRoster(t.Context()); err != nil {
		t.Fatal(err)
	}
	const all = "select c.id||c.name||coalesce(host_id, '-')||(removed_at is null)||coalesce(string_agg(member_id::text, ' ' order by member_id), '') from auth.circles c left join auth.circle_members on circle_id = id group by c.id, c.name, host_id, removed_at order by 1"
	want, got := rows(t, c.db.Connect(t, cluster.Admin, "records"), all), rows(t, c.db.Connect(t, cluster.Admin, "control"), all)
	if !slices.Equal(want, got) || len(got) != 3 {
		t.Errorf("control has %q, the record %q", got, want)
	}
}

// A session for a role holds on connections of that role alone, and the database keeps what
// it may.
func TestIssueFor(t *testing.T) {
	c := newCast(t, storetest.New(t))
	if _, err := c.db.IssueFor(t.Context(), c.members["ann"], "bourn_control", store.Agent, time.Minute, true, 0); bourn.CodeOf(err) != bourn.CodeInvalid {
		t.Errorf("a session of the control plane's own role: %v", err)
	}
	s, err := c.db.IssueFor(t.Context(), c.members["ann"], "bc_m_ann", store.Agent, time.Minute, true, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.db.Records.As(t.Context(), s, func(context.Context, store.Querier) error { return nil }); !errors.Is(err, store.ErrSessionEnded) {
		t.Errorf("it holds as another role: %v", err)
	}
	if s, err = c.db.IssueFor(t.Context(), c.members["ann"], "bourn_app", store.Agent, time.Minute, true, 0); err != nil {
		t.Fatal(err)
	}
	var write bool
	if err := c.db.Records.As(t.Context(), s, func(ctx context.Context, q store.Querier) error {
		return q.QueryRow(ctx, "select auth.may_write()").Scan(&write)
	}); err != nil || write {
		t.Errorf("a session that only reads may write: %t, %v", write, err)
	}
}

// A list is found by an index, also below the policies.
func TestRecordsByIndex(t *testing.T) {
	c := newCast(t, storetest.New(t))
	c.db.Admin(t, "records", `insert into app.record (collection, owner_id, visibility, body, created_at)
		select 'c'||i%50, case when i%10 = 0 then '`+annID+`'::uuid else gen_random_uuid() end, case when i%20 > 1 then 'company' else 'private' end,
			jsonb_build_object('text', 'word'||i%1000), now() - i * interval '1 second' from generate_series(1, 20000) i`, "vacuum analyze app.record")
	for _, test := range []struct {
		filter store.RecordFilter
		index  []string
	}{
		{store.RecordFilter{}, []string{"record_by_age"}},
		// No index of contents is asked below a policy (side_doors.sql): what the member sees is
		// found by index, and looked through.
		{store.RecordFilter{Collection: "c7"}, []string{"record_of_company", "record_by_age"}},
		{store.RecordFilter{Words: "word77"}, []string{"record_of_company"}},
	} {
		sql, args := test.filter.Query()
		err := c.as(t, "ann", func(ctx context.Context, q store.Querier) error {
			r, err := q.Query(ctx, "explain "+sql, append([]any{pgx.QueryExecModeExec}, args...)...)
			if err != nil {
				return err
			}
			lines, err := pgx.CollectRows(r, pgx.RowTo[string])
			plan := strings.Join(lines, "\n")
			if strings.Contains(plan, "Seq Scan on record") || !slices.ContainsFunc(test.index, func(i string) bool { return strings.Contains(plan, i) }) {
				t.Errorf("%+v is not found by %v:\n%s", test.filter, test.index, plan)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

package daemon

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"bourn"
	"bourn/api"
	"bourn/internal/store"
)

// A office is a control plane with three members, each of whom asks as the host would say that
// they do: the kernel's word is put in, the rest is the server as it runs.
type office struct {
	*plane
	server  *server
	clients map[string]*api.Client
	ids     map[string]string
	urls    map[string]string
}

// newOffice makes Ann, Bob and an administrator, the root of the names.
func newOffice(t testing.TB) *office {
	t.Helper()
	p := begin(t)
	o := &office{plane: p, server: newServer(p.control), clients: map[string]*api.Client{}, ids: map[string]string{}, urls: map[string]string{}}
	t.Cleanup(func() { o.server.tools.close(); o.server.members.close(context.WithoutCancel(t.Context()), p.control) })
	for i, name := range []string{"ann", "bob", "admin"} {
		uid := uint32(4_000_000 + i)
		m := store.Member{ID: store.NewMemberID(), Name: name, Administrator: name == "admin", UID: &uid}
		must(t, p.store.PutMember(t.Context(), m))
		o.ids[name] = m.ID.String()
		h := httptest.NewUnstartedServer(o.server.handler)
		h.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, peerKey, Peer{UID: uid})
		}
		h.Start()
		t.Cleanup(h.Close)
		o.urls[name], o.clients[name] = h.URL, api.NewClient(h.URL, "")
		t.Cleanup(o.clients[name].Close)
	}
	return o
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wants holds an error to a code, and to a hint.
func wants(t testing.TB, what string, err error, code bourn.Code) {
	t.Helper()
	if bourn.CodeOf(err) != code || err != nil && code != bourn.CodeInvalid && bourn.HintOf(err) == "" {
		t.Errorf("%s: got %v (%s, hint %q), want %s with a hint", what, err, bourn.CodeOf(err), bourn.HintOf(err), code)
	}
}

func TestRecordsOverHTTP(t *testing.T) {
	o := newOffice(t)
	ctx := t.Context()
	ann, bob, admin := o.clients["ann"], o.clients["bob"], o.clients["admin"]
	text := func(s string) *string { return &s }

	t.Run("company", func(t *testing.T) {
		if c, err := bob.Company(ctx); err != nil || c != (api.Company{}) {
			t.Errorf("before it has a name: %+v, %v", c, err)
		}
		_, err := ann.ChangeCompany(ctx, api.CompanyChange{Name: "Ann's"})
		wants(t, "Ann changes the company", err, bourn.CodeDenied)
		if c, err := admin.ChangeCompany(ctx, api.CompanyChange{Name: "Teapots & Co"}); err != nil || c.Name != "Teapots & Co" {
			t.Errorf("%+v, %v", c, err)
		}
		if c, err := bob.Company(ctx); err != nil || c.Name != "Teapots & Co" || c.Updated.IsZero() {
			t.Errorf("%+v, %v", c, err)
		}
		_, err = admin.ChangeCompany(ctx, api.CompanyChange{Name: "x\x1b[31m"})
		wants(t, "a name that cannot be printed", err, bourn.CodeInvalid)
	})
	t.Run("members", func(t *testing.T) {
		var names []string
		q := api.RecordsQuery{Limit: 2}
		for {
			page, err := bob.Members(ctx, q)
			must(t, err)
			for _, m := range page.Members {
				names = append(names, m.Name)
			}
			if q.NextPage = page.Next; q.NextPage == "" {
				break
			}
		}
		if len(names) != 4 || !slices.Equal(names[1:], []string{"ann", "bob", "admin"}) {
			t.Errorf("the members are %q", names)
		}
	})
	var circle string
	t.Run("circles", func(t *testing.T) {
		_, err := ann.PutCircle(ctx, api.PutCircle{Name: "sales"})
		wants(t, "Ann makes a circle", err, bourn.CodeDenied)
		made, err := admin.PutCircle(ctx, api.PutCircle{Name: "sale"})
		must(t, err)
		circle = made.ID
		if _, err := admin.PutCircle(ctx, api.PutCircle{ID: circle, Name: "sales"}); err != nil {
			t.Error(err)
		}
		for _, who := range []string{"ann", "bob"} {
			wants(t, "Ann puts a member in", ann.PutCircleMember(ctx, circle, o.ids[who]), bourn.CodeDenied)
			must(t, admin.PutCircleMember(ctx, circle, o.ids[who]))
			must(t, admin.PutCircleMember(ctx, circle, o.ids[who])) // again
		}
		wants(t, "a member who is none", admin.PutCircleMember(ctx, circle, circle), bourn.CodeNotFound)
		wants(t, "a circle that is none", admin.PutCircleMember(ctx, o.ids["ann"], o.ids["ann"]), bourn.CodeNotFound)
		wants(t, "an id that is none", admin.RemoveCircle(ctx, "x"), bourn.CodeInvalid)
		wants(t, "Bob removes the circle", bob.RemoveCircle(ctx, circle), bourn.CodeDenied)
		// The other database has it, too.
		var inControl int
		must(t, o.db.Connect(t, "postgres", "control").QueryRow(ctx, "select count(*) from auth.circle_members m join auth.circles c on c.id = m.circle_id where c.name = 'sales'").Scan(&inControl))
		if inControl != 2 {
			t.Errorf("control has %d members of the circle", inControl)
		}
		all, err := ann.Circles(ctx, api.RecordsQuery{})
		if err != nil || len(all.Circles) != 1 || all.Circles[0].Name != "sales" || len(all.Circles[0].Members) != 2 || all.Circles[0].FromHost {
			t.Errorf("%+v, %v", all, err)
		}
	})
	var private, open, shared api.Record
	t.Run("records", func(t *testing.T) {
		var err error
		private, err = ann.NewRecord(ctx, api.NewRecord{Collection: "notes", Body: []byte(`{"text":"a secret teapot"}`)})
		must(t, err)
		open, err = ann.NewRecord(ctx, api.NewRecord{Collection: "notes", Visibility: "company", Body: []byte(`{"text":"an open teapot"}`)})
		must(t, err)
		shared, err = ann.NewRecord(ctx, api.NewRecord{Collection: "plans", Circle: circle, Body: []byte(`{"text":"a plan","big":12345678901234567890}`)})
		must(t, err)
		if private.Owner != o.ids["ann"] || private.Visibility != "private" || shared.Visibility != "circle" || shared.Circle != circle || !strings.Contains(string(shared.Body), "12345678901234567890") {
			t.Errorf("%+v %+v", private, shared)
		}
		for who, want := range map[string]int{"ann": 3, "bob": 2, "admin": 1} {
			all, err := o.clients[who].Records(ctx, api.RecordsQuery{})
			if err != nil || len(all.Records) != want || all.Next != "" {
				t.Errorf("%s sees %+v, %v; want %d", who, all, err, want)
			}
		}
		for _, q := range []api.RecordsQuery{{Words: "teapot"}, {Collection: "notes"}, {Visibility: "company"}} {
			if all, err := bob.Records(ctx, q); err != nil || len(all.Records) != 1 || all.Records[0].ID != open.ID {
				t.Errorf("%+v: %+v, %v", q, all, err)
			}
		}
		_, hidden := bob.Record(ctx, private.ID)
		_, missing := bob.Record(ctx, circle)
		wants(t, "hidden", hidden, bourn.CodeNotFound)
		if strings.ReplaceAll(hidden.Error(), private.ID, circle) != missing.Error() || bourn.HintOf(hidden) != bourn.HintOf(missing) {
			t.Errorf("hidden: %v; missing: %v", hidden, missing)
		}
		_, err = bob.ChangeRecord(ctx, open.ID, api.RecordChange{Collection: text("mine")})
		wants(t, "Bob changes what he sees", err, bourn.CodeDenied)
		_, err = bob.ChangeRecord(ctx, private.ID, api.RecordChange{Collection: text("mine")})
		wants(t, "Bob changes what he does not see", err, bourn.CodeNotFound)
		wants(t, "Bob deletes what he sees", bob.DeleteRecord(ctx, open.ID), bourn.CodeDenied)
		wants(t, "the administrator deletes what he does not see", admin.DeleteRecord(ctx, private.ID), bourn.CodeNotFound)
		_, err = admin.NewRecord(ctx, api.NewRecord{Collection: "x", Circle: circle, Body: []byte(`{}`)})
		wants(t, "into a circle of others", err, bourn.CodeDenied)
		_, none := admin.NewRecord(ctx, api.NewRecord{Collection: "x", Circle: private.ID, Body: []byte(`{}`)})
		if none == nil || err == nil || none.Error() != err.Error() {
			t.Errorf("a circle that is none: %v; of others: %v", none, err)
		}
		changed, err := ann.ChangeRecord(ctx, shared.ID, api.RecordChange{Visibility: "private", Body: []byte(`{"done":true}`)})
		if err != nil || changed.Circle != "" || changed.Visibility != "private" || !strings.Contains(string(changed.Body), "done") || !changed.Updated.After(shared.Updated) || changed.Collection != "plans" {
			t.Errorf("%+v, %v", changed, err)
		}
		if changed, err = ann.ChangeRecord(ctx, shared.ID, api.RecordChange{Circle: circle}); err != nil || changed.Visibility != "circle" || changed.Circle != circle {
			t.Errorf("%+v, %v", changed, err)
		}
		must(t, ann.DeleteRecord(ctx, open.ID))
		_, err = bob.Record(ctx, open.ID)
		wants(t, "deleted", err, bourn.CodeNotFound)
		wants(t, "deleted twice", ann.DeleteRecord(ctx, open.ID), bourn.CodeNotFound)
		for _, bad := range []api.NewRecord{{Collection: "x"}, {Collection: "x", Body: []byte(`[]`)}, {Collection: "", Body: []byte(`{}`)}, {Collection: "x", Circle: "y", Body: []byte(`{}`)},
			{Collection: "x", Visibility: "circle", Body: []byte(`{}`)}, {Collection: "x", Circle: circle, Visibility: "company", Body: []byte(`{}`)}, {Collection: "x", Visibility: "all", Body: []byte(`{}`)},
			{Collection: "x", Body: []byte(`{"a":"` + strings.Repeat("b", 300<<10) + `"}`)}, {Collection: "x", Body: []byte(`{"a":"\u0000"}`)}, {Collection: "x", Body: []byte(`{"a":1,"a":2}`)}} {
			_, err := ann.NewRecord(ctx, bad)
			wants(t, "what cannot be kept", err, bourn.CodeInvalid)
		}
		for _, bad := range []api.RecordsQuery{{NextPage: "x"}, {Limit: 1000}, {Circle: "x"}, {Visibility: "all"}, {Status: "open"}} {
			_, err := ann.Records(ctx, bad)
			wants(t, "what cannot be asked", err, bourn.CodeInvalid)
		}
	})
	t.Run("tasks", func(t *testing.T) {
		_, err := bob.NewTask(ctx, api.NewTask{Title: "spy", Record: private.ID})
		wants(t, "of a record that is hidden", err, bourn.CodeDenied)
		_, none := bob.NewTask(ctx, api.NewTask{Title: "spy", Record: circle})
		if none == nil || err == nil || none.Error() != err.Error() {
			t.Errorf("of a record that is none: %v; hidden: %v", none, err)
		}
		task, err := ann.NewTask(ctx, api.NewTask{Title: "fill it", Record: private.ID, Assignee: o.ids["bob"], Due: "2026-12-31"})
		if err != nil || task.Status != "open" || task.Due != "2026-12-31" || task.Record != private.ID || task.Assignee != o.ids["bob"] {
			t.Fatalf("%+v, %v", task, err)
		}
		_, err = admin.Task(ctx, task.ID)
		wants(t, "the administrator reads it", err, bourn.CodeNotFound)
		if done, err := bob.ChangeTask(ctx, task.ID, api.TaskChange{Status: "done"}); err != nil || done.Status != "done" {
			t.Errorf("%+v, %v", done, err)
		}
		for what, change := range map[string]api.TaskChange{"title": {Title: text("x")}, "visibility": {Visibility: "company"}, "assignee": {Assignee: text(o.ids["admin"])}, "nobody": {Assignee: text("")}, "due": {Due: text("")}} {
			_, err := bob.ChangeTask(ctx, task.ID, change)
			wants(t, "Bob changes the "+what, err, bourn.CodeDenied)
		}
		wants(t, "Bob deletes it", bob.DeleteTask(ctx, task.ID), bourn.CodeDenied)
		if got, err := ann.ChangeTask(ctx, task.ID, api.TaskChange{Assignee: text(""), Due: text(""), Title: text("empty it"), Status: "doing"}); err != nil || got.Assignee != "" || got.Due != "" || got.Title != "empty it" || got.Status != "doing" {
			t.Errorf("%+v, %v", got, err)
		}
		_, err = bob.Task(ctx, task.ID)
		wants(t, "Bob reads what is not his any more", err, bourn.CodeNotFound)
		for who, want := range map[string]int{"ann": 1, "bob": 0} {
			for _, q := range []api.RecordsQuery{{}, {Status: "doing"}, {Record: private.ID}} {
				if all, err := o.clients[who].Tasks(ctx, q); err != nil || len(all.Tasks) != want {
					t.Errorf("%s, %+v: %+v, %v", who, q, all, err)
				}
			}
		}
		if got, err := ann.Task(ctx, task.ID); err != nil || got.Title != "empty it" {
			t.Errorf("%+v, %v", got, err)
		}
		must(t, ann.DeleteTask(ctx, task.ID))
		_, err = ann.Task(ctx, task.ID)
		wants(t, "deleted", err, bourn.CodeNotFound)
		for _, bad := range []api.NewTask{{}, {Title: "x", Due: "tomorrow"}, {Title: "x", Due: "1899-12-31"}, {Title: "x", Due: "3000-01-01"}, {Title: "x", Status: "later"}, {Title: "x", Assignee: "bob"}} {
			_, err := ann.NewTask(ctx, bad)
			wants(t, "what is no task", err, bourn.CodeInvalid)
			if bad.Due != "" && !strings.Contains(err.Error(), "1900 to 2999") {
				t.Errorf("due %s: %v", bad.Due, err)
			}
		}
		_, err = ann.NewTask(ctx, api.NewTask{Title: "x", Assignee: circle})
		wants(t, "whom nobody is", err, bourn.CodeDenied)
	})
	t.Run("leaving", func(t *testing.T) {
		if _, err := bob.Record(ctx, shared.ID); err != nil {
			t.Fatal(err)
		}
		must(t, admin.RemoveCircleMember(ctx, circle, o.ids["bob"]))
		_, err := bob.Record(ctx, shared.ID)
		wants(t, "Bob reads on", err, bourn.CodeNotFound)
		wants(t, "who is not in it leaves", admin.RemoveCircleMember(ctx, circle, o.ids["bob"]), bourn.CodeNotFound)
		must(t, admin.RemoveCircle(ctx, circle))
		_, err = ann.NewRecord(ctx, api.NewRecord{Collection: "x", Circle: circle, Body: []byte(`{}`)})
		wants(t, "into a circle that is gone", err, bourn.CodeDenied)
		_, err = admin.PutCircle(ctx, api.PutCircle{ID: circle, Name: "again"})
		wants(t, "a circle that is gone comes back", err, bourn.CodeNotFound)
	})
	t.Run("the log has it and not what is in it", func(t *testing.T) {
		a := o.ask("GET", "/v1/log?kind=change", "")
		for _, want := range []string{"record made", "record changed", "record deleted", "task made", "task deleted", "company changed", "circle written", "circle removed", "member put into a circle", o.ids["ann"], private.ID} {
			if !strings.Contains(a.body, want) {
				t.Errorf("%q is not in the log", want)
			}
		}
		for _, secret := range []string{"teapot", "notes", "fill it", "a plan"} {
			if strings.Contains(a.body, secret) {
				t.Errorf("%q is in the log", secret)
			}
		}
	})
}

// A member who is removed is out, whatever session the control plane still holds; one whose
// session ended goes on with another.
func TestRecordsSessions(t *testing.T) {
	o := newOffice(t)
	read := func(who string) error { _, err := o.clients[who].Records(t.Context(), api.RecordsQuery{}); return err }
	live := func() (n int) {
		conn := o.db.Connect(t, "postgres", "records")
		must(t, conn.QueryRow(t.Context(), "select count(*) from auth.sessions where revoked_at is null and expires_at > clock_timestamp()").Scan(&n))
		return n
	}
	for range 5 {
		must(t, read("ann"))
	}
	if n := live(); n != 1 {
		t.Errorf("%d sessions for five requests", n)
	}
	o.admin("records", "update auth.sessions set revoked_at = now()")
	must(t, read("ann"))
	var uid uint32 = 4_000_000
	id, err := store.ParseID(o.ids["ann"])
	must(t, err)
	must(t, o.store.PutMember(t.Context(), store.Member{ID: store.MemberID(id), Name: "ann", UID: &uid, Removed: true}))
	if err := read("ann"); bourn.CodeOf(err) != bourn.CodeDenied {
		t.Errorf("who was removed reads on: %v", err)
	}
	must(t, read("bob"))
	o.server.members.close(t.Context(), o.control)
	if n := live(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

// Renewing leaves a session that is in use alone, and what was granted to write ends at once
// where it is granted no more.
func TestHeldSession(t *testing.T) {
	o := newOffice(t)
	id, err := store.ParseID(o.ids["ann"])
	must(t, err)
	h := &heldSession{}
	as := func(readOnly bool, f func(context.Context, store.Querier) error) error {
		return h.as(t.Context(), o.control, store.MemberID(id), store.Agent, readOnly, f)
	}
	add := func(ctx context.Context, q store.Querier) error {
		_, err := store.AddRecord(ctx, q, store.NewRecord{Collection: "x", Body: []byte("{}")})
		return err
	}
	must(t, as(false, func(ctx context.Context, q store.Querier) error {
		// It nears its end while it is in use.
		h.mu.Lock()
		h.live[0].Expires = o.now()
		h.mu.Unlock()
		must(t, as(false, add))
		return add(ctx, q)
	}))
	if len(h.live) != 2 {
		t.Errorf("%d sessions are held", len(h.live))
	}
	err = as(false, func(ctx context.Context, q store.Querier) error {
		if err := as(true, add); bourn.CodeOf(err) != bourn.CodeDenied {
			t.Errorf("a session that reads writes: %v", err)
		}
		return add(ctx, q)
	})
	if bourn.CodeOf(err) != bourn.CodeDenied {
		t.Errorf("what was granted to write is used on: %v", err)
	}
	must(t, h.close(t.Context(), o.control))
	if err := as(true, add); !errors.Is(err, store.ErrSessionEnded) {
		t.Errorf("it is used after it was closed: %v", err)
	}
}

// What is described is what there is: no right is checked here but by the database.
func TestRecordsNeedMember(t *testing.T) {
	o := newOffice(t)
	for _, path := range []string{"/v1/records", "/v1/tasks", "/v1/company", "/v1/members", "/v1/circles"} {
		if a := ask(t, http.DefaultClient, "GET", o.base+path, "", nil); a.status != 403 {
			t.Errorf("%s without who asks: %d %s", path, a.status, a.body)
		}
	}
}

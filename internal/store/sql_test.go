package store_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"bourn"
	"bourn/internal/store"
	"bourn/internal/store/cluster"
	"bourn/internal/store/storetest"

	"github.com/google/go-cmp/cmp"
)

// A sqlWorld is two members, each with a role that its agents connect as.
type sqlWorld struct {
	t        testing.TB
	db       *storetest.Database
	all      *store.SQLs
	ann, bob store.MemberID
	socket   string
	now      func() time.Time
}

func newSQLWorld(t testing.TB, db *storetest.Database) *sqlWorld {
	t.Helper()
	w := &sqlWorld{t: t, db: db, ann: store.NewMemberID(), bob: store.NewMemberID(), now: time.Now}
	w.socket = db.SocketDir()
	if _, err := store.AgentRoles(t.Context(), db.ServerURL("postgres", "postgres"), store.AgentRoleWish{Active: []string{"bc_m_ann", "bc_m_bob"}}); err != nil {
		t.Fatal(err)
	}
	for id, name := range map[store.MemberID]string{w.ann: "ann", w.bob: "bob"} {
		if err := db.PutMember(t.Context(), store.Member{ID: id, Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	w.all = db.NewSQLs(func() time.Time { return w.now() })
	t.Cleanup(w.all.Close)
	return w
}

func (w *sqlWorld) open(member store.MemberID, role string, readOnly bool) *store.SQL {
	w.t.Helper()
	c, err := w.all.Open(w.t.Context(), store.SQLFor{Member: member, Role: role, Kind: store.Agent, ReadOnly: readOnly, Socket: w.socket})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func runSQL(t testing.TB, c *store.SQL, text string, parameters ...string) (*store.SQLResult, error) {
	t.Helper()
	q := store.SQLQuery{Text: text}
	for _, p := range parameters {
		q.Parameters = append(q.Parameters, &p)
	}
	return c.Run(t.Context(), q)
}

// sqlRows are the rows of the last statement, a line each.
func sqlRows(t testing.TB, c *store.SQL, text string, parameters ...string) string {
	t.Helper()
	r, err := runSQL(t, c, text, parameters...)
	if err != nil {
		t.Errorf("%s: %v", text, err)
		return ""
	}
	var lines []string
	for _, row := range r.Statements[len(r.Statements)-1].Rows {
		var all []string
		for _, v := range row {
			if v == nil {
				all = append(all, "∅")
			} else {
				all = append(all, *v)
			}
		}
		lines = append(lines, strings.Join(all, "|"))
	}
	return strings.Join(lines, "\n")
}

// refusedSQL fails the test unless SQL is refused with a SQLSTATE.
func refusedSQL(t testing.TB, c *store.SQL, want, text string, parameters ...string) *store.SQLError {
	t.Helper()
	_, err := runSQL(t, c, text, parameters...)
	var e *store.SQLError
	if !errors.As(err, &e) || e.State != want {
		t.Errorf("%s: %v, want SQLSTATE %s", text, err, want)
		return &store.SQLError{}
	}
	return e
}

func TestSQL(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		w := newSQLWorld(t, db)
		ann, bob := w.open(w.ann, "bc_m_ann", false), w.open(w.bob, "bc_m_bob", false)

		if got := sqlRows(t, ann, "select auth.me(), session_user, current_schema()"); got != w.ann.String()+"|bc_m_ann|app" {
			t.Errorf("ann is %s", got)
		}
		sqlRows(t, ann, "insert into record (collection, body) values ('note', '{\"of\": \"ann\"}')")
		if got := sqlRows(t, bob, "select count(*) from record"); got != "0" {
			t.Errorf("bob sees %s", got)
		}
		if got := sqlRows(t, ann, "select $1::int + $2::int, $3::text", "1", "2", "a'; select 1; --"); got != "3|a'; select 1; --" {
			t.Errorf("with parameters: %s", got)
		}
		r, err := runSQL(t, ann, "select 1 as one, null::uuid as no; update record set body = '{}'; select 'x' where false")
		one := "1"
		want := []store.SQLStatement{
			{Columns: []store.SQLColumn{{Name: "one", Type: "int4"}, {Name: "no", Type: "uuid"}}, Rows: [][]*string{{&one, nil}}, Tag: "SELECT 1"},
			{Tag: "UPDATE 1"},
			{Columns: []store.SQLColumn{{Name: "?column?", Type: "text"}}, Rows: [][]*string{}, Tag: "SELECT 0"},
		}
		if err != nil {
			t.Fatal(r, err)
		}
		if diff := cmp.Diff(want, r.Statements); diff != "" {
			t.Errorf("several (-want +got):\n%s", diff)
		}
		if r, err := runSQL(t, ann, "do $$ begin raise notice 'a%b', chr(27); end $$"); err != nil || len(r.Notices) != 1 || r.Notices[0] != `NOTICE: a\x1bb (SQLSTATE 00000)` {
			t.Errorf("a notice: %+v %v", r, err)
		}
		if e := refusedSQL(t, ann, "42703", "select 1;\nselect nothing from record"); e.Position != 18 || e.After != 1 || !strings.Contains(e.Error(), "nothing") {
			t.Errorf("%+v", e)
		}
		refusedSQL(t, ann, "42601", "select 1; select $1", "x")
		refusedSQL(t, ann, "42501", "select * from auth.sessions")
		refusedSQL(t, ann, "42501", "select auth.live('{}')")
		refusedSQL(t, ann, "42501", "select auth.end_backend(1)")
	})
}

// What a call leaves is not there for the next one.
func TestSQLLeavesNothing(t *testing.T) {
	w := newSQLWorld(t, storetest.New(t))
	c := w.open(w.ann, "bc_m_ann", false)
	r, err := runSQL(t, c, "begin; insert into record (collection) values ('lost'); declare c cursor for select 1")
	if err != nil || !r.RolledBack {
		t.Errorf("an open transaction: %+v %v", r, err)
	}
	if got := sqlRows(t, c, "select count(*) from record"); got != "0" {
		t.Errorf("it was committed: %s", got)
	}
	refusedSQL(t, c, "42601", "begin; selekt")
	refusedSQL(t, c, "22012", "begin; select 1/0")
	sqlRows(t, c, "insert into record (collection) values ('kept')")
	for _, leaves := range []string{
		"set app.session = ''", "set search_path = pg_temp", "prepare p as select 1", "declare c cursor with hold for select 1", "listen x",
		"set role bc_person", "set datestyle = german", "set default_transaction_read_only = on", "set session authorization bc_m_ann", "reset app.session",
	} {
		if _, err := runSQL(t, c, leaves); err != nil {
			t.Errorf("%s: %v", leaves, err)
		}
		if got := sqlRows(t, c, `select auth.me(), current_user, current_setting('search_path'), current_setting('datestyle'), (select count(*) from record),
			(select count(*) from pg_prepared_statements), (select count(*) from pg_cursors where name <> ''), (select count(*) from pg_listening_channels())`); got != w.ann.String()+"|bc_m_ann|app, pg_temp|ISO, MDY|1|0|0|0" {
			t.Errorf("after %s: %s", leaves, got)
		}
		sqlRows(t, c, "update record set body = '{}'")
	}
}

// Neither a token alone nor a role alone is enough.
func TestSQLNeedsBoth(t *testing.T) {
	w := newSQLWorld(t, storetest.New(t))
	ann, bob := w.open(w.ann, "bc_m_ann", false), w.open(w.bob, "bc_m_bob", false)
	sqlRows(t, bob, "insert into record (collection, visibility) values ('of bob', 'private'), ('for all', 'company')")
	token := sqlRows(t, bob, "select current_setting('app.session')")
	r, err := runSQL(t, ann, "select set_config('app.session', '"+token+"', false); select auth.me(), (select count(*) from record)")
	if err != nil || r.Statements[1].Rows[0][0] != nil || *r.Statements[1].Rows[0][1] != "0" {
		t.Errorf("with bob's token: %+v %v", r, err)
	}
	if got := sqlRows(t, ann, "select string_agg(collection, ',') from record"); got != "for all" {
		t.Errorf("ann sees %s", got)
	}
	bare := w.db.Connect(t, "bc_m_ann", "records")
	var n int
	if err := bare.QueryRow(t.Context(), "select count(*) from app.record").Scan(&n); err != nil || n != 0 {
		t.Errorf("the role alone sees %d: %v", n, err)
	}
}

func TestSQLReadOnly(t *testing.T) {
	w := newSQLWorld(t, storetest.New(t))
	sqlRows(t, w.open(w.ann, "bc_m_ann", false), "insert into record (collection) values ('a')")
	c := w.open(w.ann, "bc_m_ann", true)
	if got := sqlRows(t, c, "select count(*) from record"); got != "1" || !c.ReadOnly() {
		t.Errorf("it sees %s", got)
	}
	refusedSQL(t, c, "25006", "insert into record (collection) values ('b')")
	// The setting is no boundary, the session is.
	refusedSQL(t, c, "42501", "set transaction read write; insert into record (collection) values ('b')")
	refusedSQL(t, c, "42501", "set default_transaction_read_only = off; commit; begin; insert into record (collection) values ('b')")
	if r, err := runSQL(t, c, "set transaction read write; update record set body = '{\"x\": 1}'"); err == nil && r.Statements[1].Tag != "UPDATE 0" {
		t.Errorf("it updates: %+v", r)
	}
	if got := sqlRows(t, c, "select count(*) from record where body <> '{}'"); got != "0" {
		t.Errorf("%s are changed", got)
	}
}

// COPY speaks another protocol, and is refused without a loss of the connection.
func TestSQLCopy(t *testing.T) {
	w := newSQLWorld(t, storetest.New(t))
	w.db.Admin(t, "records", "create table app.plain (a text)", "grant select, insert on app.plain to bc_person")
	c := w.open(w.ann, "bc_m_ann", false)
	for _, text := range []string{
		"copy plain from stdin", "copy (select 1) to stdout", "copy (select repeat('x', 1000) from generate_series(1, 100000)) to stdout",
		"select 1; copy (select 1) to stdout; select 2",
	} {
		if _, err := runSQL(t, c, text); !errors.Is(err, bourn.ErrInvalid) || bourn.HintOf(err) == "" || !strings.Contains(err.Error(), "COPY") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"copy plain from stdin", "copy (select 1) to stdout"} {
		one := "x"
		if _, err := c.Run(t.Context(), store.SQLQuery{Text: text, Parameters: []*string{&one}}); err == nil {
			t.Errorf("%s with a parameter gives no error", text)
		}
	}
	refusedSQL(t, c, "0A000", "copy record (collection) from stdin") // row security knows none
	refusedSQL(t, c, "42501", "copy record to program 'id'")
	refusedSQL(t, c, "42501", "copy record to '/tmp/x'")
	if sqlRows(t, c, "select count(*) from plain") != "0" {
		t.Error("something was copied")
	}
}

func TestSQLLimits(t *testing.T) {
	w := newSQLWorld(t, storetest.New(t))
	c := w.open(w.ann, "bc_m_ann", false)
	do := func(text string, l store.SQLLimits) (*store.SQLResult, error) {
		return c.Run(t.Context(), store.SQLQuery{Text: text, Limits: l})
	}
	r, err := do("select generate_series(1, 5); select generate_series(1, 5)", store.SQLLimits{Rows: 7})
	if err != nil || !r.Truncated || r.Cancelled || len(r.Statements[0].Rows) != 5 || len(r.Statements[1].Rows) != 2 || r.Statements[1].Tag != "SELECT 5" {
		t.Errorf("rows: %+v %v", r, err)
	}
	r, err = do("select repeat('x', 100) from generate_series(1, 100)", store.SQLLimits{Bytes: 1000})
	if err != nil || !r.Truncated || len(r.Statements[0].Rows) != 9 {
		t.Errorf("bytes: %+v %v", r, err)
	}
	// What changes something is not cut short for what it says.
	r, err = do("insert into record (collection) select 'x' from generate_series(1, 50) returning collection", store.SQLLimits{Rows: 1})
	if err != nil || !r.Truncated || r.Cancelled || r.Statements[0].Tag != "INSERT 0 50" {
		t.Errorf("returning: %+v %v", r, err)
	}
	r, err = do("select repeat('x', 100000), generate_series(1, 100000000)", store.SQLLimits{Rows: 1})
	if err != nil || !r.Truncated || !r.Cancelled || len(r.Statements[0].Rows) != 1 {
		t.Errorf("very much: %v", err)
	}
	if got := sqlRows(t, c, "select count(*) from record"); got != "50" {
		t.Errorf("the connection goes on with %s", got)
	}
	began := time.Now()
	_, err = do("set statement_timeout = 0; select pg_sleep(100)", store.SQLLimits{Time: 50 * time.Millisecond})
	if !errors.Is(err, bourn.ErrUnavailable) || !strings.Contains(err.Error(), "too long") || time.Since(began) > 900*time.Millisecond {
		t.Errorf("too long, after %s: %v", time.Since(began), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err = c.Run(ctx, store.SQLQuery{Text: "select pg_sleep(100)"}); !errors.Is(err, bourn.ErrUnavailable) || !strings.Contains(err.Error(), "cancelled") {
		t.Errorf("cancelled: %v", err)
	}
	if got := sqlRows(t, c, "select count(*) from record"); got != "50" {
		t.Errorf("the connection goes on with %s", got)
	}
	if _, err = do("select repeat('x', 40000000)", store.SQLLimits{}); !errors.Is(err, bourn.ErrInvalid) || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a large row: %v", err)
	}
	if _, err = do("select 1", store.SQLLimits{}); !errors.Is(err, store.ErrSQLEnded) {
		t.Errorf("after that: %v", err)
	}
	for _, text := range []string{"", " \n", "select '\x00'", "select '\xff'", strings.Repeat("x", 2<<20)} {
		if _, err := do(text, store.SQLLimits{}); !errors.Is(err, bourn.ErrInvalid) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// A statement that does not listen to a cancellation is ended.
func TestSQLEndsWhatIsNotCancelled(t *testing.T) {
	w := newSQLWorld(t, storetest.New(t))
	dials := 0
	c, err := w.all.Open(t.Context(), store.SQLFor{Member: w.ann, Role: "bc_m_ann", Kind: store.Agent, Dial: func(ctx context.Context) (net.Conn, error) {
		if dials++; dials > 1 {
			return nil, errors.New("no cancellation reaches the server")
		}
		return new(net.Dialer).DialContext(ctx, "unix", cluster.Socket(w.socket))
	}})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = c.Run(t.Context(), store.SQLQuery{Text: "select pg_sleep(100)", Limits: store.SQLLimits{Time: 20 * time.Millisecond}})
	if !errors.Is(err, bourn.ErrUnavailable) || time.Since(began) > 3*time.Second || dials != 2 {
		t.Errorf("after %s and %d dials: %v", time.Since(began), dials, err)
	}
	w.gone("bc_m_ann")
}

// gone waits until a role has no backend, and fails the test where that takes more than a second.
func (w *sqlWorld) gone(role string) {
	w.t.Helper()
	conn := w.db.Connect(w.t, "postgres", "records")
	n := 1
	for began := time.Now(); n > 0; {
		if err := conn.QueryRow(w.t.Context(), "select count(*) from pg_stat_activity where usename = $1", role).Scan(&n); err != nil {
			w.t.Fatal(err)
		}
		if time.Since(began) > time.Second {
			w.t.Fatalf("%s has %d backends after a second", role, n)
		}
	}
}

// TestSQLEnds: whatever a connection does, it ends within a second of its session.
func TestSQLEnds(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		w := newSQLWorld(t, db)
		endings := map[string]func(){
			"revoked": func() {
				db.Admin(t, "records", "update auth.sessions set revoked_at = clock_timestamp() where member_id = '"+w.ann.String()+"'")
			},
			"expired": func() {
				db.Admin(t, "records", "update auth.sessions set expires_at = clock_timestamp() where member_id = '"+w.ann.String()+"'")
			},
			"removed": func() {
				if err := db.PutMember(t.Context(), store.Member{ID: w.ann, Name: "ann", Removed: true}); err != nil {
					t.Fatal(err)
				}
			},
		}
		for what, end := range endings {
			for state, text := range map[string]string{
				"idle":                  "",
				"in a statement":        "select pg_sleep(60)",
				"in a transaction":      "begin isolation level repeatable read; select count(*) from record; select pg_sleep(60)",
				"with a cursor open":    "begin; declare c cursor for select * from record; fetch 1 from c; select pg_sleep(60)",
				"catching cancellation": "do $$ begin loop begin perform pg_sleep(60); exception when query_canceled then null; end; end loop; end $$",
			} {
				t.Run(what+" "+state, func(t *testing.T) {
					if err := db.PutMember(t.Context(), store.Member{ID: w.ann, Name: "ann"}); err != nil {
						t.Fatal(err)
					}
					ann, bob := w.open(w.ann, "bc_m_ann", false), w.open(w.bob, "bc_m_bob", false)
					sqlRows(t, ann, "select 1")
					failed := make(chan error, 1)
					if text != "" {
						go func() { _, err := ann.Run(t.Context(), store.SQLQuery{Text: text}); failed <- err }()
						w.runs("bc_m_ann")
					}
					end()
					w.gone("bc_m_ann")
					<-ann.Done()
					if text != "" {
						if err := <-failed; !errors.Is(err, store.ErrSessionEnded) {
							t.Errorf("who asked is told %v", err)
						}
					}
					if got := sqlRows(t, bob, "select 1"); got != "1" {
						t.Error("another's connection has ended, too")
					}
					bob.End()
				})
			}
		}
	})
}

// runs waits until a role's backend is at work.
func (w *sqlWorld) runs(role string) {
	w.t.Helper()
	conn := w.db.Connect(w.t, "postgres", "records")
	for n := 0; n == 0; {
		if err := conn.QueryRow(w.t.Context(), "select count(*) from pg_stat_activity where usename = $1 and wait_event = 'PgSleep'", role).Scan(&n); err != nil {
			w.t.Fatal(err)
		}
	}
	_ = conn.Close(w.t.Context())
}

// A session that is near its end is followed by another, and what it was is over.
func TestSQLRenews(t *testing.T) {
	w := newSQLWorld(t, storetest.New(t))
	c := w.open(w.ann, "bc_m_ann", false)
	first := sqlRows(t, c, "select current_setting('app.session')")
	if again := sqlRows(t, c, "select current_setting('app.session')"); again != first {
		t.Error("another session for each call")
	}
	w.now = func() time.Time { return time.Now().Add(11 * time.Minute) }
	if got := sqlRows(t, c, "select auth.me(), current_setting('app.session') = $1", first); got != w.ann.String()+"|f" {
		t.Errorf("after 11 minutes: %s", got)
	}
	if r, err := runSQL(t, c, "select set_config('app.session', $1, false)", first); err != nil || len(r.Statements) != 1 {
		t.Fatal(err)
	}
	r, err := runSQL(t, c, "select set_config('app.session', '"+first+"', false); select auth.me()")
	if err != nil || r.Statements[1].Rows[0][0] != nil {
		t.Errorf("the session before holds still: %+v %v", r, err)
	}
}

// One call at once: others wait.
func TestSQLOneCallAtOnce(t *testing.T) {
	w := newSQLWorld(t, storetest.New(t))
	c := w.open(w.ann, "bc_m_ann", false)
	if c.Yield(); !sqlIsDone(c) {
		t.Error("an idle connection does not yield")
	}
	c = w.open(w.ann, "bc_m_ann", false)
	got := make(chan string, 8)
	for i := range cap(got) {
		go func() {
			got <- sqlRows(t, c, fmt.Sprintf("select set_config('x.y', '%d', false); select pg_sleep(0.01), current_setting('x.y') = '%d'", i, i))
		}()
	}
	for range cap(got) {
		if one := <-got; one != "|t" {
			t.Errorf("a call is among another's: %s", one)
		}
	}
	running := make(chan error, 1)
	go func() { _, err := c.Run(t.Context(), store.SQLQuery{Text: "select pg_sleep(60)"}); running <- err }()
	w.runs("bc_m_ann")
	if c.Yield() {
		t.Error("a busy connection yields")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.Run(ctx, store.SQLQuery{Text: "select 1"}); !errors.Is(err, bourn.ErrUnavailable) {
		t.Errorf("who does not wait: %v", err)
	}
	c.End()
	if err := <-running; !errors.Is(err, bourn.ErrUnavailable) {
		t.Errorf("who was ended: %v", err)
	}
	w.gone("bc_m_ann")
}

func sqlIsDone(c *store.SQL) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

// The control plane's role ends connections of agents and nobody else's.
func TestEndBackend(t *testing.T) {
	w := newSQLWorld(t, storetest.New(t))
	control, other := w.db.Connect(t, "bourn_control", "records"), w.db.Connect(t, "bourn_app", "records")
	super := w.db.Connect(t, "postgres", "records")
	for _, pid := range []uint32{other.PgConn().PID(), super.PgConn().PID(), control.PgConn().PID()} {
		if _, err := control.Exec(t.Context(), "select auth.end_backend($1)", int32(pid)); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("process %d: %v", pid, err)
		}
	}
	var was bool
	if err := control.QueryRow(t.Context(), "select auth.end_backend(0)").Scan(&was); err != nil || was {
		t.Errorf("nobody: %v %v", was, err)
	}
	agent := w.db.Connect(t, "bc_m_ann", "records")
	if err := control.QueryRow(t.Context(), "select auth.end_backend($1)", int32(agent.PgConn().PID())).Scan(&was); err != nil || !was {
		t.Errorf("an agent: %v %v", was, err)
	}
	if _, err := agent.Exec(t.Context(), "select 1"); err == nil {
		t.Error("the agent goes on")
	}
	for _, sql := range []string{"select pg_terminate_backend(1)", "select * from pg_stat_activity", "set role bourn_signal", "set role pg_signal_backend", "select * from auth.sessions"} {
		if _, err := control.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("the control plane's role: %s: %v", sql, err)
		}
	}
	if _, err := super.Exec(t.Context(), "select 1"); err != nil {
		t.Error(err)
	}
}

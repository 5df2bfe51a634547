package rowsec_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"bourn"
	"bourn/internal/store"
	"bourn/internal/store/cluster"
	"bourn/internal/store/rowsec"
	"bourn/internal/store/storetest"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

// invoices are a table of one's own as it was made without a thought of Bourn, with rows.
const invoices = `
	create schema sales;
	create table sales."Order" (id uuid primary key default gen_random_uuid(), owner uuid not null, created_at timestamptz not null default now());
	create table sales.invoice (
	  id uuid primary key default gen_random_uuid(), "Member" uuid not null, circle uuid, visible text not null default 'private' check (visible in ('private', 'circle', 'company')),
	  "order" uuid references sales."Order", amount_cents bigint not null default 0, total bigint generated always as (amount_cents * 2) stored, paid timestamptz, created_at timestamptz not null default now());
	create role reporting nologin;
	grant select, update, delete on sales.invoice to reporting with grant option;
	grant insert (circle) on sales.invoice to bc_person;
	grant all on sales.invoice to public;`

const dropInvoices = "drop schema sales cascade; drop role reporting"

var order = rowsec.Request{Table: `sales."Order"`, Owner: "owner"}

var invoice = rowsec.Request{Table: "Sales.Invoice", Owner: `"Member"`, Circle: "CIRCLE", Visibility: "visible", Parents: []string{`sales."Order":"order"`}, Update: []string{"paid", "circle", "visible", `"order"`}}

func guard(t *testing.T, conn *pgx.Conn, q rowsec.Request) rowsec.Migration {
	t.Helper()
	m, err := rowsec.Guard(t.Context(), conn, q)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func run(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
}

// state is everything about the tables that a guard changes, in words.
func state(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	var text string
	err := conn.QueryRow(t.Context(), `select string_agg(line, E'\n' order by line) from (
		select format('%s %s %s %s %s', c.oid::regclass, relowner::regrole, relrowsecurity, relforcerowsecurity, (select string_agg(a::text, ' ' order by a::text) from unnest(coalesce(relacl, acldefault('r', relowner))) a)) line
		  from pg_class c where relnamespace = 'sales'::regnamespace and relkind in ('r', 'p')
		union all select format('%s.%s %s', attrelid::regclass, attname, attacl) from pg_attribute join pg_class c on c.oid = attrelid where relnamespace = 'sales'::regnamespace and relkind = 'r' and cardinality(attacl) > 0
		union all select format('policy %s %s %s %s %s', polrelid::regclass, polname, polcmd, pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid)) from pg_policy join pg_class c on c.oid = polrelid where relnamespace = 'sales'::regnamespace
		union all select format('note %s', description) from pg_description where classoid = 'pg_policy'::regclass
		union all select format('index %s', indexdef) from pg_indexes where schemaname = 'sales'
		union all select format('schema %s', nspacl) from pg_namespace where nspname = 'sales' and cardinality(nspacl) > 1) all_of_it`).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

const circle = "00000000-0000-4000-8000-0000000000cc"

// member makes one, in the circle where that is asked for.
func member(t *testing.T, db *storetest.Database, name string, inCircle bool) store.MemberID {
	t.Helper()
	m := store.Member{ID: store.NewMemberID(), Name: name}
	if err := db.PutMember(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if inCircle {
		db.Admin(t, "records", "insert into auth.circles (id, name) values ('"+circle+"', 'sales')", "insert into auth.circle_members values ('"+circle+"', '"+m.ID.String()+"')")
	}
	return m.ID
}

// rows returns what a statement gives as a member, or its error.
func (a actor) rows(t *testing.T, sql string, args ...any) (all []string, err error) {
	t.Helper()
	err = a.as(t.Context(), func(ctx context.Context, q store.Querier) error {
		r, err := q.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(r, pgx.RowTo[string])
		return err
	})
	return all, err
}

type actor struct {
	as func(context.Context, func(context.Context, store.Querier) error) error
}

// app acts as a member does in the application.
func app(t *testing.T, db *storetest.Database, m store.MemberID, readOnly bool) actor {
	t.Helper()
	s, err := db.IssueFor(t.Context(), m, "bourn_app", store.SignIn, time.Hour, readOnly, 0)
	if err != nil {
		t.Fatal(err)
	}
	return actor{func(ctx context.Context, f func(context.Context, store.Querier) error) error {
		return db.Records.As(ctx, s, f)
	}}
}

// TestGuard runs what is printed on tables with rows of two members.
func TestGuard(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		admin := db.Connect(t, cluster.Admin, "records")
		run(t, admin, invoices)
		t.Cleanup(func() { db.Admin(t, "records", dropInvoices) })
		ann, bob := member(t, db, "Ann", true), member(t, db, "Bob", false)
		for _, row := range []struct{ owner, visible, circle string }{
			{ann.String(), "private", "null"}, {ann.String(), "circle", "'" + circle + "'"}, {bob.String(), "private", "null"},
			{bob.String(), "circle", "'" + circle + "'"}, {bob.String(), "company", "null"},
		} {
			run(t, admin, fmt.Sprintf(`insert into sales.invoice ("Member", visible, circle) values ('%s', '%s', %s)`, row.owner, row.visible, row.circle))
		}
		run(t, admin, fmt.Sprintf(`insert into sales."Order" (id, owner) values ('00000000-0000-4000-8000-00000000000a', '%s'), ('00000000-0000-4000-8000-00000000000b', '%s')`, ann, bob))
		before := state(t, admin)
		if len(lint(t, admin)) == 0 {
			t.Error("unguarded tables have no finding")
		}

		migrations := []rowsec.Migration{guard(t, admin, order)}
		run(t, admin, migrations[0].SQL)
		migrations = append(migrations, guard(t, admin, invoice))
		run(t, admin, migrations[1].SQL)
		for _, f := range lint(t, admin) {
			t.Errorf("after the guard: %s", f)
		}
		guarded := state(t, admin)
		for _, m := range migrations {
			run(t, admin, m.SQL)
		}
		if diff := cmp.Diff(guarded, state(t, admin)); diff != "" {
			t.Errorf("run twice it changes something:\n%s", diff)
		}
		if again := guard(t, admin, invoice); again.SQL != migrations[1].SQL {
			t.Errorf("of a guarded table it prints something else:\n%s", cmp.Diff(migrations[1].SQL, again.SQL))
		}
		seesAndWrites(t, db, ann, bob)

		for _, q := range []rowsec.Request{invoice, order} {
			m, err := rowsec.Undo(t.Context(), admin, q)
			if err != nil {
				t.Fatal(err)
			}
			run(t, admin, m.SQL)
		}
		if diff := cmp.Diff(before, state(t, admin)); diff != "" {
			t.Errorf("the undo does not bring back what was before:\n%s", diff)
		}
	})
}

// seesAndWrites is what each may, in a guarded table.
func seesAndWrites(t *testing.T, db *storetest.Database, ann, bob store.MemberID) {
	annApp, bobApp, reader := app(t, db, ann, false), app(t, db, bob, false), app(t, db, ann, true)
	const all = `select (case "Member" when $1 then 'ann ' else 'bob ' end)||visible from sales.invoice order by 1`
	for _, see := range []struct {
		who  actor
		want []string
	}{
		{annApp, []string{"ann circle", "ann private", "bob circle", "bob company"}},
		{bobApp, []string{"bob circle", "bob company", "bob private"}},
		{reader, []string{"ann circle", "ann private", "bob circle", "bob company"}},
	} {
		if got, err := see.who.rows(t, all, ann); err != nil || !slices.Equal(got, see.want) {
			t.Errorf("seen are %q, %v, and not %q", got, err, see.want)
		}
	}
	pool := db.Connect(t, "bourn_app", "records")
	var n int
	if err := pool.QueryRow(t.Context(), "select count(*) from sales.invoice").Scan(&n); err != nil || n != 0 {
		t.Errorf("without a session %d rows are seen, %v", n, err)
	}
	const (
		mine   = `insert into sales.invoice ("Member", "order", circle) values ($1, $2, $3) returning id::text`
		hidden = "00000000-0000-4000-8000-00000000000b"
		absent = "00000000-0000-4000-8000-00000000000f"
	)
	for _, refused := range []struct {
		who  actor
		why  string
		sql  string
		args []any
	}{
		{annApp, "in another's name", mine, []any{bob, nil, nil}},
		{annApp, "an order that is hidden", mine, []any{ann, hidden, nil}},
		{annApp, "an order that is not there", mine, []any{ann, absent, nil}},
		{bobApp, "into a circle that is not his", mine, []any{bob, nil, circle}},
		{reader, "by a session that only reads", mine, []any{ann, nil, nil}},
		{annApp, "a key of one's own choice", `insert into sales.invoice (id, "Member") values (gen_random_uuid(), $1) returning id::text`, []any{ann}},
		{annApp, "a column that was not granted", `update sales.invoice set amount_cents = 1 where "Member" = $1 returning id::text`, []any{ann}},
		{annApp, "the owner", `update sales.invoice set "Member" = $1 returning id::text`, []any{bob}},
		{annApp, "into a circle by a change", `update sales.invoice set circle = $2 where "Member" = $1 returning id::text`, []any{ann, absent}},
		{annApp, "deleted", `delete from sales.invoice where "Member" = $1 returning id::text`, []any{ann}},
	} {
		if got, err := refused.who.rows(t, refused.sql, refused.args...); !errors.Is(err, bourn.ErrDenied) {
			t.Errorf("%s: %q, %v, and no refusal", refused.why, got, err)
		}
	}
	for _, change := range []struct {
		who  actor
		what string
		sql  string
		n    int
	}{
		{annApp, "her own", `update sales.invoice set paid = now() where "Member" = $1 returning id::text`, 2},
		{annApp, "what she sees of others", `update sales.invoice set paid = now() where "Member" <> $1 returning id::text`, 0},
		{reader, "by a session that only reads", `update sales.invoice set paid = now() where "Member" = $1 returning id::text`, 0},
	} {
		if got, err := change.who.rows(t, change.sql, ann); err != nil || len(got) != change.n {
			t.Errorf("changed is %s: %q, %v", change.what, got, err)
		}
	}
	if got, err := annApp.rows(t, mine, ann, "00000000-0000-4000-8000-00000000000a", circle); err != nil || len(got) != 1 {
		t.Errorf("her own, with her order and circle, is not written: %v", err)
	}
}

// Names with everything that SQL gives a meaning stay names.
func TestGuardQuotes(t *testing.T) {
	db := storetest.New(t)
	admin := db.Connect(t, cluster.Admin, "records")
	const table = `app."drop table app.record; -- ""' $$ Table"`
	run(t, admin, `create table `+table+` ("select" uuid not null, "CamelCase" uuid, "a""b;c'd" text, "user" timestamptz default now());
		create unique index "x
drop table app.record; --" on `+table+` ("user", "select") where "user" > '2000-01-01';
		create unique index "y
drop table app.record; --" on `+table+` ("user")`)
	q := rowsec.Request{Table: table, Owner: `"select"`, Circle: `"CamelCase"`, Visibility: `"a""b;c'd"`, Created: `"user"`, Update: []string{`"a""b;c'd"`, `"CamelCase"`}}
	run(t, admin, guard(t, admin, q).SQL)
	if found := lint(t, admin); len(found) != 1 || found[0].Code != "unique_unscoped" || strings.Contains(found[0].String(), "\n") {
		t.Errorf("found are %q", found)
	}
	m, err := rowsec.Undo(t.Context(), admin, q)
	if err != nil {
		t.Fatal(err)
	}
	run(t, admin, m.SQL)
	var n int
	if err := admin.QueryRow(t.Context(), "select count(*) from app.record").Scan(&n); err != nil {
		t.Errorf("app.record: %v", err)
	}
}

// Partitions are closed to who names them.
func TestGuardPartitions(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		admin := db.Connect(t, cluster.Admin, "records")
		run(t, admin, `create table app.event (member uuid not null default auth.me(), at timestamptz not null) partition by range (at);
			create table app.event_2026 partition of app.event for values from ('2026-01-01') to ('2027-01-01');
			grant select on app.event_2026 to bourn_app;`)
		q := rowsec.Request{Table: "app.event", Owner: "member", Created: "at"}
		run(t, admin, guard(t, admin, q).SQL)
		for _, f := range lint(t, admin) {
			t.Error(f)
		}
		ann, bob := member(t, db, "Ann", false), member(t, db, "Bob", false)
		run(t, admin, fmt.Sprintf("insert into app.event values ('%s', '2026-05-01'), ('%s', '2026-05-01')", ann, bob))
		who := app(t, db, ann, false)
		if got, err := who.rows(t, "select member::text from app.event"); err != nil || !slices.Equal(got, []string{ann.String()}) {
			t.Errorf("seen are %q, %v", got, err)
		}
		if got, err := who.rows(t, "select member::text from app.event_2026"); !errors.Is(err, bourn.ErrDenied) {
			t.Errorf("of the part are seen %q, %v", got, err)
		}
	})
}

// What is not there, or cannot be guarded, is refused with a word on what to do.
func TestGuardRefuses(t *testing.T) {
	db := storetest.New(t)
	admin := db.Connect(t, cluster.Admin, "records")
	run(t, admin, `create table app.thing (id int primary key, owner uuid, other text, doubled int generated always as (id * 2) stored, parent int);
		create table app.keyless (id int); create view app.seen as select 1 as one; create table app."bell`+"\x07"+`" (owner uuid)`)
	ok := rowsec.Request{Table: "app.thing", Owner: "owner"}
	with := func(f func(q *rowsec.Request)) rowsec.Request { q := ok; f(&q); return q }
	for _, tt := range []struct {
		q    rowsec.Request
		code error
		says string
	}{
		{rowsec.Request{Table: "app.thing"}, bourn.ErrInvalid, "nothing says whose a row is"},
		{with(func(q *rowsec.Request) { q.Table = "app.nothing" }), bourn.ErrNotFound, "there is no table app.nothing"},
		{with(func(q *rowsec.Request) { q.Table = "thing" }), bourn.ErrInvalid, "with its schema"},
		{with(func(q *rowsec.Request) { q.Table = "app.thing; drop table app.thing" }), bourn.ErrInvalid, "is no name of a table"},
		{with(func(q *rowsec.Request) { q.Table = "app.thing --" }), bourn.ErrInvalid, "is no name of a table"},
		{with(func(q *rowsec.Request) { q.Table = `app."thing"" x"` }), bourn.ErrNotFound, "there is no table"},
		{with(func(q *rowsec.Request) { q.Table = "app.seen" }), bourn.ErrInvalid, "is no table"},
		{with(func(q *rowsec.Request) { q.Table = "auth.members" }), bourn.ErrInvalid, "not for tables of your own"},
		{with(func(q *rowsec.Request) { q.Table = "pg_catalog.pg_class" }), bourn.ErrInvalid, "not for tables of your own"},
		{with(func(q *rowsec.Request) { q.Table = "app.record" }), bourn.ErrConflict, "has policies of its own"},
		{with(func(q *rowsec.Request) { q.Table = "app.\"bell\a\"" }), bourn.ErrInvalid, "cannot be shown"},
		{with(func(q *rowsec.Request) { q.Owner = "nobody" }), bourn.ErrNotFound, "has no column nobody for --owner"},
		{with(func(q *rowsec.Request) { q.Owner = "other" }), bourn.ErrInvalid, "other is text, and --owner takes uuid"},
		{with(func(q *rowsec.Request) { q.Owner = "owner) or (true" }), bourn.ErrInvalid, "is no name of a column"},
		{with(func(q *rowsec.Request) { q.Circle = "id" }), bourn.ErrInvalid, "id is integer"},
		{with(func(q *rowsec.Request) { q.Visibility = "id" }), bourn.ErrInvalid, "id is integer"},
		{with(func(q *rowsec.Request) { q.Update = []string{"doubled"} }), bourn.ErrInvalid, "is computed"},
		{with(func(q *rowsec.Request) { q.Update = []string{"gone"} }), bourn.ErrNotFound, "has no column gone"},
		{with(func(q *rowsec.Request) { q.Parents = []string{"app.record"} }), bourn.ErrInvalid, "must be TABLE:COLUMN"},
		{with(func(q *rowsec.Request) { q.Parents = []string{"app.record:parent"} }), bourn.ErrInvalid, "app.record.id is uuid"},
		{with(func(q *rowsec.Request) { q.Parents = []string{"app.keyless:parent"} }), bourn.ErrInvalid, "nothing says which row"},
		{with(func(q *rowsec.Request) { q.OwnedBy = "bourn_app" }), bourn.ErrDenied, "can log in"},
		{with(func(q *rowsec.Request) { q.OwnedBy = "postgres" }), bourn.ErrDenied, "can log in"},
		{with(func(q *rowsec.Request) { q.OwnedBy = "nobody_here" }), bourn.ErrNotFound, "there is no role"},
	} {
		m, err := rowsec.Guard(t.Context(), admin, tt.q)
		if !errors.Is(err, tt.code) || !strings.Contains(fmt.Sprint(err), tt.says) || bourn.HintOf(err) == "" || m.SQL != "" {
			t.Errorf("%+v: %v; hint: %s", tt.q, err, bourn.HintOf(err))
		}
	}
	for _, role := range []string{"bourn_control", "bourn_app"} {
		conn := db.Connect(t, role, "records")
		if _, err := rowsec.Guard(t.Context(), conn, ok); !errors.Is(err, bourn.ErrDenied) {
			t.Errorf("as %s: %v", role, err)
		}
		if _, err := rowsec.Lint(t.Context(), conn, rowsec.Options{}); !errors.Is(err, bourn.ErrDenied) {
			t.Errorf("as %s: %v", role, err)
		}
	}
}

// What the note of a guarded table says is not believed where it could become SQL.
func TestUndoReadsItsNote(t *testing.T) {
	db := storetest.New(t)
	admin := db.Connect(t, cluster.Admin, "records")
	run(t, admin, "create table app.thing (owner uuid not null)")
	q := rowsec.Request{Table: "app.thing", Owner: "owner"}
	run(t, admin, guard(t, admin, q).SQL)
	for _, note := range []string{
		`no json`, `{}`, `{"version":2,"relations":[]}`,
		`{"version":1,"relations":[{"schema":"app","name":"thing","owner":"postgres","grants":[{"to":"public","privilege":"ALL on app.record to public; --"}]}]}`,
	} {
		run(t, admin, "comment on policy bourn_session on app.thing is '"+note+"'")
		if m, err := rowsec.Undo(t.Context(), admin, q); !errors.Is(err, bourn.ErrConflict) || bourn.HintOf(err) == "" {
			t.Errorf("%s: %v\n%s", note, err, m.SQL)
		}
	}
	run(t, admin, `comment on policy bourn_session on app.thing is '{"version":1,"relations":[{"schema":"x","name":"y; drop","owner":"a\"; drop table app.record; --","grants":[{"to":"b; --","privilege":"SELECT"}]}]}'`)
	m, err := rowsec.Undo(t.Context(), admin, q)
	if err != nil || !strings.Contains(m.SQL, `alter table app.thing owner to "a""; drop table app.record; --";`) || !strings.Contains(m.SQL, `grant select on app.thing to "b; --";`) {
		t.Errorf("%v\n%s", err, m.SQL)
	}
}

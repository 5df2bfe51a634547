package store_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"bourn/internal/store"
	"bourn/internal/store/cluster"
	"bourn/internal/store/storetest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// An attack is SQL of an agent that acts for Ann, on a connection of its own as her
// database role: what it tries to learn or change is another member's. Statements stand
// one on a line; {words} are what the attacker knows or has stolen.
//
// Whatever its outcome, nothing that the server says may hold a mark (what only hidden
// rows hold), unless the attacker said it first, and nothing of others may have changed.
type attack struct {
	id   string
	sql  string
	want string // of the last statement: an SQLSTATE, its rows as a,b; c,d, its tag, "rows" for whichever, or "*" for anything
	bare bool   // without Ann's session
}

// A world is Ann, whose agents attack, Bob, who has secrets, and Carol, an administrator,
// with what each of them has. Ann and Bob share a circle, and Bob has another.
type world struct {
	db    *storetest.Database
	admin *pgx.Conn
	words map[string]string // what attacks may name
	marks []string
}

// people have a database role each, bc_m_<name>, and a session that is bound to it.
var people = []string{"ann", "bob", "carol"}

func newWorld(t testing.TB, db *storetest.Database) *world {
	t.Helper()
	w := &world{db: db, admin: db.Connect(t, cluster.Admin, "records"), words: map[string]string{}}
	var roles []string
	for _, name := range people {
		roles = append(roles, "bc_m_"+name)
	}
	if _, err := store.AgentRoles(t.Context(), db.ServerURL(cluster.Admin, "postgres"), store.AgentRoleWish{Active: roles}); err != nil {
		t.Fatal(err)
	}
	for _, name := range people {
		m := member(t, db, "Member "+name, name == "carol")
		w.words[name] = m.String()
		role := "bc_m_" + name
		t.Cleanup(func() { db.Admin(t, "records", "drop owned by "+role, "drop role "+role) })
		w.words[name+"Token"] = w.session(t, name, role, "1 hour")
		w.words[name+"App"] = w.session(t, name, "bourn_app", "1 hour")
		hash := sha256.Sum256([]byte(w.words[name+"Token"]))
		w.words[name+"Hash"] = hex.EncodeToString(hash[:])
	}
	for _, c := range []string{"shared", "other"} {
		w.words[c] = w.one(t, "insert into auth.circles (name) values ('circle "+c+"') returning id::text")
	}
	db.Admin(t, "records", w.fill(`insert into auth.circle_members values ('{shared}', '{ann}'), ('{shared}', '{bob}'), ('{other}', '{bob}')`))
	for _, r := range []struct{ key, owner, circle, visibility, mark string }{
		{"anns", "ann", "", "private", "own"},
		{"annsShared", "ann", "shared", "circle", "own"},
		{"bobs", "bob", "", "private", "mark-private"},
		{"bobs2", "bob", "", "private", "mark-secret"},
		{"bobsShared", "bob", "shared", "circle", "visible"},
		{"bobsCompany", "bob", "", "company", "visible"},
		{"bobsOther", "bob", "other", "circle", "mark-other"},
		{"carols", "carol", "", "private", "mark-carol"},
		{"carolsCompany", "carol", "", "company", "visible"},
	} {
		w.words[r.key] = w.one(t, fmt.Sprintf(`insert into app.record (collection, owner_id, circle_id, visibility, body)
			values ('of %s', '%s', nullif('%s', '')::uuid, '%s', '{"text": "%s", "n": 7}') returning id::text`,
			r.mark, w.words[r.owner], w.words[r.circle], r.visibility, r.mark))
	}
	for _, r := range []struct{ key, owner, assignee, visibility, mark string }{
		{"annsTask", "ann", "", "private", "own"},
		{"bobsTask", "bob", "carol", "private", "mark-task"},
		{"bobsForAnn", "bob", "ann", "company", "visible"},
		{"carolsTask", "carol", "", "company", "visible"},
	} {
		w.words[r.key] = w.one(t, fmt.Sprintf(`insert into app.task (owner_id, assignee_id, visibility, title, record_id)
			values ('%s', nullif('%s', '')::uuid, '%s', '%s', (select id from app.record where owner_id = '%[1]s' and visibility = '%[3]s' limit 1)) returning id::text`,
			w.words[r.owner], w.words[r.assignee], r.visibility, r.mark))
	}
	db.Admin(t, "records", "vacuum analyze")
	w.marks = []string{"mark-"}
	for _, hidden := range []string{"bobs", "bobs2", "bobsOther", "carols", "bobsTask", "bobToken", "carolToken", "bobHash", "carolHash", "bobApp"} {
		w.marks = append(w.marks, w.words[hidden])
	}
	return w
}

// session issues one as the control plane does, and returns its token, which a Session
// shows to nobody.
func (w *world) session(t testing.TB, name, role, valid string) string {
	t.Helper()
	secret := make([]byte, 32)
	rand.Read(secret)
	token := hex.EncodeToString(secret)
	hash := sha256.Sum256([]byte(token))
	control := w.db.Connect(t, "bourn_control", "records")
	if _, err := control.Exec(t.Context(), "select auth.issue($1, $2::text::uuid, $3, 'agent', $4::text::interval)", hash[:], w.words[name], role, valid); err != nil {
		t.Fatal(err)
	}
	if err := control.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return token
}

// revoke ends a session as the control plane does.
func (w *world) revoke(t testing.TB, token string) {
	t.Helper()
	hash := sha256.Sum256([]byte(token))
	if _, err := w.db.Connect(t, "bourn_control", "records").Exec(t.Context(), "select auth.revoke($1)", hash[:]); err != nil {
		t.Fatal(err)
	}
}

// one asks the administrator.
func (w *world) one(t testing.TB, sql string) string {
	t.Helper()
	var s string
	if err := w.admin.QueryRow(t.Context(), w.fill(sql)).Scan(&s); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return s
}

func (w *world) fill(sql string) string {
	for key, value := range w.words {
		sql = strings.ReplaceAll(sql, "{"+key+"}", value)
	}
	return sql
}

// An attacker is a connection, and all that the server said on it.
type attacker struct {
	conn    *pgconn.PgConn
	said    bytes.Buffer
	refused bool // the last statement
}

// connect opens a connection as an agent of a person, with a session unless bare.
func (w *world) connect(t testing.TB, name string, bare bool, extra ...string) *attacker {
	t.Helper()
	a := &attacker{}
	config, err := pgconn.ParseConfig(w.db.URL("bc_m_"+name, "records") + " " + strings.Join(extra, " "))
	if err != nil {
		t.Fatal(err)
	}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { fmt.Fprintln(&a.said, n.Message, n.Detail, n.Hint, n.Where) }
	config.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { fmt.Fprintln(&a.said, n.Channel, n.Payload) }
	if a.conn, err = pgconn.ConnectConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.conn.Close(context.Background()) })
	if !bare {
		r := a.conn.ExecParams(t.Context(), "select set_config('app.session', $1, false)", [][]byte{[]byte(w.words[name+"Token"])}, nil, nil, nil).Read()
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return a
}

// do runs one line of SQL and returns its outcome as an attack wants it.
func (a *attacker) do(ctx context.Context, sql string) string {
	lower := strings.ToLower(sql)
	if strings.HasPrefix(lower, "copy ") && strings.Contains(lower, "stdout") {
		var out bytes.Buffer
		tag, err := a.conn.CopyTo(ctx, &out, sql)
		a.said.Write(out.Bytes())
		return a.outcome(tag, err)
	}
	if strings.HasPrefix(lower, "copy ") && strings.Contains(lower, "stdin") {
		tag, err := a.conn.CopyFrom(ctx, strings.NewReader("stolen\n"), sql)
		return a.outcome(tag, err)
	}
	results := a.conn.Exec(ctx, sql)
	var rows []string
	var tag pgconn.CommandTag
	for results.NextResult() {
		rows = nil
		r := results.ResultReader()
		for r.NextRow() {
			rows = append(rows, string(bytes.Join(r.Values(), []byte(","))))
		}
		tag, _ = r.Close() // its error is that of results
	}
	fmt.Fprintln(&a.said, rows)
	outcome := a.outcome(tag, results.Close())
	if len(rows) > 0 && outcome == tag.String() {
		return strings.Join(rows, "; ")
	}
	return outcome
}

func (a *attacker) outcome(tag pgconn.CommandTag, err error) string {
	a.refused = err != nil
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		fmt.Fprintf(&a.said, "%+v\n", *refused)
		return refused.Code
	}
	if err != nil {
		return err.Error()
	}
	return tag.String()
}

// told are the marks in what the server said that the attacker had not said.
func (w *world) told(a *attacker, said string) (found []string) {
	for _, mark := range w.marks {
		if strings.Contains(a.said.String(), mark) && !strings.Contains(said, mark) {
			found = append(found, mark)
		}
	}
	return found
}

// stateSQL digests what an agent of Ann's may not change, part by part: everybody's rows but
// hers, and what the catalog says of who may do what.
const stateSQL = `
	select 'roles', md5(string_agg(a::text, ',' order by oid)) from pg_authid a where rolname not in ('bc_m_ann', 'bc_person')
	union all select 'role attributes', md5(string_agg(concat(rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls, rolconnlimit, rolvaliduntil), ',' order by oid)) from pg_authid
	union all select 'memberships', md5(string_agg(m::text, ',' order by roleid, member)) from pg_auth_members m
	union all select 'role settings', md5(string_agg(s::text, ',' order by setrole, setdatabase)) from pg_db_role_setting s
		where setrole not in ('bc_m_ann'::regrole, 'bc_person'::regrole)
	union all select 'track_activities of Ann', string_agg(c, ',') from pg_db_role_setting, unnest(setconfig) c where setrole = 'bc_m_ann'::regrole and c like 'track_%'
	union all select 'databases', md5(string_agg(concat(oid, datname, datacl, datdba, datallowconn, datconnlimit), ',' order by oid)) from pg_database where datname = current_database()
	union all select 'schemas', md5(string_agg(concat(nspname, nspacl, nspowner), ',' order by oid)) from pg_namespace where nspname !~ '^pg_(toast_)?temp'
	union all select 'relations', md5(string_agg(concat(oid, relname, relnamespace, relacl, relowner, relkind, relrowsecurity, relforcerowsecurity, relhastriggers, relhasrules, reloptions), ',' order by oid)) from pg_class
	union all select 'columns', md5(string_agg(concat(attrelid, attname, atttypid, attacl, attnotnull, attisdropped), ',' order by attrelid, attnum)) from pg_attribute
	union all select 'functions', md5(string_agg(concat(oid, proname, prosrc, proacl, proowner, prosecdef, proleakproof, provolatile, proconfig), ',' order by oid)) from pg_proc
	union all select 'policies', md5(string_agg(p::text, ',' order by oid)) from pg_policy p
	union all select 'constraints', md5(string_agg(c::text, ',' order by oid)) from pg_constraint c
	union all select 'triggers', md5(string_agg(t::text, ',' order by oid)) from pg_trigger t
	union all select 'event triggers', count(*)::text from pg_event_trigger
	union all select 'rules', md5(string_agg(r::text, ',' order by oid)) from pg_rewrite r
	union all select 'types', md5(string_agg(concat(typname, typnamespace, typowner, typacl), ',' order by oid)) from pg_type
	union all select 'large objects', count(*)::text from pg_largeobject_metadata
	union all select 'extensions and languages', concat((select string_agg(e::text, ',') from pg_extension e), (select string_agg(l::text, ',') from pg_language l))
	union all select 'publications', count(*)::text from pg_publication
	union all select 'prepared transactions', count(*)::text from pg_prepared_xacts`

// state is that digest, with one for each table.
func (w *world) state(t testing.TB) map[string]string {
	t.Helper()
	sql := stateSQL
	for _, table := range rows(t, w.admin, `select n.nspname||'.'||c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where c.relkind in ('r', 'p') and `+ourSchemas) {
		sql += fmt.Sprintf("\nunion all select '%[1]s', md5(string_agg(x::text, ',' order by x::text)) from %[1]s x", table)
		if strings.HasPrefix(table, "app.") {
			sql += fmt.Sprintf(" where x::text not like '%%%s%%'", w.words["ann"])
		}
	}
	found := map[string]string{}
	r, err := w.admin.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	var part string
	var digest *string
	_, err = pgx.ForEachRow(r, []any{&part, &digest}, func() error {
		found[part] = "none"
		if digest != nil {
			found[part] = *digest
		}
		return nil
	})
	if err != nil || len(found) < 25 {
		t.Fatalf("%d parts, %v", len(found), err)
	}
	return found
}

// writes is a number that grows with each transaction that changes anything on the server.
func (w *world) writes(t testing.TB) string {
	return w.one(t, "select pg_snapshot_xmax(pg_current_snapshot())::text")
}

// unchanged reports what of others an attack has changed.
func (w *world) unchanged(t *testing.T, before map[string]string) {
	t.Helper()
	after := w.state(t)
	for _, part := range slices.Sorted(maps.Keys(before)) {
		if before[part] != after[part] {
			t.Errorf("%s: changed", part)
		}
	}
}

// TestAttacks tries what one connection of an agent can try.
func TestAttacks(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		w := newWorld(t, db)
		seen := map[string]bool{}
		before, writes := w.state(t), w.writes(t)
		for _, at := range slices.Concat(identityAttacks, rowAttacks, objectAttacks, roleAttacks, hostAttacks, othersAttacks, settingAttacks, functionAttacks) {
			if seen[at.id] {
				t.Errorf("two attacks are called %s", at.id)
			}
			seen[at.id] = true
			t.Run(at.id, func(t *testing.T) {
				a := w.connect(t, "ann", at.bare)
				sql := w.fill(at.sql)
				var outcome, last string
				for line := range strings.Lines(sql) {
					if last = strings.TrimSpace(line); last != "" {
						outcome = a.do(t.Context(), last)
					}
				}
				if want := w.fill(at.want); outcome != want && want != "*" && (want != "rows" || a.refused) {
					t.Errorf("%s\n gave %s, want %s\n%s", last, outcome, want, a.said.String())
				}
				for _, mark := range w.told(a, sql) {
					t.Errorf("the server told %q:\n%s", mark, a.said.String())
				}
				_ = a.conn.Close(t.Context()) // one may have lost it
				if now := w.writes(t); now != writes {
					writes = now
					w.unchanged(t, before)
				}
			})
		}
		if len(seen) < 100 {
			t.Errorf("%d attacks", len(seen))
		}
		w.unharmed(t)
	})
}

// unharmed is what must hold after all attacks: Bob and Carol see and change what is theirs.
func (w *world) unharmed(t *testing.T) {
	t.Helper()
	for name, want := range map[string]string{"bob": "6", "carol": "3", "ann": "3"} {
		a := w.connect(t, name, false)
		sql := "select count(*) from app.record where owner_id <> '{ann}'"
		if got := a.do(t.Context(), w.fill(sql)); got != want {
			t.Errorf("%s sees %s rows of others, want %s", name, got, want)
		}
		if got := a.do(t.Context(), w.fill("update app.record set deleted_at = null where id = '{"+name+"s}'")); got != "UPDATE 1" {
			t.Errorf("%s changes an own row: %s", name, got)
		}
	}
}

// The test of attacks finds what it looks for.
func TestAttacksFind(t *testing.T) {
	for _, c := range []struct{ name, planted, sql string }{
		{"a row that is told", "create policy hole on app.record for select using (true); drop policy session on app.record", "select body from app.record"},
		{"a view that is its owner's eyes", "create view app.everything as select * from app.record; grant select on app.everything to bc_person", "select body from app.everything"},
		{"a policy that everybody passes", "create policy hole on app.record for update using (true); create policy hole2 on app.record for select using (true)", "update app.record set collection = 'gone'"},
		{"a table's DELETE", "grant delete on app.record to bc_person; create policy hole on app.record for delete using (true)", "delete from app.record"},
		{"a granted role", "grant bourn_auth to bc_person", "update auth.members set administrator = true"},
		{"a policy to the group", "create policy more on app.record for select to bc_person using (false)", "drop owned by bc_person"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, storetest.New(t))
			w.db.Admin(t, "records", c.planted)
			t.Cleanup(func() { w.db.Admin(t, "records", "revoke bourn_auth from bc_person") }) // a role is every database's
			before := w.state(t)
			a := w.connect(t, "ann", false)
			outcome := a.do(t.Context(), c.sql)
			found := w.told(a, c.sql)
			for part, digest := range w.state(t) {
				if before[part] != digest {
					found = append(found, part)
				}
			}
			if len(found) == 0 {
				t.Errorf("not found: %s", outcome)
			}
		})
	}
}

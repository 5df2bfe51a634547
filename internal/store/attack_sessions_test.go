package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"bourn"
	"bourn/internal/store"
	"bourn/internal/store/storetest"

	"github.com/jackc/pgx/v5/pgconn"
)

// all is every table and view that an agent may read.
func (w *world) all(t testing.TB) []string {
	t.Helper()
	return rows(t, w.admin, `select n.nspname||'.'||c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where c.relkind in ('r', 'p', 'v', 'm') and `+ourSchemas+` and has_table_privilege('bc_person', c.oid, 'select')`)
}

// sees is how many rows of all that an agent may read it sees now.
func (w *world) sees(t testing.TB, a *attacker) (n string) {
	t.Helper()
	var counts []string
	for _, table := range w.all(t) {
		counts = append(counts, "(select count(*) from "+table+")")
	}
	if len(counts) < 6 {
		t.Fatalf("only %d tables and views can be read", len(counts))
	}
	return a.do(t.Context(), "select "+strings.Join(counts, " + "))
}

// ended are the ways in which a session ends before its time, or with it.
var ended = []struct {
	name string
	end  func(t *testing.T, w *world, token string)
}{
	{"revoked", func(t *testing.T, w *world, token string) { w.revoke(t, token) }},
	{"ended by its time, as a clock sees it", func(t *testing.T, w *world, token string) {
		w.db.Admin(t, "records", "update auth.sessions set expires_at = clock_timestamp() where token_hash = sha256('"+token+"')")
	}},
	{"all of the member revoked", func(t *testing.T, w *world, _ string) {
		w.db.Admin(t, "records", w.fill("select auth.revoke_member('{bob}')"))
	}},
	{"removed", func(t *testing.T, w *world, _ string) {
		w.db.Admin(t, "records", w.fill("select auth.put_member('{bob}', 'Bob', false, null, true)"))
	}},
}

// A session that has ended sees nothing from the next statement on, in every table, and
// writes nothing. That is the database's. A statement that began before, a cursor that is
// open, and a transaction that keeps one snapshot see what they saw until their connection
// ends: the control plane ends it (TestSQLEnds holds that).
func TestEndedSession(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		for _, way := range ended {
			t.Run(way.name, func(t *testing.T) {
				w := newWorld(t, db)
				before := w.one(t, "select count(*)::text from app.record where owner_id = '{bob}' or visibility = 'company' or circle_id in ('{shared}', '{other}')")
				token := w.words["bobToken"]
				ordinary, transaction, snapshot, cursor, kept := w.connect(t, "bob", false), w.connect(t, "bob", false), w.connect(t, "bob", false), w.connect(t, "bob", false), w.connect(t, "bob", false)
				transaction.do(t.Context(), "begin")
				snapshot.do(t.Context(), "begin isolation level repeatable read")
				for _, a := range []*attacker{ordinary, transaction, snapshot} {
					if n := w.sees(t, a); n == "0" {
						t.Fatal("nothing is seen before")
					}
				}
				cursor.do(t.Context(), "begin")
				cursor.do(t.Context(), "declare c cursor for select id from app.record where visibility = 'private'")
				cursor.do(t.Context(), "fetch 1 from c")
				kept.do(t.Context(), "declare c cursor with hold for select id from app.record")
				ordinary.do(t.Context(), "prepare p as select count(*) from app.record")

				way.end(t, w, token)
				for name, a := range map[string]*attacker{"a connection": ordinary, "a transaction": transaction} {
					if n := w.sees(t, a); n != "0" {
						t.Errorf("%s sees %s rows", name, n)
					}
				}
				if n := ordinary.do(t.Context(), "execute p"); n != "0" {
					t.Errorf("a prepared statement sees %s rows", n)
				}
				for _, sql := range []string{"insert into app.record (collection) values ('late')", "insert into app.task (title) values ('late')"} {
					if got := ordinary.do(t.Context(), sql); got != "42501" {
						t.Errorf("%s: %s", sql, got)
					}
				}
				if got := ordinary.do(t.Context(), w.fill("update app.record set body = '{}' where id = '{bobs}'")); got != "UPDATE 0" {
					t.Errorf("an update: %s", got)
				}
				// What is left to who ends connections.
				want := before
				if n := snapshot.do(t.Context(), "select count(*) from app.record"); n != want {
					t.Errorf("a transaction that keeps a snapshot sees %s rows, want %s", n, want)
				}
				for name, a := range map[string]*attacker{"an open cursor": cursor, "a cursor that is held": kept} {
					if got := a.do(t.Context(), "fetch 1 from c"); len(got) != 36 {
						t.Errorf("%s: got %s: is it closed?", name, got)
					}
				}
				w.revive(t)
			})
		}
	})
}

// A session ends by the clock, also in a transaction that keeps one snapshot.
func TestExpiredSession(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		w := newWorld(t, db)
		a := w.connect(t, "bob", false)
		for valid := 1; ; valid *= 2 {
			token := w.session(t, "bob", "bc_m_bob", fmt.Sprintf("%d seconds", valid))
			for _, sql := range []string{"rollback", "set app.session = '" + token + "'", "begin isolation level repeatable read"} {
				a.do(t.Context(), sql)
			}
			if n := a.do(t.Context(), "select count(*) from app.record"); n != "0" {
				break
			}
			if valid > 60 {
				t.Fatal("a session is over before it is used")
			}
		}
		a.do(t.Context(), "do $$ begin while auth.me() is not null loop perform pg_sleep(0.01); end loop; end $$")
		if n := w.sees(t, a); n != "0" {
			t.Errorf("an expired session sees %s rows", n)
		}
	})
}

// revive lets other tests make their members under the same names.
func (w *world) revive(t *testing.T) {
	t.Helper()
	for _, name := range people {
		w.db.Admin(t, "records", "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'bc_m_"+name+"'")
	}
}

// Acting for an administrator, an agent sees what the administrator sees, and changes no
// roster, by whichever role the session holds.
func TestActingForAdministrator(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		w := newWorld(t, db)
		a := w.connect(t, "carol", false)
		for _, c := range []struct{ sql, want string }{
			{"select auth.am_administrator()", "t"},
			{"select auth.may_change_roster()", "f"},
			{"select count(*) from app.record", "4"}, // two of her own, and the company's of Bob; see below
			{"select count(*) from app.record where id = '{bobs}'", "0"},
			{"select count(*) from app.record where id = '{anns}'", "0"},
			{"select count(*) from app.record where circle_id is not null", "0"},
			{"select count(*) from app.task where owner_id = '{ann}'", "0"},
			{"select * from auth.members", "42501"},
			{"select * from auth.sessions", "42501"},
			{"select auth.put_member('{ann}', 'Ann', true, null, false)", "42501"},
			{"select auth.put_circle('{other}', 'mine')", "42501"},
			{"select auth.put_circle_member('{other}', '{carol}')", "42501"},
			{"select auth.remove_circle_member('{shared}', '{ann}')", "42501"},
			{"select auth.remove_circle('{other}')", "42501"},
			{"select auth.change_circle('{other}')", "42501"},
			{"select auth.change_company('mine')", "42501"},
			{"select auth.write_circle('{other}', 'mine', null, false, '{}')", "42501"},
			{"select auth.circle_roster()", "42501"},
			{"update app.company set name = 'mine'", "42501"},
			{"insert into app.member values (default)", "*"},
			{"update app.circle set name = 'mine'", "*"},
			{"delete from app.circle_member", "*"},
			{"update app.record set body = '{}' where id = '{bobsCompany}'", "UPDATE 0"},
		} {
			before := w.state(t)
			sql, want := w.fill(c.sql), c.want
			if strings.Contains(sql, "count(*) from app.record") && want == "4" {
				want = w.one(t, "select count(*)::text from app.record where owner_id = '{carol}' or visibility = 'company'")
			}
			got := a.do(t.Context(), sql)
			if got != want && (want != "*" || !a.refused) {
				t.Errorf("%s: got %s, want %s", sql, got, want)
			}
			w.unchanged(t, before)
		}
		// The same through the door of the app, as the typed tools go.
		carol, err := store.ParseID(w.words["carol"])
		if err != nil {
			t.Fatal(err)
		}
		s, err := db.Records.Issue(t.Context(), store.MemberID(carol), store.Agent, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for _, sql := range []string{
			"select auth.put_circle('{other}', 'mine')", "select auth.put_circle_member('{other}', '{carol}')",
			"select auth.remove_circle_member('{shared}', '{ann}')", "select auth.remove_circle('{other}')", "select auth.change_company('mine')",
		} {
			before := w.state(t)
			err := db.Records.As(t.Context(), s, func(ctx context.Context, q store.Querier) error {
				_, err := q.Exec(ctx, w.fill(sql))
				return err
			})
			if !errors.Is(err, bourn.ErrDenied) {
				t.Errorf("%s: %v", sql, err)
			}
			w.unchanged(t, before)
		}
	})
}

// A session that only reads changes nothing, in any table, whatever the member may.
func TestReadingSession(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		w := newWorld(t, db)
		w.db.Admin(t, "records", "update auth.sessions set read_only = true where token_hash = sha256('"+w.words["bobToken"]+"')")
		a := w.connect(t, "bob", false)
		before := w.state(t)
		for _, c := range []struct{ sql, want string }{
			{"insert into app.record (collection) values ('x')", "42501"},
			{"insert into app.task (title) values ('x')", "42501"},
			{"update app.record set body = '{}' where id = '{bobs}'", "UPDATE 0"},
			{"update app.task set status = 'done'", "UPDATE 0"},
			{"merge into app.record r using (values (1)) v on r.id = '{bobs}' when matched then update set body = '{}'", "42501"},
			{"merge into app.record r using (values (1)) v on false when not matched then insert (collection) values ('x')", "42501"},
			{"with x as (update app.record set body = '{}' returning 1) select count(*) from x", "0"},
			{"select auth.may_write()", "f"},
			{"set transaction_read_only = off; update app.record set body = '{}'", "UPDATE 0"},
		} {
			if got := a.do(t.Context(), w.fill(c.sql)); got != c.want {
				t.Errorf("%s: got %s, want %s", c.sql, got, c.want)
			}
		}
		w.unchanged(t, before)
	})
}

// Where else a person's role can connect to, and how: nowhere, and as nothing else.
func TestConnectingElsewhere(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		w := newWorld(t, db)
		connect := func(url string) string {
			conn, err := pgconn.Connect(t.Context(), url)
			if err == nil {
				_ = conn.Close(t.Context()) // it should not be there
				return "in"
			}
			var refused *pgconn.PgError
			if errors.As(err, &refused) {
				return refused.Code
			}
			return err.Error()
		}
		for _, c := range []struct{ name, url, want string }{
			{"control", db.URL("bc_m_ann", "control"), "42501"},
			{"the group", db.URL("bc_person", "records"), "28000"},
			{"the owner", db.URL("bourn_records", "records"), "28000"},
			{"the owner of auth", db.URL("bourn_auth", "records"), "28000"},
			{"replication", db.URL("bc_m_ann", "records") + " replication=database", "42501"},
			{"a role at once", db.URL("bc_m_ann", "records") + " role=bourn_records", "42501"},
			{"another's role at once", db.URL("bc_m_ann", "records") + " options='-c role=bc_m_bob'", "42501"},
			{"another identity at once", db.URL("bc_m_ann", "records") + " options='-c session_authorization=bc_m_bob'", "42501"},
			{"triggers off", db.URL("bc_m_ann", "records") + " options='-c session_replication_role=replica'", "42501"},
			{"the catalog open", db.URL("bc_m_ann", "records") + " options='-c allow_system_table_mods=on'", "42501"},
			{"a library of one's own", db.URL("bc_m_ann", "records") + " options='-c local_preload_libraries=/tmp/evil'", "42501"},
		} {
			if got := connect(c.url); got != c.want {
				t.Errorf("%s: got %s, want %s", c.name, got, c.want)
			}
		}
		a := w.connect(t, "ann", true, "options='-c app.session="+w.words["bobToken"]+" -c row_security=off'")
		if got := a.do(t.Context(), "select count(*) from app.record"); got != "42501" {
			t.Errorf("row_security off at once: %s", got)
		}
		a.do(t.Context(), "reset row_security; set row_security = on")
		if got := a.do(t.Context(), "select count(*) from app.record"); got != "0" {
			t.Errorf("another's token at once: %s rows", got)
		}
	})
}

// An agent holds up nobody by what it may do in a transaction that it never ends.
func TestHoldingUp(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		w := newWorld(t, db)
		for _, holding := range []string{
			"select * from app.record",
			"select * from app.record for update",
			"select * from app.record for key share",
			"update app.record set body = '{}'",
			"update app.task set status = 'doing'",
			"lock table app.record in access exclusive mode",
			"lock table app.record in row exclusive mode",
			"insert into app.record (collection) values ('x')",
			"merge into app.record r using (values (1)) v on true when matched and owner_id = '{ann}' then update set body = '{}'",
			"declare c cursor for select * from app.record for update",
		} {
			ann, bob := w.connect(t, "ann", false), w.connect(t, "bob", false)
			ann.do(t.Context(), "begin")
			ann.do(t.Context(), w.fill(holding))
			bob.do(t.Context(), "set lock_timeout = '2s'")
			for _, c := range []struct{ sql, want string }{
				{"update app.record set collection = collection where owner_id = '{bob}'", "UPDATE 5"},
				{"insert into app.record (collection, visibility) values ('bob', 'private')", "INSERT 0 1"},
				{"update app.task set status = 'open' where id = '{bobsTask}'", "UPDATE 1"},
				{"select count(*) from (select * from app.record where id = '{bobs}' for update) s", "1"},
			} {
				if got := bob.do(t.Context(), w.fill(c.sql)); got != c.want {
					t.Errorf("while Ann holds %q, %q gives Bob %s, want %s", holding, c.sql, got, c.want)
				}
			}
			for _, a := range []*attacker{ann, bob} {
				if err := a.conn.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			w.db.Admin(t, "records", "delete from app.record where collection = 'bob'")
		}
	})
}

// Nothing of who used a pooled connection of the app's is there for who comes next.
func TestPooledConnection(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		ann, bob := member(t, db, "Ann", false), member(t, db, "Bob", false)
		as := func(m store.MemberID, sql string) (got string, err error) {
			err = db.Records.As(t.Context(), issue(t, db.Records, m, time.Minute), func(ctx context.Context, q store.Querier) error {
				rows, err := q.Query(ctx, sql)
				if err != nil {
					return err
				}
				defer rows.Close()
				for rows.Next() {
					values, err := rows.Values()
					if err != nil {
						return err
					}
					got += fmt.Sprint(values...) + ";"
				}
				return rows.Err()
			})
			return got, err
		}
		for range 3 {
			if _, err := as(ann, "insert into app.record (collection, body) values ('a', '{\"text\": \"mark-ann\"}')"); err != nil {
				t.Fatal(err)
			}
		}
		var token string
		_ = db.Records.As(t.Context(), issue(t, db.Records, ann, time.Minute), func(ctx context.Context, q store.Querier) error {
			return q.QueryRow(ctx, "select current_setting('app.session')").Scan(&token)
		})
		for _, planted := range []struct{ plant, find, want string }{
			{"select set_config('app.session', '" + token + "', false)", "select count(*) from app.record", "0;"},
			{"select set_config('search_path', 'pg_temp, app', false)", "select current_setting('search_path')", "pg_catalog, pg_temp;"},
			{"declare planted cursor with hold for select body from app.record", "select count(*) from pg_cursors where name = 'planted'", "0;"},
			{"prepare planted as select body from app.record", "select count(*) from pg_prepared_statements where name = 'planted'", "0;"},
			{"set session characteristics as transaction read only", "select current_setting('default_transaction_read_only')", "off;"},
			{"set statement_timeout = 1", "select current_setting('statement_timeout')", "30s;"},
			{"listen planted", "select count(*) from pg_listening_channels()", "0;"},
			{"set role bourn_app", "select current_setting('role')", "none;"},
			{"set plan_cache_mode = force_generic_plan", "select current_setting('plan_cache_mode')", "auto;"},
		} {
			for range 20 { // more than the pool has connections
				if _, err := as(ann, planted.plant); err != nil {
					t.Fatalf("%s: %v", planted.plant, err)
				}
				if got, err := as(bob, planted.find); err != nil || got != planted.want {
					t.Fatalf("%s: Bob's %s gives %q, %v", planted.plant, planted.find, got, err)
				}
			}
		}
		for _, refused := range []string{
			"create temp view record as select 1", "create temp table record (id int)", "create function pg_temp.me() returns uuid language sql as 'select null::uuid'",
			"select * from pg_stat_activity", "select pg_terminate_backend(1)", "lock table app.record", "set role bourn_records", "set session authorization bc_person",
			"select auth.issue(sha256('x'), auth.me(), 'bourn_app', 'agent', '1 hour')", "select lo_create(0)", "select pg_advisory_lock(1)", "copy (select 1) to program 'true'",
		} {
			if _, err := as(ann, refused); !errors.Is(err, bourn.ErrDenied) {
				t.Errorf("%s: %v", refused, err)
			}
		}
	})
}

// Another database of the server, such as postgres, is for pg_hba.conf to close: Bourn's own
// cluster lets no person in there, and in a server that is another's the rows are not there.
func TestAnotherDatabase(t *testing.T) {
	db := storetest.New(t)
	newWorld(t, db)
	conn, err := pgconn.Connect(t.Context(), db.ServerURL("bc_m_ann", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, sql := range []string{"select * from app.record", "select * from auth.sessions", "select auth.me()"} {
		if err := conn.Exec(t.Context(), sql).Close(); err == nil {
			t.Errorf("%s is answered", sql)
		}
	}
}

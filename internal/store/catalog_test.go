package store_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"bourn/internal/store/cluster"
	"bourn/internal/store/storetest"

	"github.com/jackc/pgx/v5"
)

// notOurs are the tables that no policy is about: they are goose's, hold which migrations
// ran, and are granted to nobody.
var notOurs = []string{"public.goose_auth", "public.goose_control", "public.goose_records"}

func rows(t testing.TB, conn *pgx.Conn, sql string, args ...any) []string {
	t.Helper()
	r, err := conn.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(r, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

const ourSchemas = `n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg\_t%'`

// TestCatalog walks what PostgreSQL itself says of both databases.
func TestCatalog(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		for _, database := range []string{"control", "records"} {
			for _, finding := range findings(t, db.Connect(t, cluster.Admin, database)) {
				t.Errorf("%s: %s", database, finding)
			}
		}
	})
}

// findings are the mistakes in a database, in words.
func findings(t *testing.T, conn *pgx.Conn) (found []string) {
	tables := rows(t, conn, `select n.nspname||'.'||c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where c.relkind in ('r', 'p') and `+ourSchemas)
	if len(tables) < 5 {
		t.Fatalf("only %d tables were found: %v", len(tables), tables)
	}
	forced := rows(t, conn, `select n.nspname||'.'||c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where c.relkind in ('r', 'p') and c.relrowsecurity and c.relforcerowsecurity
		  and exists (select from pg_policy p where p.polrelid = c.oid)`)
	for _, table := range tables {
		if !slices.Contains(forced, table) && !slices.Contains(notOurs, table) {
			found = append(found, table+": row security is not enabled and forced, or has no policy")
		}
	}
	for _, check := range []struct{ what, sql string }{
		{"a view that is its owner's eyes", `select n.nspname||'.'||c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
			where c.relkind in ('v', 'm') and ` + ourSchemas + ` and not coalesce('security_invoker=true' = any(c.reloptions), false)`},
		{"a table that its owner can log in as", `select n.nspname||'.'||c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
			join pg_roles r on r.oid = c.relowner where ` + ourSchemas + ` and r.rolcanlogin and n.nspname <> 'public'`},
		{"a role with more than it needs", `select rolname from pg_roles where (rolname like 'bourn\_%' or rolname like 'bc\_%')
			and (rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolreplication)`},
		{"a definer function without a pinned search_path", `select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace
			where ` + ourSchemas + ` and p.prosecdef and not coalesce('search_path=""' = any(p.proconfig), false)`},
		{"a definer function of a superuser", `select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace join pg_roles r on r.oid = p.proowner
			where ` + ourSchemas + ` and p.prosecdef and (r.rolsuper or r.rolbypassrls)`},
		{"a function that everybody may execute", `select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace
			where ` + ourSchemas + ` and has_function_privilege('public', p.oid, 'execute')`},
		{"an identity function that is not STABLE", `select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace
			where n.nspname = 'auth' and p.proname in ('me', 'my_circles', 'am_administrator') and p.provolatile <> 's'`},
		{"a grant of DELETE, TRUNCATE, REFERENCES or TRIGGER", `select table_schema||'.'||table_name||' to '||grantee from information_schema.role_table_grants
			where privilege_type in ('DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER') and table_schema in ('auth', 'control', 'log', 'app')
			  and grantee not in ('bourn_owner', 'bourn_auth', 'bourn_records')`},
		{"a grant of a whole table's UPDATE to members", `select table_schema||'.'||table_name||' to '||grantee from information_schema.role_table_grants
			where privilege_type = 'UPDATE' and table_schema in ('auth', 'control', 'log', 'app') and grantee not in ('bourn_owner', 'bourn_auth', 'bourn_records')`},
		{"a table of auth that somebody may read", `select table_name||' to '||grantee from information_schema.role_table_grants
			where table_schema = 'auth' and grantee <> 'bourn_auth'`},
		{"a policy that asks who I am once a row", `select n.nspname||'.'||c.relname||' '||p.polname from pg_policy p join pg_class c on c.oid = p.polrelid join pg_namespace n on n.oid = c.relnamespace
			where regexp_replace(coalesce(pg_get_expr(p.polqual, p.polrelid), '')||coalesce(pg_get_expr(p.polwithcheck, p.polrelid), ''), '\( SELECT auth\.', '', 'g') ~ 'auth\.'`},
		{"a schema that everybody may use or create in", `select n.nspname from pg_namespace n where ` + ourSchemas + `
			and (has_schema_privilege('public', n.oid, 'create') or has_schema_privilege('public', n.oid, 'usage'))`},
		{"TEMP or CONNECT for everybody", `select datname from pg_database where datname = current_database()
			and (has_database_privilege('public', oid, 'temporary') or has_database_privilege('public', oid, 'connect'))`},
		{"a member's role that sees others' activity, ends them or holds them up", `select p.oid::regprocedure||' by '||r.rolname from pg_proc p, pg_roles r
			where p.pronamespace = 'pg_catalog'::regnamespace and r.rolname in ('bourn_member', 'bourn_app', 'bc_person') and has_function_privilege(r.oid, p.oid, 'execute')
			  and p.proname ~ '^pg_stat_get_|^pg_(terminate|cancel)_backend|^pg_(try_)?advisory|^lo_|^pg_lock_status|^pg_blocking|_size$|^pg_export_snapshot|emit_message'
			  and p.proname not in ('pg_column_size', 'pg_encoding_max_length')`},
		{"a policy that DROP OWNED BY takes away, as an agent may for its own role and group", `select n.nspname||'.'||c.relname||' '||p.polname
			from pg_policy p join pg_class c on c.oid = p.polrelid join pg_namespace n on n.oid = c.relnamespace
			where exists (select from unnest(p.polroles) r join pg_roles g on g.oid = r where g.rolname = 'bc_person' or g.rolname like 'bc\_m\_%')`},
		{"a function that is asked before the policies", `select p.oid::regprocedure::text from pg_proc p where p.proleakproof and to_regnamespace('app') is not null
			and exists (select from unnest(p.proargtypes) a where a not in ('uuid'::regtype, 'timestamptz'::regtype))`},
		{"words that are estimated from", `select a.attrelid::regclass||'.'||a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid
			where c.relrowsecurity and a.atttypid = 'tsvector'::regtype and not a.attisdropped and a.attstattarget is distinct from 0`},
		{"an extension", `select extname from pg_extension where extname <> 'plpgsql'`},
	} {
		if bad := rows(t, conn, check.sql); len(bad) != 0 {
			found = append(found, check.what+": "+strings.Join(bad, ", "))
		}
	}
	return found
}

// The catalog test finds what it looks for.
func TestCatalogFinds(t *testing.T) {
	conn := storetest.New(t).Connect(t, cluster.Admin, "records")
	for _, planted := range []string{
		"create table app.open (id int); alter table app.open owner to bourn_records",
		"alter table app.record no force row level security",
		"create view app.all as select * from app.record",
		"create function auth.f() returns int language sql security definer as 'select 1'",
		"grant delete on app.record to bourn_app",
		"grant select on auth.members to bourn_control",
		"create policy slow on app.record for select using (owner_id = auth.me())",
		"grant usage on schema app to public",
		"alter function auth.me() immutable",
		"create policy more on app.record for select to bc_person using (owner_id = (select auth.me()))",
		"alter function pg_catalog.texteq(text, text) leakproof",
		"alter table app.record alter column search set statistics 100",
		"grant execute on function pg_catalog.pg_lock_status() to public",
	} {
		t.Run(planted, func(t *testing.T) {
			for _, sql := range []string{"begin", planted} {
				if _, err := conn.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			if found := findings(t, conn); len(found) == 0 {
				t.Error("not found")
			}
			if _, err := conn.Exec(t.Context(), "rollback"); err != nil {
				t.Fatal(err)
			}
		})
	}
	if found := findings(t, conn); len(found) != 0 {
		t.Errorf("before and after: %v", found)
	}
}

// What functions of the server an agent may execute was looked at, by name: a newer server
// may have some that tell of others.
func TestFunctionsReviewed(t *testing.T) {
	text, err := os.ReadFile("testdata/reviewed_functions.txt")
	if err != nil {
		t.Fatal(err)
	}
	reviewed := strings.Split(string(text), "\n")
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		has := rows(t, db.Connect(t, cluster.Admin, "records"), `select distinct p.proname::text from pg_proc p where p.pronamespace = 'pg_catalog'::regnamespace
			and p.prokind in ('f', 'p') and (p.provolatile = 'v' or p.proname ~ '^pg_') and has_function_privilege('bc_person', p.oid, 'execute') order by 1`)
		for _, name := range has {
			if !slices.Contains(reviewed, name) {
				t.Errorf("nobody has looked at %s", name)
			}
		}
		if len(has) < 150 {
			t.Errorf("only %d functions", len(has))
		}
	})
}

// Nothing is readable outside a session, by any role that logs in, in any table.
func TestNothingWithoutSession(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		newWorld(t, db) // every table has rows
		for _, c := range []struct{ role, database string }{{"bourn_member", "control"}, {"bourn_app", "records"}, {"bc_m_ann", "records"}, {"bourn_control", "records"}} {
			conn, admin := db.Connect(t, c.role, c.database), db.Connect(t, cluster.Admin, c.database)
			for _, table := range rows(t, admin, `select n.nspname||'.'||c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
				where c.relkind in ('r', 'p', 'v', 'm') and `+ourSchemas) {
				var n int
				err := conn.QueryRow(t.Context(), "select count(*) from "+table).Scan(&n)
				if err == nil && n != 0 {
					t.Errorf("%s sees %d rows of %s without a session", c.role, n, table)
				}
			}
		}
	})
}

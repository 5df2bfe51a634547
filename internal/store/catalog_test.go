package store_test

import (
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

func rows(t *testing.T, conn *pgx.Conn, sql string, args ...any) []string {
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
	db := storetest.New(t)
	for _, database := range []string{"control", "records"} {
		t.Run(database, func(t *testing.T) {
			for _, finding := range findings(t, db.Connect(t, cluster.Admin, database)) {
				t.Error(finding)
			}
		})
	}
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
		{"a member's role that sees others' activity or ends them", `select f from unnest(array['pg_terminate_backend(integer,bigint)', 'pg_cancel_backend(integer)', 'pg_stat_get_activity(integer)',
			'lo_create(oid)', 'pg_advisory_lock(bigint)', 'pg_try_advisory_xact_lock_shared(integer,integer)']) f
			where has_function_privilege('bourn_member', 'pg_catalog.'||f, 'execute') or has_function_privilege('bourn_app', 'pg_catalog.'||f, 'execute')
			   or has_function_privilege('bc_person', 'pg_catalog.'||f, 'execute')`},
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
	} {
		t.Run(planted, func(t *testing.T) {
			db := storetest.New(t)
			db.Admin(t, "records", planted)
			if found := findings(t, db.Connect(t, cluster.Admin, "records")); len(found) == 0 {
				t.Error("not found")
			}
		})
	}
}

// Nothing is readable outside a session, by any role that logs in, in any table.
func TestNothingWithoutSession(t *testing.T) {
	db := storetest.New(t)
	db.Admin(t, "records", "create role bc_m_test login in role bc_person")
	t.Cleanup(func() { db.Admin(t, "records", "drop role bc_m_test") })
	for _, c := range []struct{ role, database string }{{"bourn_member", "control"}, {"bourn_app", "records"}, {"bc_m_test", "records"}, {"bourn_control", "records"}} {
		conn := db.Connect(t, c.role, c.database)
		adminConn := db.Connect(t, cluster.Admin, c.database)
		for _, table := range rows(t, adminConn, `select n.nspname||'.'||c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
			where c.relkind in ('r', 'p', 'v', 'm') and `+ourSchemas) {
			var n int
			err := conn.QueryRow(t.Context(), "select count(*) from "+table).Scan(&n)
			if err == nil && n != 0 {
				t.Errorf("%s sees %d rows of %s without a session", c.role, n, table)
			}
		}
	}
}

package rowsec_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"bourn/internal/store/cluster"
	"bourn/internal/store/rowsec"
	"bourn/internal/store/storetest"

	"github.com/jackc/pgx/v5"
)

func lint(t *testing.T, conn *pgx.Conn) []rowsec.Finding {
	t.Helper()
	found, err := rowsec.Lint(t.Context(), conn, rowsec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Bourn's own schema has no finding, in either database.
func TestLintIsSilent(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		for _, database := range []string{"records", "control"} {
			for _, f := range lint(t, db.Connect(t, cluster.Admin, database)) {
				t.Errorf("%s: %s", database, f)
			}
		}
	})
}

// right is a table with which nothing is wrong, for mistakes to be planted in.
const right = `
	create table app.folder (id uuid primary key default gen_random_uuid(), owner_id uuid not null default auth.me());
	create table app.note (id uuid primary key default gen_random_uuid(), owner_id uuid not null default auth.me(), circle_id uuid, folder_id uuid references app.folder,
	  visibility text not null default 'private', title text, created_at timestamptz not null default now());
	create index on app.folder (owner_id);
	create index note_owner on app.note (owner_id, created_at desc);
	create index note_circle on app.note (circle_id, created_at desc);
	alter table app.folder owner to bourn_records; alter table app.note owner to bourn_records;
	alter table app.folder enable row level security; alter table app.folder force row level security;
	alter table app.note enable row level security; alter table app.note force row level security;
	create policy session on app.folder as restrictive using ((select auth.me()) is not null);
	create policy mine on app.folder for select using (owner_id = (select auth.me()));
	create policy session on app.note as restrictive using ((select auth.me()) is not null) with check ((select auth.me()) is not null);
	create policy may_insert on app.note as restrictive for insert with check ((select auth.may_write()));
	create policy may_update on app.note as restrictive for update using ((select auth.may_write())) with check ((select auth.may_write()));
	create policy visible on app.note for select using (owner_id = (select auth.me()) or visibility = 'company' or circle_id = any ((select auth.my_circles())::uuid[]));
	create policy own_new on app.note for insert with check (owner_id = (select auth.me()) and (circle_id is null or circle_id = any ((select auth.my_circles())::uuid[]))
	  and (folder_id is null or exists (select from app.folder f where f.id = folder_id)));
	create policy own_changed on app.note for update using (owner_id = (select auth.me())) with check (owner_id = (select auth.me())
	  and (circle_id is null or circle_id = any ((select auth.my_circles())::uuid[])) and (folder_id is null or exists (select from app.folder f where f.id = folder_id)));
	grant select on app.folder, app.note to bourn_app, bc_person;
	grant insert (owner_id, circle_id, folder_id, visibility, title) on app.note to bourn_app, bc_person;
	grant update (circle_id, folder_id, visibility, title) on app.note to bourn_app, bc_person;`

// planted are mistakes, each with the one code that it has.
var planted = []struct{ code, sql string }{
	{"row_security_off", "alter table app.note disable row level security"},
	{"row_security_off", "create table app.open (id uuid primary key); alter table app.open owner to bourn_records"},
	{"row_security_not_forced", "alter table app.note no force row level security"},
	{"table_owner", "alter table app.folder owner to bourn_app"},
	{"table_owner", "alter table app.note owner to postgres"},
	{"no_policy", "create table app.bare (id uuid primary key); alter table app.bare owner to bourn_records; alter table app.bare enable row level security; alter table app.bare force row level security"},
	{"no_session_gate", "drop policy session on app.note"},
	{"no_session_gate", "alter policy session on app.note using (true) with check (true)"},
	{"no_session_gate", "alter policy session on app.note using ((select auth.me()) is null)"},
	{"no_session_gate", "alter policy session on app.note using (coalesce((select auth.me()), gen_random_uuid()) is not null) with check (true)"},
	{"no_session_gate", "alter policy session on app.note using ((select auth.me()) is not null or visibility = 'company')"},
	{"public_policy", "alter policy session on app.note to bourn_app"},
	{"no_write_gate", "drop policy may_insert on app.note"},
	{"no_write_gate", "drop policy may_update on app.note"},
	{"no_write_gate", "alter policy may_update on app.note with check (true)"},
	{"policy_true", "create policy all_of_it on app.note for select using (true)"},
	{"policy_true", "create policy all_of_it on app.note for select using (title = 'x' or true)"},
	{"policy_true", "alter policy own_new on app.note with check (true)"},
	{"policy_forgeable", "create policy claims on app.note for select using (title = current_setting('request.jwt.claims', true))"},
	{"policy_forgeable", "create policy by_role on app.note for select using (title = current_user)"},
	{"policy_per_row", "alter policy mine on app.folder using (owner_id = auth.me())"},
	{"policy_per_row", `create function app.can_read(owner uuid) returns boolean language plpgsql stable set search_path = '' as 'begin return owner = auth.me(); end';
		alter function app.can_read(uuid) owner to bourn_records; revoke all on function app.can_read(uuid) from public;
		create policy through on app.note for select using (app.can_read(owner_id))`},
	{"policy_per_row", "create policy again on app.note for select using (exists (select from app.folder f where f.id = folder_id and f.owner_id = auth.me()))"},
	{"policy_in_subselect", "create policy circles on app.note for select using (circle_id in (select unnest(auth.my_circles())))"},
	{"policy_in_subselect", "create policy folders on app.note for select using (folder_id in (select f.id from app.folder f where f.owner_id = (select auth.me())))"},
	{"no_with_check", "drop policy own_changed on app.note; create policy own_changed on app.note for update using (owner_id = (select auth.me()))"},
	{"owner_unchecked", "create policy any_owner on app.note for insert with check ((circle_id is null or circle_id = any ((select auth.my_circles())::uuid[])) and exists (select from app.folder f where f.id = folder_id))"},
	{"owner_unchecked", "create policy other on app.note for insert with check (owner_id <> (select auth.me()) and circle_id = any ((select auth.my_circles())::uuid[]) and exists (select from app.folder f where f.id = folder_id))"},
	{"owner_unchecked", "create policy wide on app.note for insert with check ((owner_id = (select auth.me()) or visibility = 'company') and circle_id is null and folder_id is null)"},
	{"owner_unchecked", "create policy wide on app.note for insert with check (owner_id = coalesce((select auth.me()), owner_id) and circle_id is null and folder_id is null)"},
	{"circle_unchecked", "alter policy own_new on app.note with check (owner_id = (select auth.me()) and (title = '' or circle_id = any ((select auth.my_circles())::uuid[])) and folder_id is null)"},
	{"foreign_key_tells", "alter policy own_new on app.note with check (owner_id = (select auth.me()) and circle_id is null and (title = '' or exists (select from app.folder f where f.id = folder_id)))"},
	{"circle_unchecked", "alter policy own_changed on app.note with check (owner_id = (select auth.me()) and exists (select from app.folder f where f.id = folder_id))"},
	{"foreign_key_tells", "alter policy own_new on app.note with check (owner_id = (select auth.me()) and circle_id = any ((select auth.my_circles())::uuid[]))"},
	{"unique_unscoped", "alter table app.note add unique (title)"},
	{"unique_unscoped", "create unique index on app.note (title, upper(visibility)) where title <> ''"},
	{"unique_unscoped", "alter table app.note add exclude (title with =)"},
	{"serial_key", "alter table app.note add number bigint generated always as identity"},
	{"serial_key", "alter table app.note add number bigserial; alter sequence app.note_number_seq owner to bourn_records"},
	{"sequence_grant", "create sequence app.numbers; alter sequence app.numbers owner to bourn_records; grant usage on sequence app.numbers to bourn_app"},
	{"no_index", "drop index app.note_owner"},
	{"no_index", "drop index app.note_circle"},
	{"leaky_index", "create type app.state as enum ('open'); alter table app.note add state app.state; create index on app.note (state)"},
	{"leaky_index", "alter table app.note add amount numeric; create index on app.note (amount, owner_id)"},
	{"leaky_index", "alter table app.note add body jsonb; create index on app.note using gin (body)"},
	{"leaky_index", "alter table app.note add body jsonb; create index on app.note ((body->>'kind'))"},
	{"leaky_index", "create index on app.note (title text_pattern_ops)"},
	{"leaky_index", "create index on app.note (title, created_at)"},
	{"leakproof_operator", "alter function pg_catalog.texteq(text, text) leakproof"},
	{"definer_view", "create view app.everything as select * from app.note; alter view app.everything owner to bourn_records"},
	{"definer_view", "create view app.everything with (security_invoker = false) as select * from app.note"},
	{"materialized_view", "create materialized view app.copied as select * from app.note"},
	{"partition_open", "create table app.part () inherits (app.note); alter table app.part owner to bourn_records"},
	{"rule", "create rule also as on insert to app.note do also notify note"},
	{"publication", "create publication out for table app.note"},
	{"definer_search_path", "create function app.f() returns int language sql security definer as 'select 1'; alter function app.f() owner to bourn_records; revoke all on function app.f() from public"},
	{"definer_search_path", "create function app.f() returns int language sql security definer set search_path = app as 'select 1'; alter function app.f() owner to bourn_records; revoke all on function app.f() from public"},
	{"definer_owner", "create function app.f() returns int language sql security definer set search_path = '' as 'select 1'; revoke all on function app.f() from public"},
	{"definer_owner", "create procedure app.p() language sql security definer set search_path = '' as 'select 1'; revoke all on procedure app.p() from public"},
	{"identity_volatility", "alter function auth.me() immutable"},
	{"identity_volatility", "alter function auth.my_circles() volatile"},
	{"function_public", "create function app.f() returns int language sql as 'select 1'"},
	{"function_public", "grant execute on function auth.put_member(uuid, text, boolean, bigint, boolean) to public"},
	{"table_grant", "grant delete on app.note to bourn_app"},
	{"table_grant", "grant truncate on app.note to bc_person"},
	{"table_grant", "grant references on app.note to bc_person"},
	{"table_grant", "grant trigger on app.note to bc_person"},
	{"table_grant", "grant update on app.note to bourn_app"},
	{"public_grant", "grant select on app.note to public"},
	{"public_grant", "grant select (title) on app.note to public"},
	{"public_grant", "grant usage on schema app to public"},
	{"auth_grant", "grant select on auth.members to bourn_control"},
	{"auth_grant", "grant select (name) on auth.members to bourn_app"},
	{"schema_create", "grant create on schema app to bc_person"},
	{"default_privileges", "alter default privileges in schema app grant select on tables to bc_person"},
	{"default_privileges", "alter default privileges in schema app grant execute on functions to public"},
	{"role_power", "create role bc_m_strong login bypassrls"},
	{"role_power", "create role planted_strong createrole; create role bc_m_weak login in role planted_strong"},
	{"role_power", "create role planted_person login superuser in role bc_person"},
	{"role_member", "create role bc_m_owner login in role bc_person, bourn_records"},
	{"role_member", "create role bc_m_reader login in role bc_person; grant pg_read_server_files to bc_m_reader"},
	{"database_public", "do $$ begin execute format('grant temporary on database %I to public', current_database()); end $$"},
	{"database_public", "do $$ begin execute format('grant connect on database %I to public', current_database()); end $$"},
	{"database_public", "do $$ begin execute format('grant temporary on database %I to bc_person', current_database()); end $$"},
	{"side_door", "grant execute on function pg_catalog.pg_terminate_backend(integer, bigint) to public"},
	{"side_door", "grant execute on function pg_catalog.lo_create(oid) to bc_person"},
	{"side_door", "grant execute on function pg_catalog.pg_read_file(text) to bourn_app"},
	{"side_door", "grant select on pg_catalog.pg_stat_activity to public"},
	{"event_trigger", "create function app.f() returns event_trigger language plpgsql as 'begin end'; create event trigger seen on ddl_command_end execute function app.f()"},
}

// TestLintFinds plants every mistake and sees exactly its code.
func TestLintFinds(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		conn := db.Connect(t, cluster.Admin, "records")
		if _, err := conn.Exec(t.Context(), right); err != nil {
			t.Fatal(err)
		}
		for _, f := range lint(t, conn) {
			t.Fatalf("the right table has a finding: %s", f)
		}
		for _, p := range planted {
			t.Run(p.code, func(t *testing.T) { findsOne(t, conn, p.code, p.sql) })
		}
	})
}

// findsOne plants a mistake in a transaction, which takes it back.
func findsOne(t *testing.T, conn *pgx.Conn, code, sql string) {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // nothing of it is to stay
	if _, err := tx.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	found, err := rowsec.LintIn(t.Context(), tx)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if len(found) == 0 {
		t.Errorf("%s\nis not found", sql)
	}
	for _, f := range found {
		if f.Code != code || f.Object == "" || f.What == "" || f.Mend == "" {
			t.Errorf("%s\ngives %s", sql, f)
		}
	}
}

// TestLintFindsForeign plants what reaches out of the database, as far as the server has it.
func TestLintFindsForeign(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		conn := db.Connect(t, cluster.Admin, "records")
		run(t, conn, "create foreign data wrapper planted; create server planted foreign data wrapper planted; create foreign table app.far (id int) server planted; alter table app.far owner to bourn_records")
		var codes []string
		for _, f := range lint(t, conn) {
			codes = append(codes, f.Code)
		}
		if !slices.Equal(codes, []string{"foreign_table", "extension"}) {
			t.Errorf("found are %q", codes)
		}
		var has bool
		if err := conn.QueryRow(t.Context(), "select exists (select from pg_available_extensions where name = 'dblink')").Scan(&has); err != nil || !has {
			t.Skipf("needs the extension dblink: %v", err)
		}
		run(t, conn, "drop foreign data wrapper planted cascade; create schema ext; create extension dblink schema ext")
		if found := lint(t, conn); len(found) != 1 || found[0].Object != "extension dblink" {
			t.Errorf("found are %v", found)
		}
	})
}

// Only the schemas that are named are looked at, and the database itself.
func TestLintSchemas(t *testing.T) {
	db := storetest.New(t)
	conn := db.Connect(t, cluster.Admin, "records")
	run(t, conn, "create schema one; create schema two; create view one.v as select 1; create view two.v as select 1; grant execute on function pg_catalog.lo_create(oid) to public")
	found, err := rowsec.Lint(t.Context(), conn, rowsec.Options{Schemas: []string{"two"}})
	if err != nil || len(found) != 2 || found[0].Object != "two.v" || found[1].Code != "side_door" {
		t.Errorf("%v, %v", found, err)
	}
	if text := found[0].String(); !strings.HasPrefix(text, "definer_view  two.v: ") || strings.Contains(text, "\n") {
		t.Errorf("a finding is printed as %q", text)
	}
}

// Every code has a mistake that is planted, or is tried by itself.
func TestEveryCodeIsPlanted(t *testing.T) {
	other := []string{"extension", "foreign_table"} // TestLintFindsForeign
	for _, c := range rowsec.Codes {
		if !slices.Contains(other, c.Name) && !slices.ContainsFunc(planted, func(p struct{ code, sql string }) bool { return p.code == c.Name }) {
			t.Errorf("%s is not planted", c.Name)
		}
		if c.Why == "" || strings.HasSuffix(c.Why, ".") {
			t.Errorf("%s: the reason is %q", c.Name, c.Why)
		}
	}
}

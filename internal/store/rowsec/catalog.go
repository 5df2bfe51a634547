package rowsec

// prelude are the words of the checks below. $1 are the schemas that are looked at, all
// where it is empty; $2 are the roles that no member comes in as.
const prelude = `with
ours as (
  select oid, nspname from pg_namespace
  where nspname not in ('pg_catalog', 'information_schema') and nspname !~ '^pg_(toast|temp)'
    and (cardinality($1::text[]) = 0 or nspname = any ($1))),
-- Superusers are beyond row security whatever a catalog says.
closed as (select oid from pg_roles where rolsuper or rolname = any ($2)),
extended as (select classid, objid from pg_depend where deptype = 'e'),
rel as (
  select c.oid, format('%I.%I', o.nspname, c.relname) as name, o.nspname, c.relname, c.relkind, c.relowner, c.relacl,
    c.relrowsecurity, c.relforcerowsecurity, c.reloptions,
    exists (select from pg_inherits i where i.inhrelid = c.oid) as child
  from pg_class c join ours o on o.oid = c.relnamespace
  where c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
    and not exists (select from extended e where e.classid = 'pg_class'::regclass and e.objid = c.oid)
    -- goose's own: which migrations ran, granted to nobody.
    and not (o.nspname = 'public' and c.relname ~ '^goose_[a-z]+(_id_seq)?$' and c.relacl is null)),
granted as (
  select r.oid, a.grantee, a.privilege_type, 0::int2 as attnum
  from rel r, aclexplode(coalesce(r.relacl, acldefault(case r.relkind when 'S' then 's' else 'r' end::"char", r.relowner))) a
  where a.grantee <> r.relowner
  union all
  select r.oid, a.grantee, a.privilege_type, t.attnum
  from rel r join pg_attribute t on t.attrelid = r.oid and not t.attisdropped, aclexplode(t.attacl) a
  where a.grantee <> r.relowner),
-- What members and their agents, or anybody, may do.
opened as (select * from granted where grantee not in (select oid from closed)),
named as (select oid, quote_ident(rolname) as who from pg_roles union all select 0, 'public'),
fn as (
  select p.oid, p.proname, p.prosecdef, p.proconfig, p.proowner, p.proacl, p.provolatile, p.prorettype, o.nspname,
    format('%I.%I(%s)', o.nspname, p.proname, pg_get_function_identity_arguments(p.oid)) as name,
    case p.prokind when 'p' then 'procedure' else 'function' end as kind
  from pg_proc p join ours o on o.oid = p.pronamespace
  -- An extension's is looked at where members may call it.
  where not exists (select from extended e where e.classid = 'pg_proc'::regclass and e.objid = p.oid)
    or p.prosecdef and exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a where a.grantee <> p.proowner and a.grantee not in (select oid from closed))),
-- The roles of the control plane, of members, and of their agents.
member_of(member, roleid) as (
  with recursive m(member, roleid) as (
    select member, roleid from pg_auth_members
    union select m.member, a.roleid from m join pg_auth_members a on a.member = m.roleid)
  select member, roleid from m),
own as (
  select oid, rolname from pg_roles
  where rolname ~ '^(bourn|bc)_' or oid in (
    select member from member_of where roleid = (select oid from pg_roles where rolname = 'bc_person')))
`

// catalogChecks are the mistakes that the catalog tells by itself: each gives the object, what is
// wrong with it, and the mend.
var catalogChecks = []struct{ code, sql string }{
	{"row_security_off", `
		select name, 'row security is off', format('alter table %s enable row level security; alter table %s force row level security', name, name)
		from rel where relkind in ('r', 'p') and not relrowsecurity and not child`},
	{"row_security_not_forced", `
		select name, 'row security does not bind the table''s owner', format('alter table %s force row level security', name)
		from rel where relkind in ('r', 'p') and relrowsecurity and not relforcerowsecurity and not child`},
	{"table_owner", `
		select rel.name, format('it belongs to %I, %s', o.rolname, case when o.rolsuper then 'a superuser' when o.rolbypassrls then 'which bypasses row security' else 'which can log in' end),
		  format('alter table %s owner to bourn_records', rel.name)
		from rel join pg_roles o on o.oid = rel.relowner where relkind in ('r', 'p') and (o.rolcanlogin or o.rolsuper or o.rolbypassrls)`},
	{"no_policy", `
		select name, 'it has no policy', 'bourn records guard '||name||' prints them'
		from rel where relkind in ('r', 'p') and relrowsecurity and not child and not exists (select from pg_policy p where p.polrelid = rel.oid)`},
	{"partition_open", `
		select name, 'it is a part of '||(select string_agg(i.inhparent::regclass::text, ', ') from pg_inherits i where i.inhrelid = rel.oid)||' and has no row security of its own',
		  format('alter table %s enable row level security; alter table %s force row level security', name, name)
		from rel where relkind in ('r', 'p') and child and not (relrowsecurity and relforcerowsecurity)`},
	{"definer_view", `
		select name, 'the view reads with the rights of its owner', format('alter view %s set (security_invoker = true, security_barrier = true)', name)
		from rel where relkind = 'v' and not exists (select from unnest(reloptions) o where o ~* '^security_invoker=(true|on|yes|1)$')`},
	{"materialized_view", `
		select name, 'no policy holds for a materialised view', 'drop it, or revoke it from all and read it through a definer function that filters'
		from rel where relkind = 'm'`},
	{"foreign_table", `
		select name, 'no policy holds for a foreign table', 'drop foreign table '||name
		from rel where relkind = 'f'`},
	{"rule", `
		select rel.name||' '||quote_ident(r.rulename), 'a rule on a table', format('drop rule %I on %s', r.rulename, rel.name)
		from pg_rewrite r join rel on rel.oid = r.ev_class where rel.relkind in ('r', 'p')`},
	{"publication", `
		select rel.name, format('the publication %I sends every row of it', p.pubname),
		  case when p.puballtables then format('drop publication %I', p.pubname) else format('alter publication %I drop table %s', p.pubname, rel.name) end
		from rel join pg_publication p on p.puballtables or exists (select from pg_publication_rel r where r.prpubid = p.oid and r.prrelid = rel.oid)
		  or exists (select from pg_publication_namespace s join pg_namespace n on n.oid = s.pnnspid where s.pnpubid = p.oid and n.nspname = rel.nspname)
		where rel.relkind in ('r', 'p')`},
	{"definer_search_path", `
		select name, case when exists (select from unnest(proconfig) c where c like 'search_path=%') then 'its search_path has schemas before pg_temp is named last' else 'its search_path is the caller''s' end,
		  format('alter %s %s set search_path = '''', and name every object in it with its schema', kind, name)
		from fn where prosecdef and not exists (
		  select from unnest(proconfig) c where c in ('search_path=""', 'search_path=') or c ~ '^search_path=.*pg_temp"?$')`},
	{"definer_owner", `
		select fn.name, format('it runs as %I, %s', o.rolname, case when o.rolsuper then 'a superuser' else 'which bypasses row security' end),
		  format('alter %s %s owner to a role that cannot log in, such as bourn_records', fn.kind, fn.name)
		from fn join pg_roles o on o.oid = fn.proowner where fn.prosecdef and (o.rolsuper or o.rolbypassrls)`},
	{"identity_volatility", `
		select name, case provolatile when 'i' then 'it is IMMUTABLE: plans keep the first answer for everybody' else 'it is VOLATILE' end,
		  format('alter function %s stable', name)
		from fn where provolatile <> 's' and nspname = 'auth' and proname in ('me', 'my_circles', 'am_administrator', 'may_write', 'may_change_roster')`},
	{"function_public", `
		select fn.name, 'everybody may execute it', format('revoke execute on %s %s from public', fn.kind, fn.name)
		from fn, aclexplode(coalesce(fn.proacl, acldefault('f', fn.proowner))) a
		where a.grantee = 0 and fn.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
		  and not exists (select from extended e where e.classid = 'pg_proc'::regclass and e.objid = fn.oid)`},
	{"table_grant", `
		select rel.name, format('%s has %s on all of it', w.who, string_agg(g.privilege_type, ', ' order by g.privilege_type)),
		  format('revoke %s on %s from %s', lower(string_agg(g.privilege_type, ', ' order by g.privilege_type)), rel.name, w.who)
		    ||case when 'UPDATE' = any (array_agg(g.privilege_type)) then ', and grant update (COLUMNS)' else '' end
		from opened g join rel on rel.oid = g.oid join named w on w.oid = g.grantee
		where rel.relkind in ('r', 'p', 'v', 'f') and rel.nspname <> 'auth' and g.grantee <> 0 and g.attnum = 0
		  and g.privilege_type in ('DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER', 'UPDATE', 'MAINTAIN')
		group by rel.name, w.who`},
	{"public_grant", `
		select rel.name, format('everybody has %s', string_agg(distinct g.privilege_type, ', ')), format('revoke all on %s from public', rel.name)
		from opened g join rel on rel.oid = g.oid where g.grantee = 0 and rel.relkind <> 'S' group by rel.name
		union all
		select 'schema '||quote_ident(n.nspname), format('everybody has %s', string_agg(a.privilege_type, ', ')), format('revoke all on schema %I from public', n.nspname)
		from pg_namespace n join ours on ours.oid = n.oid, aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a where a.grantee = 0 group by n.nspname`},
	{"auth_grant", `
		select rel.name, format('%s has %s', w.who, string_agg(distinct g.privilege_type, ', ')), format('revoke all on %s from %s', rel.name, w.who)
		from granted g join rel on rel.oid = g.oid join named w on w.oid = g.grantee where rel.nspname = 'auth' and g.grantee <> 0 group by rel.name, w.who`},
	{"schema_create", `
		select 'schema '||quote_ident(ours.nspname), w.who||' may make objects in it', format('revoke create on schema %I from %s', ours.nspname, w.who)
		from ours join pg_namespace n on n.oid = ours.oid, aclexplode(n.nspacl) a join named w on w.oid = a.grantee
		where a.privilege_type = 'CREATE' and a.grantee <> n.nspowner and a.grantee <> 0 and a.grantee not in (select oid from closed)`},
	{"sequence_grant", `
		select rel.name, format('%s has %s', w.who, string_agg(g.privilege_type, ', ')), format('revoke all on sequence %s from %s', rel.name, w.who)
		from opened g join rel on rel.oid = g.oid join named w on w.oid = g.grantee where rel.relkind = 'S' group by rel.name, w.who`},
	{"serial_key", `
		select rel.name||'.'||quote_ident(t.attname), 'members get its numbers from a sequence', 'take a uuid with default gen_random_uuid(), or revoke insert from members'
		from rel join pg_attribute t on t.attrelid = rel.oid and t.attnum > 0 and not t.attisdropped
		where rel.relkind in ('r', 'p') and (t.attidentity <> '' or exists (
		    select from pg_attrdef d join pg_depend p on p.classid = 'pg_attrdef'::regclass and p.objid = d.oid and p.refclassid = 'pg_class'::regclass
		      join pg_class s on s.oid = p.refobjid and s.relkind = 'S' where d.adrelid = rel.oid and d.adnum = t.attnum))
		  and exists (select from opened g where g.oid = rel.oid and g.privilege_type = 'INSERT')`},
	{"default_privileges", `
		select format('default privileges of %I%s', r.rolname, case when n.oid is null then '' else format(' in schema %I', n.nspname) end),
		  format('%s get %s on every %s that is made', w.who, string_agg(a.privilege_type, ', '),
		    case d.defaclobjtype when 'r' then 'table' when 'S' then 'sequence' when 'f' then 'function' when 'T' then 'type' else 'schema' end),
		  format('alter default privileges for role %I%s revoke all on %s from %s', r.rolname, case when n.oid is null then '' else format(' in schema %I', n.nspname) end,
		    case d.defaclobjtype when 'r' then 'tables' when 'S' then 'sequences' when 'f' then 'functions' when 'T' then 'types' else 'schemas' end, w.who)
		from pg_default_acl d join pg_roles r on r.oid = d.defaclrole left join pg_namespace n on n.oid = d.defaclnamespace, aclexplode(d.defaclacl) a join named w on w.oid = a.grantee
		where a.grantee <> d.defaclrole and a.grantee not in (select oid from closed)
		  -- Without a schema these are all of them, with those that everybody has anyway.
		  and not (d.defaclnamespace = 0 and d.defaclobjtype in ('f', 'T') and a.grantee = 0)
		group by r.rolname, n.oid, n.nspname, w.who, d.defaclobjtype`},
	{"role_power", `
		select quote_ident(r.rolname), 'it is '||p.what, format('alter role %I nosuperuser nobypassrls nocreaterole nocreatedb noreplication', r.rolname)
		from own join pg_roles r on r.oid = own.oid, lateral (select concat_ws(', ', case when r.rolsuper then 'SUPERUSER' end, case when r.rolbypassrls then 'BYPASSRLS' end,
		  case when r.rolcreaterole then 'CREATEROLE' end, case when r.rolcreatedb then 'CREATEDB' end, case when r.rolreplication then 'REPLICATION' end) as what) p where p.what <> ''
		union all
		select quote_ident(own.rolname), format('it is a member of %I, which gets past row security', r.rolname), format('revoke %I from %I', r.rolname, own.rolname)
		from own join member_of m on m.member = own.oid join pg_roles r on r.oid = m.roleid where r.rolsuper or r.rolbypassrls or r.rolcreaterole or r.rolreplication`},
	{"role_member", `
		select quote_ident(r.rolname), format('it can become %I', o.rolname), format('revoke %I from %I', o.rolname, r.rolname)
		from pg_roles r join member_of m on m.member = r.oid join pg_roles o on o.oid = m.roleid
		where not r.rolsuper and (r.rolcanlogin or r.rolname = 'bc_person') and (o.rolname in ('bourn_owner', 'bourn_records', 'bourn_auth', 'bourn_control', 'bourn_signal')
		  or r.oid in (select oid from own) and o.rolname ~ '^pg_' and o.rolname <> 'pg_database_owner')`},
	{"database_public", `
		select 'database '||quote_ident(d.datname), format('%s has %s', w.who, string_agg(a.privilege_type, ', ')),
		  format('revoke %s on database %I from %s', lower(string_agg(a.privilege_type, ', ')), d.datname, w.who)
		from pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a join named w on w.oid = a.grantee
		where d.datname = current_database() and a.grantee <> d.datdba
		  and (a.grantee = 0 or a.privilege_type <> 'CONNECT' and a.grantee not in (select oid from closed))
		group by d.datname, w.who`},
	{"extension", `
		select 'extension '||quote_ident(e.extname), x.why, format('drop extension %I', e.extname)
		from pg_extension e join (values
		  ('dblink', 'it connects to other servers, and back to this one'), ('postgres_fdw', 'it connects to other servers, and back to this one'),
		  ('file_fdw', 'it reads files of the server'), ('adminpack', 'it writes files of the server'), ('lo', 'it is about large objects, which no policy is about'),
		  ('http', 'it makes requests from the server'), ('pg_net', 'it makes requests from the server'), ('pg_cron', 'it runs statements as others'),
		  ('pg_background', 'it runs statements as others'), ('plsh', 'it runs programs'), ('pageinspect', 'it reads pages past every policy'),
		  ('pg_stat_statements', 'it keeps statements of others'), ('pgrowlocks', 'it tells which rows of others are locked'), ('pg_surgery', 'it changes rows past every policy'),
		  ('oracle_fdw', 'it connects to other servers'), ('mysql_fdw', 'it connects to other servers'), ('tds_fdw', 'it connects to other servers')
		) x(name, why) on x.name = e.extname
		union all
		select 'language '||quote_ident(lanname), 'its functions are not bound by the database', format('drop language %I', lanname)
		from pg_language where not lanpltrusted and lanname not in ('internal', 'c')
		union all
		select 'server '||quote_ident(srvname), 'it is another server', format('drop server %I cascade', srvname) from pg_foreign_server`},
	{"side_door", `
		select 'function pg_catalog.'||p.oid::regprocedure, w.who||' may execute it', format('revoke execute on function pg_catalog.%s from %s', p.oid::regprocedure, w.who)
		from pg_proc p join pg_namespace n on n.oid = p.pronamespace and n.nspname = 'pg_catalog', aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a join named w on w.oid = a.grantee
		where (p.proname ~ '^pg_stat_get_' or p.proname ~ '^pg_(current|last)_wal_' or p.proname ~ '^pg_control_'
		    or p.proname ~ '^pg_(lock_status|blocking_pids|safe_snapshot_blocking_pids|isolation_test_session_is_blocked)$'
		    or p.proname ~ '^pg_(prepared_xact|get_replication_slots|get_multixact_members|last_committed_xact)$'
		    or p.proname ~ '^pg_(xact_commit_timestamp|xact_commit_timestamp_origin|notification_queue_usage|get_wal_summarizer_state)$'
		    or p.proname ~ '^pg_(available_wal_summaries|wal_summary_contents|get_loaded_modules)$'
		    or p.proname ~ '^pg_(relation|table|indexes|total_relation|database|tablespace)_size$' or p.proname ~ '^currtid'
		    or p.proname ~ '^pg_(terminate|cancel)_backend$' or p.proname ~ '^pg_(try_)?advisory_' or p.proname = 'pg_logical_emit_message'
		    or p.proname ~ '^(lo_|loread$|lowrite$)' or p.proname = 'pg_export_snapshot'
		    -- Those that only a superuser has unless they are given away.
		    or p.proname ~ '^pg_(read_(binary_)?file|ls_dir|stat_file|reload_conf|rotate_logfile)$')
		  and w.who !~ '^pg_' and a.grantee <> p.proowner and a.grantee not in (select oid from closed)
		union all
		select 'pg_catalog.'||c.relname, format('%s may read it', w.who), format('revoke select on pg_catalog.%s from %s', c.relname, w.who)
		from pg_class c join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'pg_catalog', aclexplode(c.relacl) a join named w on w.oid = a.grantee
		where (c.relkind = 'v' and c.relname ~ '^pg_(stat_|statio_|locks$|prepared_xacts$|replication_slots$)' or c.relname ~ '^pg_(largeobject|authid$|user_mapping$|statistic$)')
		  and a.privilege_type = 'SELECT' and a.grantee <> c.relowner and w.who !~ '^pg_' and a.grantee not in (select oid from closed)`},
	{"leakproof_operator", `
		select 'database '||quote_ident(current_database()), format('%s functions are leakproof, on %s', count(*), string_agg(distinct on_types.name, ', ' order by on_types.name)),
		  'start the control plane again, or run bourn db migrate: both make them what they should be'
		from pg_proc p, lateral (select a.type::regtype::text as name from unnest(p.proargtypes) a(type) where a.type not in ('uuid'::regtype, 'timestamptz'::regtype) limit 1) on_types
		where p.proleakproof and to_regnamespace('app') is not null having count(*) > 0`},
	{"event_trigger", `
		select 'event trigger '||quote_ident(evtname), 'it runs '||evtfoid::regproc::text, format('drop event trigger %I', evtname) from pg_event_trigger`},
}

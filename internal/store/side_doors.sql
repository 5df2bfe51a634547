-- What SQL of an agent could see or stop others by, taken from everybody in this database,
-- run by an administrator at each start; it changes nothing where all is as it should be.
-- What PostgreSQL keeps open stands in docs. Patterns and not names: a newer server has
-- functions that this file does not know.
do $$
declare
  f regprocedure;
  v regclass;
  t record;
begin
  if pg_catalog.has_schema_privilege('public', 'public', 'usage, create') then
    revoke all on schema public from public;
  end if;
  for f in
    select p.oid from pg_catalog.pg_proc p
    where p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace
      and pg_catalog.has_function_privilege('public', p.oid, 'execute')
      and (
        -- What others do now, and how much they have done.
        p.proname ~ '^pg_stat_get_' or p.proname ~ '^pg_(current|last)_wal_' or p.proname ~ '^pg_control_'
        or p.proname ~ '^pg_(lock_status|blocking_pids|safe_snapshot_blocking_pids|isolation_test_session_is_blocked)$'
        or p.proname ~ '^pg_(prepared_xact|get_replication_slots|get_multixact_members|last_committed_xact)$'
        or p.proname ~ '^pg_(xact_commit_timestamp|xact_commit_timestamp_origin|notification_queue_usage|get_wal_summarizer_state)$'
        or p.proname ~ '^pg_(available_wal_summaries|wal_summary_contents|get_loaded_modules)$'
        -- How large tables are with the rows that one does not see, and where rows lie.
        or p.proname ~ '^pg_(relation|table|indexes|total_relation|database|tablespace)_size$' or p.proname ~ '^currtid'
        -- Ending and holding up others, also across databases.
        or p.proname ~ '^pg_(terminate|cancel)_backend$' or p.proname ~ '^pg_(try_)?advisory_' or p.proname = 'pg_logical_emit_message'
        -- What one session leaves for another.
        or p.proname ~ '^(lo_|loread$|lowrite$)' or p.proname = 'pg_export_snapshot')
  loop
    execute pg_catalog.format('revoke execute on function %s from public', f);
  end loop;
  for v in
    select c.oid from pg_catalog.pg_class c
    where c.relnamespace = 'pg_catalog'::pg_catalog.regnamespace
      and (c.relkind = 'v' and c.relname ~ '^pg_(stat_|statio_|locks$|prepared_xacts$|replication_slots$)' or c.relname ~ '^pg_largeobject')
      and pg_catalog.has_table_privilege('public', c.oid, 'select')
  loop
    execute pg_catalog.format('revoke select on %s from public', v);
  end loop;
  if pg_catalog.to_regnamespace('app') is null then
    return;
  end if;
  -- A condition whose operator is leakproof may be asked before the policies, of rows that
  -- nobody may see, and of statistics and indexes over all rows. EXPLAIN ANALYZE then tells
  -- whether it held for any: with text, that reads every hidden row, a letter at a time. Left
  -- are the types of keys and of times, whose indexes lists need.
  for f in
    select p.oid from pg_catalog.pg_proc p
    where p.proleakproof and exists (
      select from pg_catalog.unnest(p.proargtypes) a(type) where a.type not in ('uuid'::pg_catalog.regtype, 'timestamptz'::pg_catalog.regtype))
  loop
    execute pg_catalog.format('alter function %s not leakproof', f);
  end loop;
  -- Of words nothing is kept to estimate from: that estimate is made without an operator.
  for t in
    select a.attrelid, a.attnum, a.attname
    from pg_catalog.pg_attribute a join pg_catalog.pg_class c on c.oid = a.attrelid
    where c.relrowsecurity and c.relkind in ('r', 'p') and a.atttypid = 'pg_catalog.tsvector'::pg_catalog.regtype
      and a.attnum > 0 and not a.attisdropped and a.attstattarget is distinct from 0
  loop
    execute pg_catalog.format('alter table %s alter column %I set statistics 0', t.attrelid::pg_catalog.regclass, t.attname);
    delete from pg_catalog.pg_statistic s where s.starelid = t.attrelid and s.staattnum = t.attnum;
  end loop;
  -- For the policies' own comparisons of a text there are no statistics either then: of
  -- visibility one row in twenty is taken to have each, and each has its index.
  for t in
    select a.attrelid, a.attname
    from pg_catalog.pg_attribute a join pg_catalog.pg_class c on c.oid = a.attrelid
    where c.relnamespace = 'app'::pg_catalog.regnamespace and c.relrowsecurity and c.relkind in ('r', 'p') and a.attname = 'visibility'
      and a.attoptions is distinct from '{n_distinct=20}'
  loop
    execute pg_catalog.format('alter table %s alter column %I set (n_distinct = 20)', t.attrelid::pg_catalog.regclass, t.attname);
  end loop;
end
$$;

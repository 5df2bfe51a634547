-- +goose Up
-- What the control plane keeps. bourn_control does its own work here; members come
-- through the door as bourn_member and see what the policies say.

create schema control authorization bourn_owner;
create schema log authorization bourn_owner;
revoke all on schema control, log from public;
grant usage on schema control, log to bourn_control, bourn_member;

-- Documents with a history: the row with the highest version is in force. The value is
-- kept as the bytes that were saved.
create table control.metadata (
  key text not null check (key <> '' and length(key) <= 100),
  version bigint not null check (version > 0),
  value json not null,
  saved_at timestamptz not null default clock_timestamp(),
  saved_by text not null check (saved_by <> ''),
  primary key (key, version)
);

-- Diagnostics tokens, by the hash of the whole token alone.
create table control.diagnostics_tokens (
  id uuid primary key default gen_random_uuid(),
  name text not null check (name <> '' and length(name) <= 200),
  hash bytea not null unique check (octet_length(hash) = 32),
  created_at timestamptz not null default clock_timestamp(),
  created_by text not null check (created_by <> ''),
  expires_at timestamptz,
  revoked_at timestamptz
);

-- The log. An entry is never changed. link gives it its place in the chain, checkpoint
-- signs the chain up to a place, segment closes what was pruned.
create table log.entry (
  seq bigint primary key generated always as identity,
  id uuid not null unique,
  at timestamptz not null,
  body json not null
);
create index entry_by_run on log.entry ((body->>'run')) where body->>'run' is not null;
create index entry_by_effect on log.entry ((body->>'of')) where body->>'of' is not null;

create table log.link (
  position bigint primary key check (position > 0),
  seq bigint not null unique,
  hash bytea not null check (octet_length(hash) = 32)
);

create table log.checkpoint (
  position bigint primary key check (position > 0),
  at timestamptz not null,
  signed bytea not null,
  signature bytea not null check (octet_length(signature) = 64)
);

create table log.segment (
  last bigint primary key check (last > 0),
  at timestamptz not null,
  signed bytea not null,
  signature bytea not null check (octet_length(signature) = 64)
);

-- +goose StatementBegin
do $$
declare
  t record;
begin
  for t in select schemaname, tablename from pg_catalog.pg_tables where schemaname in ('control', 'log') loop
    execute format('alter table %I.%I owner to bourn_owner', t.schemaname, t.tablename);
    execute format('alter table %I.%I enable row level security', t.schemaname, t.tablename);
    execute format('alter table %I.%I force row level security', t.schemaname, t.tablename);
    execute format('create policy control on %I.%I to bourn_control using (true) with check (true)', t.schemaname, t.tablename);
    execute format('grant select, insert on %I.%I to bourn_control', t.schemaname, t.tablename);
    -- A connection without a session sees nothing.
    execute format('create policy session on %I.%I as restrictive to bourn_member using ((select auth.me()) is not null)', t.schemaname, t.tablename);
    execute format('create policy administrators on %I.%I for select to bourn_member using ((select auth.am_administrator()))', t.schemaname, t.tablename);
    execute format('grant select on %I.%I to bourn_member', t.schemaname, t.tablename);
  end loop;
end
$$;
-- +goose StatementEnd

grant update (revoked_at) on control.diagnostics_tokens to bourn_control;

-- Removes the entries up to a place that a signed closing names. There is no other way
-- to remove one.
create policy prune on log.entry to bourn_owner using (true);
create policy prune on log.link to bourn_owner using (true);
create policy prune on log.checkpoint to bourn_owner using (true);
create policy prune on log.segment for select to bourn_owner using (true);
-- +goose StatementBegin
create function log.prune(upto bigint) returns bigint
language plpgsql volatile security definer set search_path = ''
as $$
declare
  n bigint;
begin
  if not exists (select from log.segment s where s.last = upto) then
    raise exception 'no closing names that place' using errcode = 'P0002';
  end if;
  delete from log.entry e using log.link l where l.seq = e.seq and l.position <= upto;
  get diagnostics n = row_count;
  delete from log.link where position <= upto;
  delete from log.checkpoint where position < upto;
  return n;
end
$$;
-- +goose StatementEnd
alter function log.prune(bigint) owner to bourn_owner;
revoke all on function log.prune(bigint) from public;
grant execute on function log.prune(bigint) to bourn_control;

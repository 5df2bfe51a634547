-- +goose Up
-- The schema auth, the same in control and in records: who the members are, and which
-- session acts as whom until when. Nothing here is granted to anybody; the functions
-- below are the only way in. A session is known by the hash of its token alone.

create schema auth authorization bourn_auth;
revoke all on schema auth from public;

create table auth.members (
  id uuid primary key default gen_random_uuid(),
  name text not null check (name <> '' and length(name) <= 200),
  administrator boolean not null default false,
  os_uid bigint unique check (os_uid >= 0),
  created_at timestamptz not null default clock_timestamp(),
  removed_at timestamptz
);

create table auth.circles (
  id uuid primary key default gen_random_uuid(),
  name text not null check (name <> '' and length(name) <= 200),
  created_at timestamptz not null default clock_timestamp(),
  removed_at timestamptz
);

create table auth.circle_members (
  circle_id uuid not null references auth.circles,
  member_id uuid not null references auth.members,
  primary key (circle_id, member_id)
);
create index circle_members_by_member on auth.circle_members (member_id, circle_id);

create table auth.sessions (
  token_hash bytea primary key check (octet_length(token_hash) = 32),
  member_id uuid not null references auth.members,
  db_role name not null,
  kind text not null check (kind in ('sign-in', 'socket', 'agent')),
  issued_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  revoked_at timestamptz
);
create index sessions_by_member on auth.sessions (member_id) where revoked_at is null;
create index sessions_by_expiry on auth.sessions (expires_at);

alter table auth.members owner to bourn_auth;
alter table auth.circles owner to bourn_auth;
alter table auth.circle_members owner to bourn_auth;
alter table auth.sessions owner to bourn_auth;

alter table auth.members enable row level security;
alter table auth.members force row level security;
alter table auth.circles enable row level security;
alter table auth.circles force row level security;
alter table auth.circle_members enable row level security;
alter table auth.circle_members force row level security;
alter table auth.sessions enable row level security;
alter table auth.sessions force row level security;
create policy owner on auth.members to bourn_auth using (true) with check (true);
create policy owner on auth.circles to bourn_auth using (true) with check (true);
create policy owner on auth.circle_members to bourn_auth using (true) with check (true);
create policy owner on auth.sessions to bourn_auth using (true) with check (true);

-- The member that this connection acts as now, or null. The token is a setting of the
-- transaction, given as a parameter and never as a literal. clock_timestamp() and not
-- now(): a long transaction ends with its session. plpgsql and not SQL: before 18 an SQL
-- function is planned anew for each statement.
-- +goose StatementBegin
create function auth.me() returns uuid
language plpgsql stable security definer parallel safe set search_path = ''
as $$
declare
  token text := pg_catalog.current_setting('app.session', true);
  found uuid;
begin
  if token is null or token = '' then
    return null;
  end if;
  select s.member_id into found
    from auth.sessions s join auth.members m on m.id = s.member_id
    where s.token_hash = pg_catalog.sha256(pg_catalog.convert_to(token, 'UTF8'))
      and s.db_role = session_user
      and s.revoked_at is null
      and s.expires_at > pg_catalog.clock_timestamp()
      and m.removed_at is null;
  return found;
end
$$;
-- +goose StatementEnd

-- The circles of the member that this connection acts as now; empty without a session.
-- +goose StatementBegin
create function auth.my_circles() returns uuid[]
language plpgsql stable security definer parallel safe set search_path = ''
as $$
declare
  me uuid := auth.me();
begin
  if me is null then
    return '{}';
  end if;
  return array(
    select cm.circle_id from auth.circle_members cm join auth.circles c on c.id = cm.circle_id
      where cm.member_id = me and c.removed_at is null);
end
$$;
-- +goose StatementEnd

-- Whether the member that this connection acts as now is an administrator.
-- +goose StatementBegin
create function auth.am_administrator() returns boolean
language plpgsql stable security definer parallel safe set search_path = ''
as $$
declare
  me uuid := auth.me();
begin
  return me is not null and exists (select from auth.members m where m.id = me and m.administrator);
end
$$;
-- +goose StatementEnd

-- Makes a session for a member: hash is the SHA-256 of a token that only the caller has.
-- +goose StatementBegin
create function auth.issue(hash bytea, member uuid, role name, kind text, valid interval) returns timestamptz
language plpgsql volatile security definer set search_path = ''
as $$
declare
  until timestamptz := pg_catalog.clock_timestamp() + valid;
begin
  if valid <= interval '0' or valid > interval '31 days' then
    raise exception 'a session is valid for more than no time and at most 31 days' using errcode = '22023';
  end if;
  if not exists (select from auth.members m where m.id = member and m.removed_at is null) then
    raise exception 'no such member' using errcode = 'P0002';
  end if;
  if role not in ('bourn_member', 'bourn_app') and role not like 'bc\_m\_%' then
    raise exception 'no session is issued for that role' using errcode = '22023';
  end if;
  insert into auth.sessions (token_hash, member_id, db_role, kind, expires_at)
    values (hash, member, role, kind, until);
  return until;
end
$$;
-- +goose StatementEnd

-- Revokes one session. It tells whether there was one to revoke.
-- +goose StatementBegin
create function auth.revoke(hash bytea) returns boolean
language plpgsql volatile security definer set search_path = ''
as $$
begin
  update auth.sessions set revoked_at = pg_catalog.clock_timestamp() where token_hash = hash and revoked_at is null;
  return found;
end
$$;
-- +goose StatementEnd

-- Revokes all sessions of a member and returns how many there were.
-- +goose StatementBegin
create function auth.revoke_member(member uuid) returns integer
language plpgsql volatile security definer set search_path = ''
as $$
declare
  n integer;
begin
  update auth.sessions set revoked_at = pg_catalog.clock_timestamp() where member_id = member and revoked_at is null;
  get diagnostics n = row_count;
  return n;
end
$$;
-- +goose StatementEnd

-- Removes sessions that ended more than an hour ago and returns how many there were.
-- +goose StatementBegin
create function auth.sweep() returns integer
language plpgsql volatile security definer set search_path = ''
as $$
declare
  n integer;
begin
  delete from auth.sessions
    where expires_at < pg_catalog.clock_timestamp() - interval '1 hour'
       or revoked_at < pg_catalog.clock_timestamp() - interval '1 hour';
  get diagnostics n = row_count;
  return n;
end
$$;
-- +goose StatementEnd

-- Writes a member as the control plane knows it: the one way a member becomes an
-- administrator or stops being one. Whoever is removed loses every session at once.
-- +goose StatementBegin
create function auth.put_member(id uuid, name text, administrator boolean, os_uid bigint, removed boolean) returns void
language plpgsql volatile security definer set search_path = ''
as $$
begin
  insert into auth.members as m (id, name, administrator, os_uid, removed_at)
    values (put_member.id, put_member.name, put_member.administrator, put_member.os_uid,
      case when removed then pg_catalog.clock_timestamp() end)
    on conflict on constraint members_pkey do update
      set name = excluded.name, administrator = excluded.administrator, os_uid = excluded.os_uid,
        removed_at = case when removed then coalesce(m.removed_at, excluded.removed_at) end;
  if removed then
    perform auth.revoke_member(put_member.id);
  end if;
end
$$;
-- +goose StatementEnd

-- The members, removed ones too.
-- +goose StatementBegin
create function auth.roster() returns table (id uuid, name text, administrator boolean, os_uid bigint, removed boolean)
language plpgsql stable security definer set search_path = ''
as $$
begin
  return query select m.id, m.name, m.administrator, m.os_uid, m.removed_at is not null from auth.members m order by m.created_at, m.id;
end
$$;
-- +goose StatementEnd

alter function auth.me() owner to bourn_auth;
alter function auth.my_circles() owner to bourn_auth;
alter function auth.am_administrator() owner to bourn_auth;
alter function auth.issue(bytea, uuid, name, text, interval) owner to bourn_auth;
alter function auth.revoke(bytea) owner to bourn_auth;
alter function auth.revoke_member(uuid) owner to bourn_auth;
alter function auth.sweep() owner to bourn_auth;
alter function auth.put_member(uuid, text, boolean, bigint, boolean) owner to bourn_auth;
alter function auth.roster() owner to bourn_auth;
revoke all on all functions in schema auth from public;
grant usage on schema auth to bourn_control, bourn_member, bourn_app, bc_person;
grant execute on function auth.me(), auth.my_circles(), auth.am_administrator() to bourn_control, bourn_member, bourn_app, bc_person;
grant execute on function
  auth.issue(bytea, uuid, name, text, interval), auth.revoke(bytea), auth.revoke_member(uuid), auth.sweep(),
  auth.put_member(uuid, text, boolean, bigint, boolean), auth.roster()
  to bourn_control;

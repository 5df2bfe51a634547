-- +goose Up
-- Who may write, and the roster: members read all of it, administrators change it, and a
-- circle that comes from the host's registry is the control plane's alone to change.

alter table auth.sessions add column read_only boolean not null default false;
alter table auth.sessions add column backend integer; -- which alone may write with it; null for any of the role's
alter table auth.circles add column host_id text check (host_id <> '' and length(host_id) <= 200);
create unique index circles_by_host on auth.circles (host_id) where removed_at is null;

drop function auth.issue(bytea, uuid, name, text, interval);

-- Makes a session for a member: hash is the SHA-256 of a token that only the caller has. One
-- that is read_only changes nothing, whatever the member may. SQL can read the token of its own
-- connection: one that is issued for a backend gives another, which may only read, nothing more.
-- +goose StatementBegin
create function auth.issue(hash bytea, member uuid, role name, kind text, valid interval, read_only boolean default false, backend integer default null) returns timestamptz
language plpgsql volatile security definer set search_path = ''
as $$
declare
  until timestamptz := pg_catalog.clock_timestamp() + valid;
begin
  if valid <= interval '0' or valid > interval '31 days' then
    raise exception 'a session is valid for more than no time and at most 31 days' using errcode = '22023';
  end if;
  -- The row's lock: who is being removed at this moment gets no session that outlives it.
  perform from auth.members m where m.id = member and m.removed_at is null for share;
  if not found then
    raise exception 'no such member' using errcode = 'P0002';
  end if;
  if role not in ('bourn_member', 'bourn_app') and role not like 'bc\_m\_%' then
    raise exception 'no session is issued for that role' using errcode = '22023';
  end if;
  insert into auth.sessions (token_hash, member_id, db_role, kind, expires_at, read_only, backend)
    values (hash, member, role, kind, until, issue.read_only, issue.backend);
  return until;
end
$$;
-- +goose StatementEnd

-- As before, and whoever is removed is in no circle any more, also should they come back.
-- +goose StatementBegin
create or replace function auth.put_member(id uuid, name text, administrator boolean, os_uid bigint, removed boolean) returns void
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
    delete from auth.circle_members cm where cm.member_id = put_member.id;
    perform auth.revoke_member(put_member.id);
  end if;
end
$$;
-- +goose StatementEnd
delete from auth.circle_members cm using auth.members m where m.id = cm.member_id and m.removed_at is not null;

-- Whether this connection acts as a member now who may write with this session here. A parallel
-- worker is another backend.
-- +goose StatementBegin
create function auth.may_write() returns boolean
language plpgsql stable security definer parallel restricted set search_path = ''
as $$
begin
  if auth.me() is null then
    return false;
  end if;
  return exists (select from auth.sessions s
    where s.token_hash = pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.current_setting('app.session', true), 'UTF8'))
      and not s.read_only and (s.backend is null or s.backend = pg_catalog.pg_backend_pid()));
end
$$;
-- +goose StatementEnd

-- Whether this connection acts now as an administrator who may change the roster. A session
-- that was issued for an agent never may.
-- +goose StatementBegin
create function auth.may_change_roster() returns boolean
language plpgsql stable security definer parallel restricted set search_path = ''
as $$
begin
  if not auth.may_write() or not auth.am_administrator() then
    return false;
  end if;
  return exists (select from auth.sessions s
    where s.token_hash = pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.current_setting('app.session', true), 'UTF8'))
      and s.kind <> 'agent');
end
$$;
-- +goose StatementEnd

-- The roster as every member sees it, and nothing without a session. The views of the schema
-- app stand on these.
-- +goose StatementBegin
create function auth.seen_members() returns table (id uuid, name text, administrator boolean, created_at timestamptz, removed_at timestamptz)
language plpgsql stable security definer parallel safe set search_path = ''
as $$
begin
  if auth.me() is not null then
    return query select m.id, m.name, m.administrator, m.created_at, m.removed_at from auth.members m;
  end if;
end
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create function auth.seen_circles() returns table (id uuid, name text, from_host boolean, created_at timestamptz)
language plpgsql stable security definer parallel safe set search_path = ''
as $$
begin
  if auth.me() is not null then
    return query select c.id, c.name, c.host_id is not null, c.created_at from auth.circles c where c.removed_at is null;
  end if;
end
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create function auth.seen_circle_members() returns table (circle_id uuid, member_id uuid)
language plpgsql stable security definer parallel safe set search_path = ''
as $$
begin
  if auth.me() is not null then
    return query select cm.circle_id, cm.member_id from auth.circle_members cm
      join auth.circles c on c.id = cm.circle_id join auth.members m on m.id = cm.member_id
      where c.removed_at is null and m.removed_at is null;
  end if;
end
$$;
-- +goose StatementEnd

-- What every change of a circle by an administrator begins with: it is refused, or the circle
-- is there, is not the host's, and is locked until the change is made.
-- +goose StatementBegin
create function auth.change_circle(circle uuid) returns void
language plpgsql volatile security definer set search_path = ''
as $$
declare
  of_host boolean;
begin
  if not auth.may_change_roster() then
    raise exception 'only an administrator, and no agent, changes the roster' using errcode = '42501';
  end if;
  select c.host_id is not null into of_host from auth.circles c where c.id = circle and c.removed_at is null for update;
  if not found then
    raise exception 'no such circle' using errcode = 'P0002';
  end if;
  if of_host then
    raise exception 'the circle is the host''s' using errcode = 'BN001';
  end if;
end
$$;
-- +goose StatementEnd

-- Makes a circle, or gives one another name. The id of one that was removed is never given
-- again.
-- +goose StatementBegin
create function auth.put_circle(id uuid, name text) returns void
language plpgsql volatile security definer set search_path = ''
as $$
begin
  if not auth.may_change_roster() then
    raise exception 'only an administrator, and no agent, changes the roster' using errcode = '42501';
  end if;
  insert into auth.circles (id, name) values (put_circle.id, put_circle.name) on conflict on constraint circles_pkey do nothing;
  if not found then
    perform auth.change_circle(put_circle.id);
    update auth.circles c set name = put_circle.name where c.id = put_circle.id;
  end if;
end
$$;
-- +goose StatementEnd

-- Removes a circle: nobody is in it from now on.
-- +goose StatementBegin
create function auth.remove_circle(id uuid) returns void
language plpgsql volatile security definer set search_path = ''
as $$
begin
  perform auth.change_circle(remove_circle.id);
  delete from auth.circle_members cm where cm.circle_id = remove_circle.id;
  update auth.circles c set removed_at = pg_catalog.clock_timestamp() where c.id = remove_circle.id;
end
$$;
-- +goose StatementEnd

-- Puts a member into a circle. It is no error where they are in it already.
-- +goose StatementBegin
create function auth.put_circle_member(circle uuid, member uuid) returns void
language plpgsql volatile security definer set search_path = ''
as $$
begin
  perform auth.change_circle(circle);
  perform from auth.members m where m.id = member and m.removed_at is null for share;
  if not found then
    raise exception 'no such member' using errcode = 'P0002';
  end if;
  insert into auth.circle_members (circle_id, member_id) values (circle, member) on conflict do nothing;
end
$$;
-- +goose StatementEnd

-- Takes a member out of a circle: from the next statement on they see nothing of it.
-- +goose StatementBegin
create function auth.remove_circle_member(circle uuid, member uuid) returns void
language plpgsql volatile security definer set search_path = ''
as $$
begin
  perform auth.change_circle(circle);
  delete from auth.circle_members cm where cm.circle_id = circle and cm.member_id = member;
  if not found then
    raise exception 'no such member of the circle' using errcode = 'P0002';
  end if;
end
$$;
-- +goose StatementEnd

-- Writes a circle with exactly these members, as the control plane has it from the host's
-- registry, where host_id is its id there, or from the other database. One that is removed
-- has nobody in it.
-- +goose StatementBegin
create function auth.write_circle(id uuid, name text, host_id text, removed boolean, members uuid[]) returns void
language plpgsql volatile security definer set search_path = ''
as $$
begin
  insert into auth.circles as c (id, name, host_id, removed_at)
    values (write_circle.id, write_circle.name, write_circle.host_id, case when removed then pg_catalog.clock_timestamp() end)
    on conflict on constraint circles_pkey do update
      set name = excluded.name, host_id = excluded.host_id,
        removed_at = case when removed then coalesce(c.removed_at, excluded.removed_at) end;
  delete from auth.circle_members cm where cm.circle_id = write_circle.id and (removed or cm.member_id <> all (coalesce(members, '{}')));
  if not removed then
    insert into auth.circle_members (circle_id, member_id)
      select write_circle.id, m.id from auth.members m where m.id = any (members) and m.removed_at is null for share on conflict do nothing;
  end if;
end
$$;
-- +goose StatementEnd

-- The circles with their members, removed ones too.
-- +goose StatementBegin
create function auth.circle_roster() returns table (id uuid, name text, host_id text, removed boolean, members uuid[])
language plpgsql stable security definer set search_path = ''
as $$
begin
  return query select c.id, c.name, c.host_id, c.removed_at is not null,
      array(select cm.member_id from auth.circle_members cm join auth.members m on m.id = cm.member_id
        where cm.circle_id = c.id and m.removed_at is null order by cm.member_id)
    from auth.circles c order by c.created_at, c.id;
end
$$;
-- +goose StatementEnd

alter function auth.issue(bytea, uuid, name, text, interval, boolean, integer) owner to bourn_auth;
alter function auth.may_write() owner to bourn_auth;
alter function auth.may_change_roster() owner to bourn_auth;
alter function auth.seen_members() owner to bourn_auth;
alter function auth.seen_circles() owner to bourn_auth;
alter function auth.seen_circle_members() owner to bourn_auth;
alter function auth.change_circle(uuid) owner to bourn_auth;
alter function auth.put_circle(uuid, text) owner to bourn_auth;
alter function auth.remove_circle(uuid) owner to bourn_auth;
alter function auth.put_circle_member(uuid, uuid) owner to bourn_auth;
alter function auth.remove_circle_member(uuid, uuid) owner to bourn_auth;
alter function auth.write_circle(uuid, text, text, boolean, uuid[]) owner to bourn_auth;
alter function auth.circle_roster() owner to bourn_auth;
revoke all on all functions in schema auth from public;
grant execute on function auth.may_write(), auth.may_change_roster() to bourn_control, bourn_member, bourn_app, bc_person;
grant execute on function auth.seen_members(), auth.seen_circles(), auth.seen_circle_members() to bourn_app, bc_person;
grant execute on function
  auth.put_circle(uuid, text), auth.remove_circle(uuid), auth.put_circle_member(uuid, uuid), auth.remove_circle_member(uuid, uuid)
  to bourn_app;
grant execute on function
  auth.issue(bytea, uuid, name, text, interval, boolean, integer),
  auth.write_circle(uuid, text, text, boolean, uuid[]), auth.circle_roster()
  to bourn_control;

-- +goose Up
-- How the control plane ends connections of agents: their session is over, and so is what
-- they run.

-- Those of the sessions with these hashes that are live.
-- +goose StatementBegin
create function auth.live(hashes bytea[]) returns setof bytea
language plpgsql stable security definer set search_path = ''
as $$
begin
  return query select s.token_hash from auth.sessions s join auth.members m on m.id = s.member_id
    where s.token_hash = any (hashes) and s.revoked_at is null and s.expires_at > pg_catalog.clock_timestamp() and m.removed_at is null;
end
$$;
-- +goose StatementEnd
alter function auth.live(bytea[]) owner to bourn_auth;

-- Ends a connection, whatever it does at the moment: one of a role of agents' alone. It tells
-- whether there was one. bourn_signal, which nobody is, has the right, and nobody else gets it.
-- +goose StatementBegin
create function auth.end_backend(pid integer) returns boolean
language plpgsql volatile security definer set search_path = ''
as $$
declare
  who name;
begin
  select pg_catalog.pg_get_userbyid(a.usesysid) into who from pg_catalog.pg_stat_get_activity(end_backend.pid) a;
  if who is null then
    return false;
  end if;
  if who not like 'bc\_m\_%' then
    raise exception 'only a connection of an agent''s role is ended' using errcode = '42501';
  end if;
  return pg_catalog.pg_terminate_backend(end_backend.pid);
end
$$;
-- +goose StatementEnd
alter function auth.end_backend(integer) owner to bourn_signal;
grant execute on function pg_catalog.pg_stat_get_activity(integer), pg_catalog.pg_terminate_backend(integer, bigint) to bourn_signal;

revoke all on function auth.live(bytea[]), auth.end_backend(integer) from public;
grant execute on function auth.live(bytea[]), auth.end_backend(integer) to bourn_control;

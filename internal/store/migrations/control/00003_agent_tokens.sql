-- +goose Up
-- Tokens with which a client outside asks for an agent's tools over HTTP, by the hash of
-- the whole token alone.
create table control.agent_tokens (
  id uuid primary key default gen_random_uuid(),
  name text not null check (name <> '' and length(name) <= 200),
  hash bytea not null unique check (octet_length(hash) = 32),
  member uuid not null,
  agent text not null check (agent <> '' and length(agent) <= 64),
  dir text not null check (dir like '/%' and length(dir) <= 4096),
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  revoked_at timestamptz
);
alter table control.agent_tokens owner to bourn_owner;
alter table control.agent_tokens enable row level security;
alter table control.agent_tokens force row level security;
create policy control on control.agent_tokens to bourn_control using (true) with check (true);
grant select, insert on control.agent_tokens to bourn_control;
grant update (revoked_at) on control.agent_tokens to bourn_control;
create policy session on control.agent_tokens as restrictive to bourn_member using ((select auth.me()) is not null);
create policy administrators on control.agent_tokens for select to bourn_member using ((select auth.am_administrator()));
grant select on control.agent_tokens to bourn_member;

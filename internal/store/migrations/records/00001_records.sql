-- +goose Up
-- The company's record. Every row belongs to a member; who sees it is for the policies
-- alone to say.

create schema app authorization bourn_records;
revoke all on schema app from public;
grant usage on schema app to bourn_app, bc_person;
grant usage on schema auth to bourn_records;

create table app.record (
  id uuid primary key default gen_random_uuid(),
  collection text not null check (collection <> '' and length(collection) <= 100),
  owner_id uuid not null default auth.me(),
  circle_id uuid,
  visibility text not null default 'private' check (visibility in ('private', 'circle', 'company')),
  body jsonb not null default '{}',
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  deleted_at timestamptz,
  check ((visibility = 'circle') = (circle_id is not null))
);
create index record_by_owner on app.record (owner_id, created_at desc);
create index record_by_circle on app.record (circle_id, created_at desc) where visibility = 'circle';
create index record_of_company on app.record (created_at desc) where visibility = 'company';
create index record_by_age on app.record (created_at desc);

alter table app.record owner to bourn_records;
alter table app.record enable row level security;
alter table app.record force row level security;

create policy session on app.record as restrictive
  using ((select auth.me()) is not null) with check ((select auth.me()) is not null);
create policy visible on app.record for select using (
  owner_id = (select auth.me())
  or visibility = 'company'
  or visibility = 'circle' and circle_id = any ((select auth.my_circles())::uuid[]));
create policy own_new on app.record for insert with check (
  owner_id = (select auth.me())
  and (circle_id is null or circle_id = any ((select auth.my_circles())::uuid[])));
create policy own_changed on app.record for update
  using (owner_id = (select auth.me()))
  with check (
    owner_id = (select auth.me())
    and (circle_id is null or circle_id = any ((select auth.my_circles())::uuid[])));

grant select on app.record to bourn_app, bc_person;
grant insert (collection, owner_id, circle_id, visibility, body) on app.record to bourn_app, bc_person;
grant update (collection, circle_id, visibility, body, updated_at, deleted_at) on app.record to bourn_app, bc_person;
grant execute on function auth.me() to bourn_records;

-- +goose Up
-- The built-in record: the company, who is in it, what is kept and what is to be done. Every
-- table has the restrictive policies of a session and of one that may write; the permissive
-- ones below them say who sees and changes what.

grant execute on function auth.me(), auth.my_circles(), auth.may_write(), auth.may_change_roster() to bourn_records;

-- +goose StatementBegin
-- What the server says of a row's change, and no member.
create function app.stamp() returns trigger
language plpgsql set search_path = ''
as $$
begin
  new.updated_at := pg_catalog.clock_timestamp();
  if new.deleted_at is not null then
    new.deleted_at := coalesce(old.deleted_at, new.updated_at);
  end if;
  return new;
end
$$;
-- +goose StatementEnd
alter function app.stamp() owner to bourn_records;
revoke all on function app.stamp() from public;

-- Records: what is deleted is its owner's alone to see, and to take back. Words and collections
-- have no index: their operators are not leakproof, so a member's search reads the rows that
-- the member sees.
alter table app.record add column search tsvector generated always as (to_tsvector('simple'::regconfig, body)) stored;
alter table app.record add constraint record_body_size check (octet_length(body::text) <= 262144) not valid;
alter table app.record add constraint record_body_object check (jsonb_typeof(body) = 'object') not valid;
create trigger stamp before update on app.record for each row execute function app.stamp();

create policy writer_new on app.record as restrictive for insert with check ((select auth.may_write()));
create policy writer_changed on app.record as restrictive for update
  using ((select auth.may_write())) with check ((select auth.may_write()));
drop policy visible on app.record;
create policy visible on app.record for select using (
  owner_id = (select auth.me())
  or visibility = 'company' and deleted_at is null
  or visibility = 'circle' and deleted_at is null and circle_id = any ((select auth.my_circles())::uuid[]));
revoke update (updated_at) on app.record from bourn_app, bc_person;

-- The company: one row once it has a name, written by auth.change_company alone.
create table app.company (
  id boolean primary key default true check (id),
  name text not null default '' check (length(name) <= 200),
  updated_at timestamptz not null default clock_timestamp()
);
alter table app.company owner to bourn_records;
alter table app.company enable row level security;
alter table app.company force row level security;
create policy session on app.company as restrictive
  using ((select auth.me()) is not null) with check ((select auth.me()) is not null);
create policy writer_new on app.company as restrictive for insert with check ((select auth.may_write()));
create policy writer_changed on app.company as restrictive for update
  using ((select auth.may_write())) with check ((select auth.may_write()));
create policy visible on app.company for select using ((select auth.me()) is not null);
create policy administrators_new on app.company for insert to bourn_records with check ((select auth.may_change_roster()));
create policy administrators on app.company for update to bourn_records
  using ((select auth.may_change_roster())) with check ((select auth.may_change_roster()));
grant select on app.company to bourn_app, bc_person;

-- Gives the company its name.
-- +goose StatementBegin
create function auth.change_company(name text) returns void
language plpgsql volatile security definer set search_path = ''
as $$
begin
  if not auth.may_change_roster() then
    raise exception 'only an administrator, and no agent, changes the roster' using errcode = '42501';
  end if;
  insert into app.company (name) values (change_company.name)
    on conflict on constraint company_pkey do update set name = excluded.name, updated_at = pg_catalog.clock_timestamp();
end
$$;
-- +goose StatementEnd
alter function auth.change_company(text) owner to bourn_records;
revoke all on function auth.change_company(text) from public;
grant execute on function auth.change_company(text) to bourn_app;

-- The roster, for every member to read.
create view app.member with (security_invoker = true, security_barrier = true) as
  select id, name, administrator, created_at, removed_at from auth.seen_members();
create view app.circle with (security_invoker = true, security_barrier = true) as
  select id, name, from_host, created_at from auth.seen_circles();
create view app.circle_member with (security_invoker = true, security_barrier = true) as
  select circle_id, member_id from auth.seen_circle_members();
alter view app.member owner to bourn_records;
alter view app.circle owner to bourn_records;
alter view app.circle_member owner to bourn_records;
grant select on app.member, app.circle, app.circle_member to bourn_app, bc_person;

-- Tasks. Whom one is assigned to sees it, and says how it stands; the rest is its owner's.
-- A task stays with its record.
create table app.task (
  id uuid primary key default gen_random_uuid(),
  record_id uuid,
  owner_id uuid not null default auth.me(),
  assignee_id uuid,
  circle_id uuid,
  visibility text not null default 'private' check (visibility in ('private', 'circle', 'company')),
  title text not null check (title <> '' and length(title) <= 500),
  status text not null default 'open' check (status in ('open', 'doing', 'done', 'dropped')),
  due date check (due between '1900-01-01' and '2999-12-31'), -- and so not infinite
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  deleted_at timestamptz,
  check ((visibility = 'circle') = (circle_id is not null))
);
create index task_by_owner on app.task (owner_id, created_at desc);
create index task_by_assignee on app.task (assignee_id, created_at desc);
create index task_by_circle on app.task (circle_id, created_at desc) where visibility = 'circle';
create index task_of_company on app.task (created_at desc) where visibility = 'company';
create index task_by_age on app.task (created_at desc);
create index task_by_record on app.task (record_id, created_at desc) where record_id is not null;
alter table app.task owner to bourn_records;
alter table app.task enable row level security;
alter table app.task force row level security;

create policy session on app.task as restrictive
  using ((select auth.me()) is not null) with check ((select auth.me()) is not null);
create policy writer_new on app.task as restrictive for insert with check ((select auth.may_write()));
create policy writer_changed on app.task as restrictive for update
  using ((select auth.may_write())) with check ((select auth.may_write()));
create policy visible on app.task for select using (
  owner_id = (select auth.me())
  or assignee_id = (select auth.me()) and deleted_at is null
  or visibility = 'company' and deleted_at is null
  or visibility = 'circle' and deleted_at is null and circle_id = any ((select auth.my_circles())::uuid[]));
-- A foreign key would tell which records there are; what the owner sees, it may name.
create policy own_new on app.task for insert with check (
  owner_id = (select auth.me())
  and (circle_id is null or circle_id = any ((select auth.my_circles())::uuid[]))
  and (record_id is null or exists (select from app.record r where r.id = record_id and r.deleted_at is null))
  and (assignee_id is null or exists (select from app.member m where m.id = assignee_id and m.removed_at is null)));
create policy own_changed on app.task for update
  using (owner_id = (select auth.me()))
  with check (
    owner_id = (select auth.me())
    and (circle_id is null or circle_id = any ((select auth.my_circles())::uuid[]))
    and (assignee_id is null or exists (select from app.member m where m.id = assignee_id)));
-- Of one's own task this must not hold: it would pass what the policy above refuses.
create policy assigned_changed on app.task for update
  using (assignee_id = (select auth.me()) and owner_id <> (select auth.me()) and deleted_at is null)
  with check (assignee_id = (select auth.me()) and owner_id <> (select auth.me()) and deleted_at is null);

-- Of a task that is not theirs, whom it is assigned to changes the status alone: a policy
-- does not know what a row was.
-- +goose StatementBegin
create function app.assigned() returns trigger
language plpgsql set search_path = ''
as $$
begin
  if old.owner_id <> auth.me() and (new.record_id, new.owner_id, new.assignee_id, new.circle_id, new.visibility, new.title, new.due, new.created_at, new.deleted_at)
      is distinct from (old.record_id, old.owner_id, old.assignee_id, old.circle_id, old.visibility, old.title, old.due, old.created_at, old.deleted_at) then
    raise exception 'whom a task is assigned to changes its status alone' using errcode = '42501';
  end if;
  return new;
end
$$;
-- +goose StatementEnd
alter function app.assigned() owner to bourn_records;
revoke all on function app.assigned() from public;
create trigger assigned before update on app.task for each row execute function app.assigned();
create trigger stamp before update on app.task for each row execute function app.stamp();

grant select on app.task to bourn_app, bc_person;
grant insert (record_id, owner_id, assignee_id, circle_id, visibility, title, status, due) on app.task to bourn_app, bc_person;
grant update (assignee_id, circle_id, visibility, title, status, due, deleted_at) on app.task to bourn_app, bc_person;

-- The roles of Bourn, run by an administrator at each start: it changes nothing where all is
-- as it should be. Owners cannot log in, and who logs in owns nothing; none of them
-- bypasses row security, makes roles or makes databases.
--
--   bourn_owner    owns the tables of the database control
--   bourn_records  owns the tables of the database records
--   bourn_auth     owns the schema auth in both
--   bourn_control  the control plane's own work
--   bourn_member   what a member does in control, through the door
--   bourn_app      what a member does in records, through the door
--   bourn_signal   ends connections of agents' roles, by a function that looks at the role
--   bc_person      the group of the roles that persons' agents connect as, bc_m_*
do $$
declare
  wanted record;
begin
  -- Two daemons that start at once wait for each other.
  perform pg_advisory_xact_lock(7720, 1);
  for wanted in
    select * from (values
      ('bourn_owner', false), ('bourn_records', false), ('bourn_auth', false), ('bourn_signal', false), ('bc_person', false),
      ('bourn_control', true), ('bourn_member', true), ('bourn_app', true)
    ) as r(name, login)
  loop
    if not exists (select from pg_catalog.pg_roles where rolname = wanted.name) then
      execute format('create role %I', wanted.name);
    end if;
    if exists (
      select from pg_catalog.pg_roles where rolname = wanted.name
        and (rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolreplication or rolcanlogin <> wanted.login or not rolinherit)
    ) then
      execute format('alter role %I nosuperuser nobypassrls nocreaterole nocreatedb noreplication inherit %s',
        wanted.name, case when wanted.login then 'login' else 'nologin' end);
    end if;
  end loop;
  if not pg_catalog.pg_has_role('bourn_signal', 'pg_signal_backend', 'usage') then
    grant pg_signal_backend to bourn_signal;
  end if;
  -- An abandoned transaction must not hold what others wait for.
  alter role bourn_control set idle_in_transaction_session_timeout = '60s';
  alter role bourn_member set idle_in_transaction_session_timeout = '60s';
  alter role bourn_app set idle_in_transaction_session_timeout = '60s';
  alter role bourn_member set statement_timeout = '30s';
  alter role bourn_app set statement_timeout = '30s';
end
$$;

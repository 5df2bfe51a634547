-- What SQL of an agent could see or stop others by, taken from everybody in this database,
-- run by an administrator at each start. What PostgreSQL keeps open stands in docs.
revoke all on schema public from public;
revoke execute on function
  pg_catalog.pg_stat_get_activity(integer),
  pg_catalog.pg_terminate_backend(integer, bigint),
  pg_catalog.pg_cancel_backend(integer),
  pg_catalog.lo_create(oid), pg_catalog.lo_creat(integer), pg_catalog.lo_from_bytea(oid, bytea),
  pg_catalog.lo_open(oid, integer), pg_catalog.lo_unlink(oid), pg_catalog.lo_put(oid, bigint, bytea),
  pg_catalog.lo_get(oid), pg_catalog.lo_get(oid, bigint, integer),
  pg_catalog.pg_advisory_lock(bigint), pg_catalog.pg_advisory_lock(integer, integer),
  pg_catalog.pg_advisory_lock_shared(bigint), pg_catalog.pg_advisory_lock_shared(integer, integer),
  pg_catalog.pg_try_advisory_lock(bigint), pg_catalog.pg_try_advisory_lock(integer, integer),
  pg_catalog.pg_try_advisory_lock_shared(bigint), pg_catalog.pg_try_advisory_lock_shared(integer, integer),
  pg_catalog.pg_advisory_xact_lock(bigint), pg_catalog.pg_advisory_xact_lock(integer, integer),
  pg_catalog.pg_advisory_xact_lock_shared(bigint), pg_catalog.pg_advisory_xact_lock_shared(integer, integer),
  pg_catalog.pg_try_advisory_xact_lock(bigint), pg_catalog.pg_try_advisory_xact_lock(integer, integer),
  pg_catalog.pg_try_advisory_xact_lock_shared(bigint), pg_catalog.pg_try_advisory_xact_lock_shared(integer, integer)
  from public;
revoke select on pg_catalog.pg_stat_activity, pg_catalog.pg_locks, pg_catalog.pg_stat_replication, pg_catalog.pg_prepared_xacts from public;

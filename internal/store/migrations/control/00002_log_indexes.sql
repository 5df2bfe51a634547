-- +goose Up
-- What the log is asked by, each with seq behind it: the lines that fit are found in their
-- order, also in a log of millions of entries. No index is partial: PostgreSQL would not
-- know from one how rare a value is.
drop index log.entry_by_run;
drop index log.entry_by_effect;
create index entry_by_run on log.entry ((body->>'run'), seq);
create index entry_by_agent on log.entry ((body->>'agent'), seq);
create index entry_by_kind on log.entry ((body->>'kind'), seq);
create index entry_by_outcome on log.entry ((body->>'outcome'), seq);
create index entry_by_age on log.entry (at);

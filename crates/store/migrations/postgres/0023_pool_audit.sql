-- The result of the last nightly audit of a pool, in JSON: when, how many decisions, how many violations.
alter table tidemill_pool add column audit text;

-- The circuit breaker of a pool, as JSON. Null: closed, and never changed. A program of the previous release neither reads nor writes it.
alter table tidemill_pool add column breaker text;

-- The kernel, the pid, and the start of a process, so that another process on the same machine notices its death at once. Null: unknown.
alter table tidemill_process add column incarnation text;

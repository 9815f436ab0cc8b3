-- Instants are integers: microseconds since 1970-01-01 UTC. Ids are the usual text of a UUID.
-- Processes: one row per run of a program, kept alive by heartbeats.
create table tidemill_process (
    id text primary key,
    name text not null,
    host text not null,
    pid integer not null,
    version text not null,
    state text not null check (state in ('live', 'stopped', 'dead')),
    started_at integer not null,
    heartbeat_at integer not null,
    until integer not null,
    ended_at integer,
    check ((state = 'live') = (ended_at is null))
) strict, without rowid;

-- Leases: who may act for which thing. The owner is no foreign key: rows of ended processes are pruned, and
-- an owner that is not there counts as gone.
create table tidemill_lease (
    kind text not null,
    name text not null,
    epoch integer not null check (epoch >= 0),
    owner text,
    until integer,
    acquired_at integer,
    primary key (kind, name),
    check (owner is not null or (until is null and acquired_at is null))
) strict, without rowid;

create index tidemill_lease_owner on tidemill_lease (owner) where owner is not null;

-- Audit: written in the transaction of the change it tells of, and never changed.
create table tidemill_audit (
    id integer primary key autoincrement,
    at integer not null,
    actor text not null,
    role text not null,
    action text not null,
    object text not null,
    from_state text,
    to_state text,
    reason text,
    request_id text
) strict;

create index tidemill_audit_object on tidemill_audit (object, id);

create trigger tidemill_audit_no_update before update on tidemill_audit
begin
    select raise(abort, 'tidemill_audit is append-only');
end;

-- Retention may remove what is older than the 400 days that are promised.
create trigger tidemill_audit_no_early_delete before delete on tidemill_audit
    when old.at > (unixepoch() - 400 * 86400) * 1000000
begin
    select raise(abort, 'tidemill_audit is append-only');
end;

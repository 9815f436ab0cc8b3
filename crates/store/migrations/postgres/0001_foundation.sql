-- Processes: one row per run of a program, kept alive by heartbeats. `until` is deliberately not indexed:
-- an update of an indexed column could not be done in place, and the table is small.
create table tidemill_process (
    id uuid primary key,
    name text not null,
    host text not null,
    pid bigint not null,
    version text not null,
    state text not null check (state in ('live', 'stopped', 'dead')),
    started_at timestamptz not null,
    heartbeat_at timestamptz not null,
    until timestamptz not null,
    ended_at timestamptz,
    check ((state = 'live') = (ended_at is null))
) with (fillfactor = 50);

-- Leases: who may act for which thing. The owner is no foreign key: rows of ended processes are pruned, and
-- an owner that is not there counts as gone.
create table tidemill_lease (
    kind text not null,
    name text not null,
    epoch bigint not null check (epoch >= 0),
    owner uuid,
    until timestamptz,
    acquired_at timestamptz,
    primary key (kind, name),
    check (owner is not null or (until is null and acquired_at is null))
) with (fillfactor = 50);

create index tidemill_lease_owner on tidemill_lease (owner) where owner is not null;

-- Audit: written in the transaction of the change it tells of, and never changed.
create table tidemill_audit (
    id bigint generated always as identity primary key,
    at timestamptz not null,
    actor text not null,
    role text not null,
    action text not null,
    object text not null,
    from_state text,
    to_state text,
    reason text,
    request_id text
);

create index tidemill_audit_object on tidemill_audit (object, id);

create function tidemill_audit_is_append_only() returns trigger language plpgsql as $$
begin
    raise exception 'tidemill_audit is append-only' using errcode = 'integrity_constraint_violation';
end
$$;

create trigger tidemill_audit_no_update before update or truncate on tidemill_audit
    for each statement execute function tidemill_audit_is_append_only();

-- Retention may remove what is older than the 400 days that are promised.
create trigger tidemill_audit_no_early_delete before delete on tidemill_audit
    for each row when (old.at > now() - interval '400 days') execute function tidemill_audit_is_append_only();

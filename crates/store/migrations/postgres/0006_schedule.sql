-- Schedules: when a job is launched by itself, in the words of its definition; `windows` is a list and `parameters`
-- an object in JSON. `next_at` is the next tick that nothing was decided about, `look_at` when to look at it: later
-- than the tick while it waits. A schedule that no program defines any more stays.
create table tidemill_schedule (
    name text primary key,
    job text not null,
    cron text not null,
    zone text not null,
    windows text not null,
    outside text not null,
    missed text not null,
    overlap text not null,
    grace_seconds bigint not null check (grace_seconds >= 0),
    parameters text not null,
    fingerprint text not null,
    defined_at timestamptz not null,
    next_at timestamptz,
    is_waiting boolean not null default false,
    look_at timestamptz,
    last_tick_at timestamptz,
    paused_at timestamptz,
    paused_by text,
    pause_reason text,
    check ((next_at is null) = (look_at is null)),
    check ((paused_at is null) = (paused_by is null)),
    check ((paused_at is null) = (pause_reason is null))
);

create index tidemill_schedule_due on tidemill_schedule (look_at) where paused_at is null;

-- Ticks: what became of each. Written in the transaction that launches the execution, so that no tick fires twice.
create table tidemill_schedule_tick (
    schedule text not null references tidemill_schedule (name) on delete cascade,
    tick_at timestamptz not null,
    outcome text not null check (outcome in ('fired', 'skipped', 'missed', 'refused')),
    reason text,
    execution_id bigint,
    at timestamptz not null,
    primary key (schedule, tick_at),
    check ((outcome = 'fired') = (execution_id is not null))
);

-- From an execution that runs to the schedule that it is of.
create index tidemill_schedule_tick_execution on tidemill_schedule_tick (execution_id)
    where execution_id is not null;

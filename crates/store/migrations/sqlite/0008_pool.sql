-- Pools. `settings` is what people set, in JSON; the columns behind it repeat what other tools read. `version` is the
-- number of the last pass that changed the pool; the row's lock is what serialises passes. What follows `version` is
-- cached under that lock, and the auditor compares it with the tickets. The first version is the instant of the making,
-- so that a pool which is made again cannot be taken for the one that was. `forgotten` is the last version of which
-- tickets were deleted: who knows only older ones reads all that is live. `log_from` is where the log begins.
create table tidemill_pool (
    name text primary key not null,
    external_id integer unique,
    settings text not null,
    db_type text not null,
    max_units integer not null check (max_units >= 0),
    threshold_percent integer not null check (threshold_percent between 1 and 100),
    default_units integer not null check (default_units > 0),
    min_units integer not null check (min_units > 0),
    version integer not null check (version >= 0),
    forgotten integer not null,
    log_from integer not null,
    usage integer not null default 0 check (usage >= 0),
    active integer not null default 0 check (active >= 0),
    waiting integer not null default 0 check (waiting >= 0),
    suspect integer not null default 0 check (suspect >= 0),
    created_at integer not null,
    changed_at integer not null
) strict, without rowid;

-- Tickets: requests in the queue, the leases that they become, and for a while what became of those. `detail` is the
-- ticket in JSON; the other columns repeat what is searched and what other tools read. `version` is the pass that last
-- changed it. `expires_at` is moved on by heartbeats, which take no lock on the pool.
create table tidemill_pool_ticket (
    id text primary key not null,
    pool text not null references tidemill_pool (name) on delete cascade,
    version integer not null,
    state text not null
        check (state in ('waiting', 'granted', 'running', 'suspect', 'released', 'expired', 'cancelled')),
    dag_id text not null,
    run_id text not null,
    task text not null,
    map_index integer not null,
    table_name text not null,
    parallel integer not null check (parallel > 0),
    units integer not null check (units >= 0),
    epoch integer not null,
    enqueued_at integer not null,
    started_at integer,
    ended_at integer,
    ending text,
    end_call text,
    expires_at integer,
    lease_micros integer,
    detail text not null,
    check ((ended_at is null) = (state in ('waiting', 'granted', 'running', 'suspect'))),
    check ((ended_at is null) = (ending is null)),
    check ((ended_at is null) = (expires_at is not null))
) strict, without rowid;

-- One live ticket for each holder.
create unique index tidemill_pool_ticket_holder
    on tidemill_pool_ticket (pool, dag_id, run_id, task, map_index) where ended_at is null;

-- What another process changed since this one looked.
create index tidemill_pool_ticket_version on tidemill_pool_ticket (pool, version);

create index tidemill_pool_ticket_expires on tidemill_pool_ticket (expires_at) where ended_at is null;

create index tidemill_pool_ticket_run on tidemill_pool_ticket (run_id, dag_id);

create index tidemill_pool_ticket_ended on tidemill_pool_ticket (pool, ended_at) where ended_at is not null;

-- What a call has given back, for when it comes again.
create index tidemill_pool_ticket_call on tidemill_pool_ticket (end_call) where end_call is not null;

-- The log of each pool: all that was decided, from its making or from a snapshot on. The state follows from it.
create table tidemill_pool_log (
    pool text not null references tidemill_pool (name) on delete cascade,
    version integer not null,
    seq integer not null,
    at integer not null,
    kind text not null,
    ticket_id text,
    dag_id text,
    run_id text,
    event text not null,
    primary key (pool, version, seq)
) strict, without rowid;

create index tidemill_pool_log_ticket on tidemill_pool_log (ticket_id) where ticket_id is not null;

create index tidemill_pool_log_at on tidemill_pool_log (at);

create index tidemill_pool_log_snapshot on tidemill_pool_log (pool, at) where kind = 'snapshot';

-- How long runs took whose tickets are forgotten: a list of seconds in JSON, the oldest first.
create table tidemill_pool_run_time (
    pool text not null references tidemill_pool (name) on delete cascade,
    dag_id text not null,
    table_name text not null,
    parallel integer not null check (parallel > 0),
    seconds text not null,
    primary key (pool, dag_id, table_name, parallel)
) strict, without rowid;

-- How full a pool was, in steps of five minutes.
create table tidemill_pool_usage (
    pool text not null references tidemill_pool (name) on delete cascade,
    at integer not null,
    least integer not null,
    most integer not null,
    total integer not null,
    samples integer not null check (samples > 0),
    most_waiting integer not null,
    primary key (pool, at)
) strict, without rowid;

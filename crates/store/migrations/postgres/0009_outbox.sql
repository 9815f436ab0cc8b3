-- The slot of an event is computed from the bytes of its aggregate's id, which have to be UTF-8.
do $$
begin
    if current_setting('server_encoding') <> 'UTF8' then
        raise exception 'the outbox needs a database whose encoding is UTF8, and this one has %', current_setting('server_encoding')
            using errcode = 'feature_not_supported',
                  hint = 'create the database with: create database NAME encoding ''UTF8'' template template0';
    end if;
end
$$;

-- Headers are a JSON object whose values are texts.
create function tidemill_outbox_headers_are_good(headers text) returns boolean language sql immutable as $$
    select json_typeof(headers::json) = 'object'
        and not exists (select from json_each(headers::json) where json_typeof(value) <> 'string')
$$;

-- Events, written in the transaction of what they tell of, and never changed. `xid` stands before `id`, so that a
-- transaction has its number before the event has its own. Without payload and payload_bytes an event is a tombstone.
-- The slot may be null only as far as its own column tells: whoever leaves out the aggregate's id is told so by that one.
create table outbox_event (
    xid xid8 not null default pg_current_xact_id(),
    id bigint not null generated always as identity (cache 1),
    slot smallint generated always as (get_byte(decode(md5(aggregate_id), 'hex'), 0)) stored,
    aggregate_type text not null check (octet_length(aggregate_type) between 1 and 200),
    aggregate_id text not null check (octet_length(aggregate_id) between 1 and 1000),
    event_type text not null check (octet_length(event_type) between 1 and 200),
    topic text not null check (topic ~ '^[a-zA-Z0-9._-]{1,249}$' and topic not in ('.', '..')),
    payload text check (payload is null or (octet_length(payload) <= 1048576 and payload::json is not null)),
    payload_bytes bytea check (octet_length(payload_bytes) <= 1048576),
    headers text check (octet_length(headers) <= 131072 and tidemill_outbox_headers_are_good(headers)),
    created_at timestamptz not null default now(),
    primary key (id),
    check (payload is null or payload_bytes is null)
) partition by range (id);

-- What committed since a mark.
create index outbox_event_xid on outbox_event (xid, id);

-- Takes whatever no other partition takes, so that nobody is refused when partitions were not made in time.
create table outbox_event_default partition of outbox_event default;

create table outbox_event_p1 partition of outbox_event for values from (1) to (1000001);

create table outbox_event_p1000001 partition of outbox_event for values from (1000001) to (2000001);

-- What holds for the whole outbox, in one row: the server that marks are from, and the id below which, after a restore
-- into another server, marks mean nothing.
create table tidemill_outbox (
    one boolean primary key default true check (one),
    system_identifier text,
    timeline text,
    floor_id bigint not null default 0,
    updated_at timestamptz not null default now()
);

insert into tidemill_outbox (one) values (true);

-- Relays: one row for each time that one has joined. `cursors` says how far each of its slots was read; an
-- acknowledgement is one update of this row and renews it. No column that changes is indexed, and all of a row stays in
-- its page, so that updates are done in place.
create table tidemill_outbox_relay (
    id uuid primary key,
    process uuid not null,
    name text not null,
    host text not null,
    pid bigint not null,
    sink text not null,
    instance integer,
    total integer,
    joined_at timestamptz not null,
    published bigint not null default 0,
    acks bigint not null default 0,
    until timestamptz not null,
    ended_at timestamptz,
    cursors text not null default '[]',
    check ((instance is null) = (total is null)),
    check (instance >= 0 and instance < total)
) with (fillfactor = 25, toast_tuple_target = 8160);

alter table tidemill_outbox_relay alter column cursors set storage main;

-- Slots: who has them, and where the free ones were left.
create table tidemill_outbox_slot (
    slot smallint primary key check (slot between 0 and 255),
    epoch bigint not null default 0 check (epoch >= 0),
    owner uuid references tidemill_outbox_relay (id),
    since timestamptz,
    place text not null,
    seq bigint not null default 0
) with (fillfactor = 50);

insert into tidemill_outbox_slot (slot, place)
select slot, '{"from":"3:3:"}' from generate_series(0, 255) as slot;

-- Events that were not taken, and those that wait behind them: all others need no row. One of each aggregate is
-- `waiting` or `parked`, the others are `held`. What an operator has changed of an event is kept here.
create table tidemill_outbox_exception (
    event_id bigint primary key,
    slot smallint not null,
    seq bigint not null,
    aggregate_type text not null,
    aggregate_id text not null,
    event_type text not null,
    state text not null check (state in ('waiting', 'held', 'parked', 'skipped')),
    revision bigint not null default 0,
    attempts bigint not null default 0 check (attempts >= 0),
    next_attempt_at timestamptz,
    error text,
    since timestamptz not null,
    updated_at timestamptz not null,
    is_edited boolean not null default false,
    topic text,
    payload text,
    payload_bytes bytea,
    headers text,
    check ((next_attempt_at is not null) = (state = 'waiting')),
    check (payload is null or payload_bytes is null)
);

create index tidemill_outbox_exception_due on tidemill_outbox_exception (next_attempt_at) where state = 'waiting';

create index tidemill_outbox_exception_aggregate
    on tidemill_outbox_exception (slot, aggregate_type, aggregate_id, seq) where state <> 'skipped';

create index tidemill_outbox_exception_state on tidemill_outbox_exception (state, event_id);

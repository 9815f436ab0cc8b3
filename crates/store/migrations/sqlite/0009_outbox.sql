-- Events, written in the transaction of what they tell of, and never changed. SQLite cannot compute the slot; Tidemill
-- writes it, and fills it in where other programs leave it out. Without payload and payload_bytes an event is a
-- tombstone.
create table outbox_event (
    id integer primary key autoincrement,
    slot integer check (slot between 0 and 255),
    aggregate_type text not null check (length(cast(aggregate_type as blob)) between 1 and 200),
    aggregate_id text not null check (length(cast(aggregate_id as blob)) between 1 and 1000 and instr(aggregate_id, char(0)) = 0),
    event_type text not null check (length(cast(event_type as blob)) between 1 and 200),
    topic text not null check (length(cast(topic as blob)) between 1 and 249 and length(cast(topic as blob)) = length(topic) and topic not glob '*[^a-zA-Z0-9._-]*' and topic not in ('.', '..')),
    payload text check (payload is null or (length(cast(payload as blob)) <= 1048576 and json_valid(payload))),
    payload_bytes blob check (length(payload_bytes) <= 1048576),
    headers text check (headers is null or (length(cast(headers as blob)) <= 131072 and json_valid(headers) and json_type(headers) = 'object')),
    created_at integer not null default (cast((julianday('now') - 2440587.5) * 86400000000 as integer)),
    check (payload is null or payload_bytes is null)
) strict;

create index outbox_event_slotless on outbox_event (id) where slot is null;

-- What holds for the whole outbox, in one row.
create table tidemill_outbox (
    one integer primary key default 1 check (one = 1),
    system_identifier text,
    timeline text,
    floor_id integer not null default 0,
    updated_at integer not null default 0
);

insert into tidemill_outbox (one) values (1);

-- Relays: one row for each time that one has joined. `cursors` says how far each of its slots was read; an
-- acknowledgement is one update of this row and renews it.
create table tidemill_outbox_relay (
    id text primary key,
    process text not null,
    name text not null,
    host text not null,
    pid integer not null,
    sink text not null,
    instance integer,
    total integer,
    joined_at integer not null,
    published integer not null default 0,
    acks integer not null default 0,
    until integer not null,
    ended_at integer,
    cursors text not null default '[]',
    check ((instance is null) = (total is null)),
    check (instance >= 0 and instance < total)
) without rowid;

-- Slots: who has them, and where the free ones were left.
create table tidemill_outbox_slot (
    slot integer primary key check (slot between 0 and 255),
    epoch integer not null default 0 check (epoch >= 0),
    owner text references tidemill_outbox_relay (id),
    since integer,
    place text not null,
    seq integer not null default 0
);

insert into tidemill_outbox_slot (slot, place)
with recursive numbers (slot) as (select 0 union all select slot + 1 from numbers where slot < 255)
select slot, '{"from":"1:1:"}' from numbers;

-- Events that were not taken, and those that wait behind them: all others need no row. One of each aggregate is
-- `waiting` or `parked`, the others are `held`. What an operator has changed of an event is kept here.
create table tidemill_outbox_exception (
    event_id integer primary key,
    slot integer not null,
    seq integer not null,
    aggregate_type text not null,
    aggregate_id text not null,
    event_type text not null,
    state text not null check (state in ('waiting', 'held', 'parked', 'skipped')),
    revision integer not null default 0,
    attempts integer not null default 0 check (attempts >= 0),
    next_attempt_at integer,
    error text,
    since integer not null,
    updated_at integer not null,
    is_edited integer not null default 0,
    topic text,
    payload text,
    payload_bytes blob,
    headers text,
    check ((next_attempt_at is not null) = (state = 'waiting')),
    check (payload is null or payload_bytes is null)
);

create index tidemill_outbox_exception_due on tidemill_outbox_exception (next_attempt_at) where state = 'waiting';

create index tidemill_outbox_exception_aggregate
    on tidemill_outbox_exception (slot, aggregate_type, aggregate_id, seq) where state <> 'skipped';

create index tidemill_outbox_exception_state on tidemill_outbox_exception (state, event_id);

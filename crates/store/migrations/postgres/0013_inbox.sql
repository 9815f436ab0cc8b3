-- What consumers have dealt with: a message that comes again is known by its row.
create table tidemill_inbox (
    consumer text not null check (octet_length(consumer) between 1 and 200),
    message_id text not null check (octet_length(message_id) between 1 and 500),
    seen_at timestamptz not null default clock_timestamp(),
    primary key (consumer, message_id)
);

create index tidemill_inbox_seen on tidemill_inbox (seen_at);

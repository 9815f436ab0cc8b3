-- What consumers have dealt with: a message that comes again is known by its row.
create table tidemill_inbox (
    consumer text not null check (length(cast(consumer as blob)) between 1 and 200),
    message_id text not null check (length(cast(message_id as blob)) between 1 and 500),
    seen_at integer not null default (cast((julianday('now') - 2440587.5) * 86400000000 as integer)),
    primary key (consumer, message_id)
) strict, without rowid;

create index tidemill_inbox_seen on tidemill_inbox (seen_at);

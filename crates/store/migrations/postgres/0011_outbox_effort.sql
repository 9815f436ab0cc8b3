-- What a relay has asked of the database since it joined: how often it asked for events, how often there were none, and by
-- how many statements. Written with its lease and its acknowledgements, so it costs no write of its own.
alter table tidemill_outbox_relay
    add column polls bigint not null default 0,
    add column empty_polls bigint not null default 0,
    add column queries bigint not null default 0;

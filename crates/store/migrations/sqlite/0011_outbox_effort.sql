-- What a relay has asked of the database since it joined: how often it asked for events, how often there were none, and by
-- how many statements. Written with its lease and its acknowledgements, so it costs no write of its own.
alter table tidemill_outbox_relay add column polls integer not null default 0;

alter table tidemill_outbox_relay add column empty_polls integer not null default 0;

alter table tidemill_outbox_relay add column queries integer not null default 0;

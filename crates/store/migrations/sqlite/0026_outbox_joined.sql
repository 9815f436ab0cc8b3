-- Relays that have joined. On PostgreSQL a crash of the server empties this table, because numbers of transactions are given
-- out again then. SQLite numbers no transactions.
create table tidemill_outbox_joined (
    relay text primary key references tidemill_outbox_relay (id) on delete cascade
) strict;

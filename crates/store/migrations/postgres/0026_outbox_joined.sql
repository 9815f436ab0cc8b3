-- Relays that have joined since the server last recovered from a crash. A crash empties an unlogged table. The server then
-- gives out numbers of transactions again that were rolled back, and a relay that has read before must not save a position
-- that has passed them: it joins again.
create unlogged table tidemill_outbox_joined (
    relay uuid primary key references tidemill_outbox_relay (id) on delete cascade
);

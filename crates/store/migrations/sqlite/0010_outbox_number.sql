-- Relays go by the numbers of events, and never back: an event of a lower one would not be read. Whoever leaves out the
-- id has a number that is higher than all before, also when these are gone.
create trigger outbox_event_number after insert on outbox_event
when new.id <= (select coalesce(max(seq), 0) from sqlite_sequence where name = 'outbox_event')
begin
    select raise(abort, 'leave out id: the events of outbox_event are numbered by the table, and relays have passed this number');
end;

-- What the number stands for is there already: here a render that somebody ends by SQL has always ended then. Adopted tables
-- are looked at by statements of their own, and nobody calls this any more.
drop function tidemill_outbox_adopted_look(integer[], timestamptz);

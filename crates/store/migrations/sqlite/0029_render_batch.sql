-- Renders that were ordered together from a table: the id of the first one.
alter table render_queue add column batch_id integer;

create index render_queue_batch on render_queue (batch_id, id) where batch_id is not null;

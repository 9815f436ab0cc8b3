-- The URLs of the published file in object stores, one on each line.
alter table render_queue add column if not exists output_objects text;

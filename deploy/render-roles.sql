-- Roles for the render tables on PostgreSQL, with row-level security. Run this script once as the owner of the tables, after
-- `tidemill db migrate`, in the schema that Tidemill uses. You can run it again.
--
--   tidemill_dashboard  inserts renders, sees them, and cancels those that have not ended
--   tidemill_worker     runs Tidemill: `tidemill render worker`, `tidemill serve`
--   tidemill_viewer     sees the state of renders, but neither their data nor their nexrender jobs
--
-- These roles cannot log in. Grant them to roles that can:
--   grant tidemill_dashboard to sub_dashboard;
-- Row-level security does not apply to the owner of the tables, so use the owner only for `tidemill db migrate`.
do $$
declare
    name text;
begin
    foreach name in array array['tidemill_dashboard', 'tidemill_worker', 'tidemill_viewer'] loop
        begin
            execute format('create role %I nologin', name);
        exception when duplicate_object or unique_violation then
            null;
        end;
        execute format('grant usage on schema %I to %I', current_schema(), name);
    end loop;
end
$$;

-- Grants on tables and columns.
revoke all on render_queue, render_queue_audit, render_attempt, render_leftover, render_worker, aep_field_mapping,
    render_profile, render_revision
    from public, tidemill_dashboard, tidemill_viewer;

grant select on render_queue, render_queue_audit, render_worker, aep_field_mapping, render_profile, render_queue_depth,
    render_success_rate, render_duration, render_stuck, render_active_worker
    to tidemill_dashboard;

grant insert (composition_id, gfx_data, cue_item_id, status, priority, deadline, broadcast_date), update (status)
    on render_queue to tidemill_dashboard;

grant select (id, composition_id, cue_item_id, status, progress, phase, worker_id, worker_name, lock_expires_at,
    nexrender_job_id, recovery_count, attempts, error_code, error_message, output_file_path, output_bytes, output_sha256,
    output_revision, previous_output_path, output_objects, poster_path, approval, duration_seconds, created_at, updated_at, started_at, completed_at, ended_at, run_after, priority,
    deadline, broadcast_date, batch_id, cancel_requested_at)
    on render_queue to tidemill_viewer;

grant select (render_id, epoch, worker_id, worker_name, nexrender_job_id, document_sha256, started_at, ended_at, outcome,
    error_code, error_message, report)
    on render_attempt to tidemill_dashboard, tidemill_viewer;

grant select on render_queue_audit, render_worker, aep_field_mapping, render_profile, render_queue_depth,
    render_success_rate, render_duration, render_stuck, render_active_worker
    to tidemill_viewer;

do $$
declare
    counter text := pg_get_serial_sequence('render_queue', 'id');
begin
    -- A worker runs Tidemill itself, which uses all tables.
    execute format('grant select, insert, update, delete on all tables in schema %I to tidemill_worker', current_schema());
    -- Triggers write the log of changes, and nobody takes anything out of the logs.
    revoke insert, update, delete, truncate on render_queue_audit from tidemill_worker;
    revoke update, delete, truncate on tidemill_audit from tidemill_worker;
    execute format('grant usage, select on all sequences in schema %I to tidemill_worker', current_schema());
    -- In an older table, ids may come from a sequence, so roles that insert need rights on it.
    if counter is not null then
        execute format('grant usage on sequence %s to tidemill_dashboard', counter);
    end if;
end
$$;

-- Policies: which rows a role sees, and how it may change them.
alter table render_queue enable row level security;

alter table render_queue_audit enable row level security;

alter table render_attempt enable row level security;

drop policy if exists tidemill_see on render_queue;

create policy tidemill_see on render_queue for select to tidemill_dashboard, tidemill_viewer using (true);

drop policy if exists tidemill_order on render_queue;

create policy tidemill_order on render_queue for insert to tidemill_dashboard with check (status = 'pending');

drop policy if exists tidemill_cancel on render_queue;

create policy tidemill_cancel on render_queue for update to tidemill_dashboard
    using (status in ('pending', 'preparing', 'rendering', 'encoding', 'uploading'))
    with check (status = 'cancelled');

drop policy if exists tidemill_work on render_queue;

create policy tidemill_work on render_queue for all to tidemill_worker using (true) with check (true);

drop policy if exists tidemill_see on render_queue_audit;

create policy tidemill_see on render_queue_audit for select to tidemill_dashboard, tidemill_viewer using (true);

drop policy if exists tidemill_work on render_queue_audit;

create policy tidemill_work on render_queue_audit for select to tidemill_worker using (true);

drop policy if exists tidemill_see on render_attempt;

create policy tidemill_see on render_attempt for select to tidemill_dashboard, tidemill_viewer using (true);

drop policy if exists tidemill_work on render_attempt;

create policy tidemill_work on render_attempt for all to tidemill_worker using (true) with check (true);

-- A render that has ended and is wanted once more by SQL begins anew, as it does by an order of ours: the job that it had is on
-- its way out of nexrender, and nobody could go on with it.
create or replace function tidemill_render_heed() returns trigger language plpgsql as $$
begin
    if new.revision <> old.revision then
        return new;
    end if;
    if new.updated_at is not distinct from old.updated_at then
        new.updated_at := clock_timestamp();
    end if;
    if new.status is not distinct from old.status then
        return new;
    end if;
    if new.status = 'cancelled' then
        if old.status = 'completed' then
            raise exception 'render % is completed, so it is too late to cancel it', old.id
                using errcode = 'object_not_in_prerequisite_state';
        elsif old.phase = 'publishing' and old.status <> 'failed' then
            raise exception 'the file of render % is being published, so it is too late to cancel it', old.id
                using errcode = 'object_not_in_prerequisite_state',
                      hint = 'wait for its end, and take the file away if nobody may see it';
        end if;
        new.cancel_requested_at := coalesce(new.cancel_requested_at, clock_timestamp());
        if old.status in ('preparing', 'rendering', 'encoding', 'uploading') then
            -- Its worker, or whoever finds that it has vanished, still has to stop the job.
            new.worker_id := old.worker_id;
            new.lock_expires_at := old.lock_expires_at;
        end if;
    elsif new.status = 'pending' and old.status in ('completed', 'failed', 'cancelled') then
        -- Somebody wants it once more, and whoever has it does not know yet that it had ended.
        new.worker_id := null;
        new.lock_expires_at := null;
        new.cancel_requested_at := null;
        new.error_code := null;
        new.error_message := null;
        new.gfx_hash := null;
        new.run_after := clock_timestamp();
        new.attempts := 0;
        new.recovery_count := 0;
        new.submit_failures := 0;
        new.render_failures := 0;
        new.upload_failures := 0;
        new.started_at := null;
        new.completed_at := null;
        new.ended_at := null;
        new.duration_seconds := null;
        if old.status <> 'failed'
           or old.phase not in ('copying', 'publishing')
           or (old.phase = 'copying' and old.job_epoch is null) then
            -- What only could not be published goes on there; all else is rendered anew, by a job of another name.
            new.phase := 'queued';
            new.progress := 0;
            new.job_epoch := null;
            new.nexrender_job_id := null;
            new.submitted_at := null;
            new.node_started_at := null;
            new.changed_at := null;
            new.remote_mark := null;
            new.staged_path := null;
            new.output_bytes := null;
            new.output_sha256 := null;
            new.output_file_path := null;
            new.poster_path := null;
        end if;
    end if;
    if new.status in ('completed', 'failed', 'cancelled') then
        new.ended_at := coalesce(new.ended_at, clock_timestamp());
    end if;
    return new;
end
$$;

create or replace function tidemill_render_note() returns trigger language plpgsql security definer as $$
declare
    -- Inside of this function the user is who made it.
    somebody text := case current_setting('role', true) when 'none' then session_user else current_setting('role', true) end;
begin
    if tg_op = 'DELETE' then
        if old.job_epoch is not null and old.status not in ('completed', 'failed', 'cancelled') then
            insert into render_leftover
                (render_id, epoch, nexrender_job_id, staged_path, slot, file, since, look_after)
            values
                (old.id, old.job_epoch, coalesce(old.nexrender_job_id, format('rq-%s-%s', old.id, old.job_epoch)),
                 old.staged_path, 'busy', 'delete', clock_timestamp(), clock_timestamp())
            on conflict do nothing;
        end if;
        return null;
    end if;
    if tg_op = 'INSERT' then
        insert into render_queue_audit
            (render_queue_id, status_from, status_to, worker_id, changed_at, changed_by, phase, epoch, error_code)
        values
            (new.id, null, new.status, new.worker_id, new.updated_at, coalesce(new.changed_by, somebody), new.phase,
             new.epoch, new.error_code);
        return null;
    end if;
    if new.status = old.status then
        return null;
    end if;
    insert into render_queue_audit
        (render_queue_id, status_from, status_to, worker_id, changed_at, changed_by, phase, epoch, error_code)
    values
        (new.id, old.status, new.status, coalesce(new.worker_id, old.worker_id), new.updated_at,
         case when new.revision <> old.revision then coalesce(new.changed_by, 'tidemill') else somebody end,
         new.phase, new.epoch, new.error_code);
    if new.revision <> old.revision then
        return null;
    end if;
    if new.status = 'cancelled' and old.status = 'pending' and old.job_epoch is not null then
        insert into render_leftover
            (render_id, epoch, nexrender_job_id, staged_path, slot, file, since, look_after)
        values
            (old.id, old.job_epoch, coalesce(old.nexrender_job_id, format('rq-%s-%s', old.id, old.job_epoch)),
             old.staged_path, 'busy', 'delete', clock_timestamp(), clock_timestamp())
        on conflict do nothing;
        perform pg_notify('tidemill', 'render_leftover');
    elsif new.status = 'cancelled' then
        perform pg_notify('tidemill', 'render_cancelled');
    elsif new.status = 'pending' then
        if old.status in ('completed', 'failed', 'cancelled') and old.job_epoch is not null and new.job_epoch is null then
            -- Whoever has set the end by SQL as well may have left the old job in nexrender.
            insert into render_leftover
                (render_id, epoch, nexrender_job_id, staged_path, slot, file, since, look_after)
            values
                (old.id, old.job_epoch, coalesce(old.nexrender_job_id, format('rq-%s-%s', old.id, old.job_epoch)),
                 old.staged_path, 'busy', 'delete', clock_timestamp(), clock_timestamp())
            on conflict do nothing;
            perform pg_notify('tidemill', 'render_leftover');
        end if;
        perform pg_notify('tidemill', 'render_waiting');
    end if;
    return null;
end
$$;

-- What replaces a function forgets where it looks for tables.
do $$
begin
    execute format('alter function tidemill_render_note() set search_path = %I, pg_temp', current_schema());
end
$$;

-- The URLs of the published file in object stores, one on each line; after an empty line those of earlier files.
alter table render_queue add column if not exists output_objects text;

-- A render that waits for a store can be cancelled, and what one store may have is not rendered again under the same name.
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
        elsif old.phase = 'publishing' and old.status = 'uploading' then
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
        if old.status = 'completed' then
            new.previous_output_path := old.output_file_path;
        end if;
        if old.status <> 'failed'
           or old.phase not in ('copying', 'publishing')
           or (old.phase = 'copying' and old.job_epoch is null) then
            -- What only could not be published goes on there; all else is rendered anew, by a job of another name. A file that was
            -- copied may be in a store or have its final name, so the next one gets another.
            if old.status = 'completed'
               or old.phase = 'publishing'
               or (old.output_objects is not null and old.output_bytes is not null) then
                new.output_revision := old.output_revision + 1;
            end if;
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

-- The URLs of the published file in object stores, one on each line; after an empty line those of earlier files.
alter table render_queue add column output_objects text;

-- A render that waits for a store can be cancelled.
drop trigger tidemill_render_too_late;

create trigger tidemill_render_too_late before update of status on render_queue
    when new.revision = old.revision
     and new.status = 'cancelled'
     and old.status <> 'cancelled'
     and (old.status = 'completed' or (old.phase = 'publishing' and old.status = 'uploading'))
begin
    select case old.status
        when 'completed' then raise(abort, 'the render is completed, so it is too late to cancel it')
        else raise(abort, 'the file of the render is being published, so it is too late to cancel it')
    end;
end;

-- What one store may have is not rendered again under the same name.
drop trigger tidemill_render_again;

create trigger tidemill_render_again after update of status on render_queue
    when new.revision = old.revision
     and new.status = 'pending'
     and old.status in ('completed', 'failed', 'cancelled')
begin
    update render_queue
    set worker_id = null, lock_expires_at = null, cancel_requested_at = null, error_code = null, error_message = null,
        gfx_hash = null, attempts = 0, recovery_count = 0, submit_failures = 0, render_failures = 0, upload_failures = 0,
        started_at = null, completed_at = null, ended_at = null, duration_seconds = null,
        previous_output_path = case old.status when 'completed' then old.output_file_path else previous_output_path end,
        run_after = cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000,
        updated_at = cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000
    where id = new.id;
    -- Whoever has set the end by SQL as well may have left the old job in nexrender.
    insert or ignore into render_leftover
        (render_id, epoch, nexrender_job_id, staged_path, slot, file, since, look_after)
    select old.id, old.job_epoch, coalesce(old.nexrender_job_id, 'rq-' || old.id || '-' || old.job_epoch),
           old.staged_path, 'busy', 'delete', cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000,
           cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000
    where old.job_epoch is not null
      and (old.status <> 'failed' or old.phase not in ('copying', 'publishing'));
    -- What only could not be published goes on there; all else is rendered anew, by a job of another name. A file that was
    -- copied may be in a store or have its final name, so the next one gets another.
    update render_queue
    set phase = 'queued', progress = 0, job_epoch = null, nexrender_job_id = null, submitted_at = null,
        node_started_at = null, changed_at = null, remote_mark = null, staged_path = null, output_bytes = null,
        output_sha256 = null, output_file_path = null, poster_path = null,
        output_revision = output_revision
            + (old.status is 'completed'
               or old.phase is 'publishing'
               or (old.output_objects is not null and old.output_bytes is not null))
    where id = new.id
      and (old.status <> 'failed'
           or old.phase not in ('copying', 'publishing')
           or (old.phase = 'copying' and old.job_epoch is null));
end;

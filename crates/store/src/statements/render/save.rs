//! Statements that change rows of `render_queue`, and the data of renders. Each change raises the revision, by which
//! triggers recognise our changes.

use crate::codec::DbId;
use crate::render::data::DataRow;
use crate::render::row::RenderRow;
use crate::statement::{column, statements};
use crate::tx::Takeover;
use tidemill_domain::lease::Fence;
use tidemill_domain::render::RenderId;
use tidemill_domain::time::Timestamp;
use uuid::Uuid;

statements! {
    /// Writes a row under the lease that it had when it was read: zero rows mean that another worker has it.
    fn render_save(row: &RenderRow, epoch_before: i64, worker_before: Option<DbId>, by: &str) -> u64 {
        bind(
            row.id, epoch_before, worker_before, &row.status, &row.phase, row.progress, row.worker_id,
            &row.worker_name, row.lock_expires_at, row.epoch, row.job_epoch, &row.nexrender_job_id,
            row.attempts, row.recovery_count, row.submit_failures, row.render_failures, row.upload_failures,
            row.run_after, row.cancel_requested_at, &row.error_code, &row.error_message, row.submitted_at,
            row.node_started_at, row.changed_at, &row.remote_mark, &row.staged_path, &row.output_file_path,
            row.output_bytes, &row.output_sha256, &row.poster_path, &row.gfx_hash, row.started_at,
            row.completed_at, row.ended_at, row.duration_seconds, row.updated_at, by,
        )
        "update render_queue
         set status = $4, phase = $5, progress = $6, worker_id = $7, worker_name = $8, lock_expires_at = $9,
             epoch = $10, job_epoch = $11, nexrender_job_id = $12, attempts = $13, recovery_count = $14,
             submit_failures = $15, render_failures = $16, upload_failures = $17, run_after = $18,
             cancel_requested_at = $19, error_code = $20, error_message = $21, submitted_at = $22,
             node_started_at = $23, changed_at = $24, remote_mark = $25, staged_path = $26, output_file_path = $27,
             output_bytes = $28, output_sha256 = $29, poster_path = $30, gfx_hash = $31, started_at = $32,
             completed_at = $33, ended_at = $34, duration_seconds = $35, updated_at = $36, changed_by = $37,
             lock_renewed_at = case when lock_expires_at {is not} $9 then $36 else lock_renewed_at end,
             revision = revision + 1
         where id = $1 and epoch = $2 and worker_id {is} $3"
    }

    /// The changes of a claim, for all rows at once. They are locked.
    fn render_save_claimed(rows: &[&RenderRow], takeover: Takeover<'_>) -> u64 {
        postgres {
            bind(
                column(rows, |row| row.id), column(rows, |row| row.status.as_str()),
                column(rows, |row| row.phase.as_str()), column(rows, |row| row.progress),
                column(rows, |row| row.epoch), column(rows, |row| row.attempts),
                column(rows, |row| row.broadcast_date.as_deref()), takeover.worker, takeover.name,
                takeover.until, takeover.now,
            )
            "update render_queue q
             set status = c.status, phase = c.phase, progress = c.progress, epoch = c.epoch, attempts = c.attempts,
                 broadcast_date = coalesce(q.broadcast_date, c.broadcast_date::date), worker_id = $8, worker_name = $9,
                 lock_expires_at = $10, lock_renewed_at = $11, error_code = null, error_message = null,
                 started_at = coalesce(q.started_at, $11), updated_at = $11, changed_by = $9, revision = q.revision + 1
             from unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[])
                 as c (id, status, phase, progress, epoch, attempts, broadcast_date)
             where q.id = c.id and q.status = 'pending'"
        }
        sqlite {
            for row in rows
            bind(
                row.id, &row.status, &row.phase, row.progress, row.epoch, row.attempts, &row.broadcast_date,
                takeover.worker, takeover.name, takeover.until, takeover.now,
            )
            "update render_queue
             set status = $2, phase = $3, progress = $4, epoch = $5, attempts = $6,
                 broadcast_date = coalesce(broadcast_date, $7), worker_id = $8, worker_name = $9,
                 lock_expires_at = $10, lock_renewed_at = $11, error_code = null, error_message = null,
                 started_at = coalesce(started_at, $11), updated_at = $11, changed_by = $9, revision = revision + 1
             where id = $1 and status = 'pending'"
        }
    }

    /// Ends a render with an invalid row, so that it does not block the others.
    fn render_set_aside(id: RenderId, code: &str, why: &str, now: Timestamp) -> () {
        "update render_queue
         set status = 'failed', worker_id = null, lock_expires_at = null, error_code = $2, error_message = $3,
             ended_at = $4, updated_at = $4, changed_by = 'tidemill', revision = revision + 1
         where id = $1"
    }

    /// `decide` with `Work::Renew` as one guarded statement, where only the lease changes. Returns those renewed.
    fn render_renew(held: &[(RenderId, Fence)], micros: i64, now: Option<Timestamp>) -> Vec<i64> {
        postgres {
            bind(
                column(held, |(id, _)| id.get()), column(held, |(_, fence)| fence.epoch.get()),
                held.iter().map(|(_, fence)| fence.owner.as_uuid()).collect::<Vec<Uuid>>(), micros, now,
            )
            "update render_queue q
             set lock_expires_at = n.now + $4 * interval '1 microsecond', lock_renewed_at = n.now, revision = q.revision + 1
             from unnest($1::bigint[], $2::bigint[], $3::uuid[]) as h (id, epoch, owner),
                  (select coalesce($5, clock_timestamp()) as now) as n
             where q.id = h.id
               and q.epoch = h.epoch
               and q.worker_id = h.owner
               and q.lock_expires_at > n.now
               and q.status in ('preparing', 'rendering', 'encoding', 'uploading')
               and (q.cancel_requested_at is null or q.phase = 'publishing')
             returning q.id::bigint"
        }
        sqlite {
            for (id, fence) in held
            bind(*id, fence.epoch, fence.owner, micros, now)
            "update render_queue
             set lock_expires_at = coalesce($5, {now}) + $4, lock_renewed_at = coalesce($5, {now}),
                 revision = revision + 1
             where id = $1
               and epoch = $2
               and worker_id = $3
               and lock_expires_at > coalesce($5, {now})
               and status in ('preparing', 'rendering', 'encoding', 'uploading')
               and (cancel_requested_at is null or phase = 'publishing')
             returning id"
        }
    }

    fn render_data_find(id: RenderId) -> Option<DataRow> {
        "select id{::bigint} as id, coalesce(gfx_data{::text}, 'null') as gfx_data, gfx_key_id
         from render_queue where id = $1"
    }

    /// Locks renders whose data or job is not under this key, by id.
    fn render_data_lock_others(key: &str, after: i64, limit: u32) -> Vec<DataRow> {
        "select id{::bigint} as id, coalesce(gfx_data{::text}, 'null') as gfx_data, gfx_key_id
         from render_queue q
         where id > $2
           and (
               gfx_key_id {is not} $1
               or exists (
                   select 1 from render_attempt a
                   where a.render_id = q.id
                     and a.document is not null
                     and a.document_key_id {is not} $1
               )
           )
         order by id limit $3 {for update}"
    }

    /// Goes through a JSON record, which fits any column type of an adopted table.
    fn render_data_save(id: RenderId, text: &str, key: &str) -> () {
        postgres {
            "update render_queue
             set gfx_data = (
                     select r.gfx_data
                     from jsonb_populate_record(null::render_queue, jsonb_build_object('gfx_data', $2::jsonb)) as r
                 ),
                 gfx_key_id = $3, revision = revision + 1
             where id = $1"
        }
        sqlite {
            "update render_queue set gfx_data = $2, gfx_key_id = $3, revision = revision + 1 where id = $1"
        }
    }
}

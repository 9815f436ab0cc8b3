//! Statements that change rows of `render_queue`, and the data of renders. Each change raises the revision, by which
//! triggers recognise our changes.

use crate::codec::DbId;
use crate::render::RenderRecord;
use crate::render::data::DataRow;
use crate::statement::{rows, statements};
use crate::tx::Takeover;
use serde_json::json;
use tidemill_domain::lease::{Fence, Lease};
use tidemill_domain::process::ProcessId;
use tidemill_domain::render::{Render, RenderId};
use tidemill_domain::time::Timestamp;

/// The owner of a lease, and its end.
fn held(lease: Lease) -> (Option<ProcessId>, Option<Timestamp>) {
    match lease {
        Lease::Free { .. } => (None, None),
        Lease::Held { fence, until } => (Some(fence.owner), until),
    }
}

statements! {
    /// Writes a row under the lease that it had when it was read: zero rows mean that another worker has it.
    fn render_save(record: &RenderRecord, before: &Render, by: &str) -> u64 {
        bind(
            record.id(), before.lease.epoch(), held(before.lease).0, record.render.status.as_str(),
            record.render.phase.as_str(), i64::from(record.render.progress.get()), held(record.render.lease).0,
            &record.worker_name, held(record.render.lease).1, record.render.lease.epoch(), record.render.job,
            &record.remote_job, record.render.counts.attempts, record.render.counts.recoveries,
            record.render.counts.submit, record.render.counts.render, record.render.counts.upload,
            record.render.run_after, record.render.cancel_requested_at,
            record.render.reason.as_ref().map(|reason| reason.code.to_string()),
            record.render.reason.as_ref().map(|reason| reason.message.as_str()), record.submitted_at,
            record.node_started_at, record.changed_at, &record.remote_mark, &record.staged_path, &record.output_path,
            record.output_bytes, &record.output_sha256, &record.poster_path, &record.gfx_hash, record.started_at,
            record.completed_at, record.ended_at, record.duration_seconds, record.updated_at, by,
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
    fn render_save_claimed(claimed: &[&RenderRecord], takeover: Takeover<'_>) -> u64 {
        bind(
            rows(claimed, |RenderRecord { render, broadcast_date, .. }| json!({
                "id": render.id.get(), "status": render.status.as_str(), "phase": render.phase.as_str(),
                "progress": render.progress.get(), "epoch": render.lease.epoch().get(),
                "attempts": render.counts.attempts, "broadcast_date": broadcast_date.map(|date| date.to_string()),
            })),
            takeover.worker, takeover.name, takeover.until, takeover.now,
        )
        "update render_queue as q
         set status = c.status, phase = c.phase, progress = c.progress, epoch = c.epoch, attempts = c.attempts,
             broadcast_date = coalesce(q.broadcast_date, c.broadcast_date{::date}), worker_id = $2, worker_name = $3,
             lock_expires_at = $4, lock_renewed_at = $5, error_code = null, error_message = null,
             started_at = coalesce(q.started_at, $5), updated_at = $5, changed_by = $3, revision = q.revision + 1
         from {rows c $1: id bigint, status text, phase text, progress bigint, epoch bigint, attempts bigint,
               broadcast_date text}
         where q.id = c.id and q.status = 'pending'"
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
        bind(
            rows(held, |(id, fence)| json!({
                "id": id.get(), "epoch": fence.epoch.get(), "owner": DbId::from(fence.owner),
            })),
            micros, now,
        )
        "update render_queue
         set lock_expires_at = coalesce($3, {now}) + $2 * {micros 1}, lock_renewed_at = coalesce($3, {now}),
             revision = revision + 1
         from {rows held $1: id bigint, epoch bigint, owner uuid}
         where render_queue.id = held.id
           and render_queue.epoch = held.epoch
           and worker_id = held.owner
           and lock_expires_at > coalesce($3, {now})
           and status in ('preparing', 'rendering', 'encoding', 'uploading')
           and (cancel_requested_at is null or phase = 'publishing')
         returning render_queue.id{::bigint}"
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

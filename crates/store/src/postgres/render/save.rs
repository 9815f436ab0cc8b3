//! Statements that change rows of `render_queue`. Each raises the revision, by which triggers know that it is ours.

use crate::codec::DbTime;
use crate::tx::{ClaimedRow, Renewed, Saving, Takeover};
use sqlx::PgConnection;
use tidemill_domain::lease::Fence;
use tidemill_domain::render::RenderId;
use uuid::Uuid;

/// Writes a row, under the lease that it had when it was read: zero rows mean that somebody else has it.
pub(crate) async fn save(connection: &mut PgConnection, saving: &Saving<'_>) -> Result<u64, sqlx::Error> {
    let row = saving.row;
    let done = sqlx::query(
        "update render_queue
         set status = $4, phase = $5, progress = $6, worker_id = $7, worker_name = $8, lock_expires_at = $9,
             epoch = $10, job_epoch = $11, nexrender_job_id = $12, attempts = $13, recovery_count = $14,
             submit_failures = $15, render_failures = $16, upload_failures = $17, run_after = $18,
             cancel_requested_at = $19, error_code = $20, error_message = $21, submitted_at = $22,
             node_started_at = $23, changed_at = $24, remote_mark = $25, staged_path = $26, output_file_path = $27,
             output_bytes = $28, output_sha256 = $29, poster_path = $30, gfx_hash = $31, started_at = $32,
             completed_at = $33, ended_at = $34, duration_seconds = $35, updated_at = $36, changed_by = $37,
             lock_renewed_at = case when lock_expires_at is distinct from $9 then $36 else lock_renewed_at end,
             revision = revision + 1
         where id = $1
           and epoch = $2
           and worker_id is not distinct from $3",
    )
    .bind(row.id)
    .bind(saving.epoch_before)
    .bind(saving.worker_before)
    .bind(&row.status)
    .bind(&row.phase)
    .bind(row.progress)
    .bind(row.worker_id)
    .bind(&row.worker_name)
    .bind(row.lock_expires_at)
    .bind(row.epoch)
    .bind(row.job_epoch)
    .bind(&row.nexrender_job_id)
    .bind(row.attempts)
    .bind(row.recovery_count)
    .bind(row.submit_failures)
    .bind(row.render_failures)
    .bind(row.upload_failures)
    .bind(row.run_after)
    .bind(row.cancel_requested_at)
    .bind(&row.error_code)
    .bind(&row.error_message)
    .bind(row.submitted_at)
    .bind(row.node_started_at)
    .bind(row.changed_at)
    .bind(&row.remote_mark)
    .bind(&row.staged_path)
    .bind(&row.output_file_path)
    .bind(row.output_bytes)
    .bind(&row.output_sha256)
    .bind(&row.poster_path)
    .bind(&row.gfx_hash)
    .bind(row.started_at)
    .bind(row.completed_at)
    .bind(row.ended_at)
    .bind(row.duration_seconds)
    .bind(row.updated_at)
    .bind(saving.by)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

/// Writes what a claim changes, for all rows at once. They are locked.
pub(crate) async fn save_claimed(
    connection: &mut PgConnection,
    rows: &[ClaimedRow],
    takeover: Takeover<'_>,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "update render_queue q
         set status = c.status, phase = c.phase, progress = c.progress, epoch = c.epoch, attempts = c.attempts,
             broadcast_date = coalesce(q.broadcast_date, c.broadcast_date::date), worker_id = $8, worker_name = $9,
             lock_expires_at = $10, lock_renewed_at = $11, error_code = null, error_message = null,
             started_at = coalesce(q.started_at, $11), updated_at = $11, changed_by = $9, revision = q.revision + 1
         from unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[])
             as c (id, status, phase, progress, epoch, attempts, broadcast_date)
         where q.id = c.id
           and q.status = 'pending'",
    )
    .bind(rows.iter().map(|row| row.id).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.status.as_str()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.phase.as_str()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.progress).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.epoch).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.attempts).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.broadcast_date.as_deref()).collect::<Vec<_>>())
    .bind(takeover.worker)
    .bind(takeover.name)
    .bind(takeover.until)
    .bind(takeover.now)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

/// Ends a render whose row makes no sense, so that it does not stand before the others.
pub(crate) async fn set_aside(
    connection: &mut PgConnection,
    id: i64,
    code: &str,
    why: &str,
    now: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update render_queue
         set status = 'failed', worker_id = null, lock_expires_at = null, error_code = $2, error_message = $3,
             ended_at = $4, updated_at = $4, changed_by = 'tidemill', revision = revision + 1
         where id = $1",
    )
    .bind(id)
    .bind(code)
    .bind(why)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}

/// The guarded statement for `decide` with `Work::Renew` where nothing but the lease changes. Returns those renewed.
pub(crate) async fn renew(
    connection: &mut PgConnection,
    held: &[(RenderId, Fence)],
    renewed: Renewed,
) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar(
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
         returning q.id::bigint",
    )
    .bind(held.iter().map(|(id, _)| id.get()).collect::<Vec<_>>())
    .bind(held.iter().map(|(_, fence)| fence.epoch.get()).collect::<Vec<_>>())
    .bind(held.iter().map(|(_, fence)| fence.owner.as_uuid()).collect::<Vec<Uuid>>())
    .bind(renewed.micros)
    .bind(renewed.now)
    .fetch_all(connection)
    .await
}

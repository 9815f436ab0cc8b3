//! The statements that every chunk ends with. The file is in this process, so a few small ones cost no round trips.

use crate::codec::DbId;
use crate::tx::ChunkRow;
use sqlx::SqliteConnection;

/// The fence, the counters, the context, and the question whether somebody wants a stop. Answers the new version of
/// the step; nothing when the lease has moved on, and then nothing was written either.
pub(crate) async fn save(
    connection: &mut SqliteConnection,
    chunk: &ChunkRow<'_>,
) -> Result<Option<(i64, bool)>, sqlx::Error> {
    let Some(saved) = save_step(&mut *connection, chunk).await? else { return Ok(None) };
    if let Some(context) = &chunk.context {
        super::context::save_of_step(connection, chunk.step, context).await?;
    }
    Ok(Some(saved))
}

async fn save_step(
    connection: &mut SqliteConnection,
    chunk: &ChunkRow<'_>,
) -> Result<Option<(i64, bool)>, sqlx::Error> {
    let count = &chunk.counters;
    sqlx::query_as(
        "update batch_step_execution
         set version = version + 1, status = 'STARTED', commit_count = $7, read_count = $8, filter_count = $9,
             write_count = $10, read_skip_count = $11, write_skip_count = $12, process_skip_count = $13,
             rollback_count = $14,
             last_updated = coalesce($15, strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')
         where step_execution_id = $5
           and job_execution_id = $6
           and exists (
               select 1
               from tidemill_lease
               where kind = $1
                 and name = $2
                 and owner = $3
                 and epoch = $4
           )
         returning version, coalesce(
             (select e.status = 'STOPPING' from batch_job_execution e where e.job_execution_id = $6), 0)",
    )
    .bind(chunk.lease.kind())
    .bind(chunk.lease.name())
    .bind(DbId::from(chunk.fence.owner))
    .bind(chunk.fence.epoch.get())
    .bind(chunk.step)
    .bind(chunk.execution)
    .bind(count.commit)
    .bind(count.read)
    .bind(count.filter)
    .bind(count.write)
    .bind(count.read_skip)
    .bind(count.write_skip)
    .bind(count.process_skip)
    .bind(count.rollback)
    .bind(chunk.now)
    .fetch_optional(connection)
    .await
}

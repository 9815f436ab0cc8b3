//! The statement that every chunk ends with.

use crate::codec::DbId;
use crate::tx::ChunkRow;
use sqlx::PgConnection;

/// All that is recorded about a chunk, in one round trip: the fence (a lock on the lease that a take-over has to
/// wait for), the counters, the context, and the question whether somebody wants a stop. Answers the new version
/// of the step; nothing when the lease has moved on, and then nothing was written either.
pub(crate) async fn save(
    connection: &mut PgConnection,
    chunk: &ChunkRow<'_>,
) -> Result<Option<(i64, bool)>, sqlx::Error> {
    let count = &chunk.counters;
    sqlx::query_as(
        "with fence as materialized (
             select 1
             from tidemill_lease
             where kind = $1
               and name = $2
               and owner = $3
               and epoch = $4
             for key share
         ), step as (
             update batch_step_execution s
             set version = s.version + 1, status = 'STARTED', commit_count = $7, read_count = $8,
                 filter_count = $9, write_count = $10, read_skip_count = $11, write_skip_count = $12,
                 process_skip_count = $13, rollback_count = $14,
                 last_updated = coalesce($15, clock_timestamp() at time zone 'UTC')
             from fence
             where s.step_execution_id = $5
               and s.job_execution_id = $6
             returning s.version
         ), context as (
             update batch_step_execution_context c
             set short_context = $16, serialized_context = $17
             from fence
             where c.step_execution_id = $5
               and $16::text is not null
         )
         select step.version, coalesce(e.status = 'STOPPING', false)
         from step
         join batch_job_execution e on e.job_execution_id = $6",
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
    .bind(chunk.context.as_ref().map(|context| context.short.as_str()))
    .bind(chunk.context.as_ref().and_then(|context| context.long))
    .fetch_optional(connection)
    .await
}

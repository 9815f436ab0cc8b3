//! The statement that every chunk ends with.

use super::{ContextColumns, count};
use crate::codec::DbStamp;
use crate::job::ChunkSave;
use crate::statement::statements;

statements! {
    /// Saves a chunk in one round trip: the fence (a lock on the lease that a take-over has to wait for), the counters,
    /// the context, and whether a stop was requested. Returns the new version of the step; `None` if the lease has
    /// moved on, and then nothing was written.
    fn job_chunk_save(
        chunk: &ChunkSave<'_>, context: Option<&ContextColumns<'_>>, now: Option<DbStamp>,
    ) -> Option<(i64, bool)> {
        postgres {
            bind(
                chunk.lease.kind(), chunk.lease.name(), chunk.fence.owner, chunk.fence.epoch,
                chunk.step, chunk.execution, count(chunk.counters.commit), count(chunk.counters.read),
                count(chunk.counters.filter), count(chunk.counters.write), count(chunk.counters.read_skip),
                count(chunk.counters.write_skip), count(chunk.counters.process_skip),
                count(chunk.counters.rollback), now,
                context.map(|context| context.short.as_str()),
                context.and_then(|context| context.long),
            )
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
             select step.version, coalesce(e.status = 'STOPPING', false) from step
             join batch_job_execution e on e.job_execution_id = $6"
        }
        sqlite |tx: Tx| {
            let Some(saved) = tx.job_chunk_save_step(chunk, now).await? else { return Ok(None) };
            if let Some(context) = context {
                tx.job_context_save_of_step(chunk.step, context).await?;
            }
            Ok(Some(saved))
        }
    }

    /// The fence and the counters. On PostgreSQL a part of `job_chunk_save`.
    fn job_chunk_save_step(chunk: &ChunkSave<'_>, now: Option<DbStamp>) -> Option<(i64, bool)> {
        postgres { nothing }
        sqlite {
            bind(
                chunk.lease.kind(), chunk.lease.name(), chunk.fence.owner, chunk.fence.epoch,
                chunk.step, chunk.execution, count(chunk.counters.commit), count(chunk.counters.read),
                count(chunk.counters.filter), count(chunk.counters.write), count(chunk.counters.read_skip),
                count(chunk.counters.write_skip), count(chunk.counters.process_skip),
                count(chunk.counters.rollback), now,
            )
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
                 (select e.status = 'STOPPING' from batch_job_execution e where e.job_execution_id = $6), 0)"
        }
    }
}

//! Statements on `batch_step_execution`, with the one that every chunk ends with, and on `tidemill_reject`.

use super::{ContextColumns, ExitColumns};
use crate::codec::DbStamp;
use crate::job::previous_run::PreviousStep;
use crate::job::{ChunkSave, RejectRecord, RejectRow, StepEnd, StepRecord};
use crate::statement::{One, statements};
use tidemill_domain::job::{ExecutionId, InstanceId, StepExecutionId};
use tidemill_domain::time::Timestamp;

/// The columns of a step with ours.
macro_rules! steps {
    () => {
        "select s.step_execution_id as step_execution_id, s.job_execution_id as job_execution_id,
                s.step_name as step_name, s.version as version, s.status as status,
                coalesce(s.exit_code, '') as exit_code, coalesce(n.exit_text, s.exit_message, '') as exit_message,
                s.create_time as create_time, s.start_time as start_time, s.end_time as end_time,
                s.last_updated as last_updated,
                coalesce(s.commit_count, 0) as commit_count, coalesce(s.read_count, 0) as read_count,
                coalesce(s.filter_count, 0) as filter_count, coalesce(s.write_count, 0) as write_count,
                coalesce(s.read_skip_count, 0) as read_skip_count,
                coalesce(s.write_skip_count, 0) as write_skip_count,
                coalesce(s.process_skip_count, 0) as process_skip_count,
                coalesce(s.rollback_count, 0) as rollback_count, n.total_items as total_items, n.delivery as delivery "
    };
}

statements! {
    /// The last run of a step in its instance. The executions of an instance are sequential, so it belongs to the last
    /// one that has the step. Needs the indexes on the executions of an instance and on the steps of an execution.
    fn job_step_last(instance: InstanceId, step: &str) -> Option<StepRecord> {
        concat!(
            steps!(),
            ", null{::text} as process
             from batch_job_execution e
             join batch_step_execution s on s.job_execution_id = e.job_execution_id
             left join tidemill_step_execution n on n.step_execution_id = s.step_execution_id
             where e.job_instance_id = $1 and s.step_name = $2
             order by e.job_execution_id desc, s.step_execution_id desc limit 1"
        )
    }

    /// The previous run of a step in any other instance of the job. By the primary key, backwards.
    fn job_step_earlier(job: &str, step: &str, other_than: i64, before: i64) -> Option<PreviousStep> {
        "select s.step_execution_id as step_execution_id, s.job_execution_id as job_execution_id, s.status as status,
                e.status as job_status, coalesce(c.serialized_context, c.short_context) as context
         from batch_step_execution s
         join batch_job_execution e on e.job_execution_id = s.job_execution_id
         join batch_job_instance i on i.job_instance_id = e.job_instance_id
         left join batch_step_execution_context c on c.step_execution_id = s.step_execution_id
         where i.job_name = $1 and s.step_name = $2 and i.job_instance_id <> $3 and s.step_execution_id < $4
         order by s.step_execution_id desc limit 1"
    }

    /// Counts at most `counted_max` starts in the instance.
    fn job_step_starts(instance: InstanceId, step: &str, counted_max: u32) -> One<i64> {
        "select count(*)
         from (
             select 1
             from batch_job_execution e
             join batch_step_execution s on s.job_execution_id = e.job_execution_id
             where e.job_instance_id = $1
               and s.step_name = $2
             order by e.job_execution_id
             limit $3
         ) counted"
    }

    fn job_step_insert(execution: ExecutionId, step: &str, now: DbStamp) -> One<i64> {
        bind(step, execution, now)
        "insert into batch_step_execution
             (step_execution_id, version, step_name, job_execution_id, create_time, start_time, status,
              commit_count, read_count, filter_count, write_count, read_skip_count, write_skip_count,
              process_skip_count, rollback_count, exit_code, exit_message, last_updated)
         values ({next batch_step_execution_seq}, 0, $1, $2, $3, $3, 'STARTED', 0, 0, 0, 0, 0, 0, 0, 0,
                 'EXECUTING', '', $3)
         returning step_execution_id"
    }

    /// Waits for all transactions that write the step; `None` if there is no such step. After a lost commit answer it
    /// shows whether the chunk was recorded.
    pub fn Jobs::settled_version(id: StepExecutionId) -> Option<i64> {
        "select version from batch_step_execution where step_execution_id = $1 {for update}"
    }

    fn job_step_save_end(end: &StepEnd<'_>, exit: &ExitColumns, now: DbStamp) -> u64 {
        bind(
            end.id, end.execution, end.status.as_str(), &exit.code, &exit.message, now,
            end.counters.commit, end.counters.read, end.counters.filter,
            end.counters.write, end.counters.read_skip, end.counters.write_skip,
            end.counters.process_skip, end.counters.rollback,
        )
        "update batch_step_execution
         set version = version + 1, status = $3, exit_code = $4, exit_message = $5, end_time = $6,
             last_updated = $6, commit_count = $7, read_count = $8, filter_count = $9, write_count = $10,
             read_skip_count = $11, write_skip_count = $12, process_skip_count = $13, rollback_count = $14
         where step_execution_id = $1 and job_execution_id = $2"
    }

    /// Ends the running steps of an execution that no process runs.
    fn job_step_fail_running(execution: ExecutionId, message: &str, now: DbStamp) -> () {
        "update batch_step_execution
         set version = version + 1, status = 'FAILED', exit_code = 'FAILED', exit_message = $2, end_time = $3,
             last_updated = $3
         where job_execution_id = $1 and status in ('STARTING', 'STARTED', 'STOPPING')"
    }

    /// The same for steps with unknown end, on an operator's word.
    fn job_step_fail_unknown(execution: ExecutionId, message: &str, now: DbStamp) -> () {
        "update batch_step_execution
         set version = version + 1, status = 'FAILED', exit_code = 'FAILED', exit_message = $2,
             end_time = coalesce(end_time, $3), last_updated = $3
         where job_execution_id = $1 and status = 'UNKNOWN'"
    }

    /// In the order in which they were started.
    pub fn Jobs::steps(execution: ExecutionId) -> Vec<StepRecord> {
        concat!(
            steps!(),
            ", r.name as process
             from batch_step_execution s
             left join tidemill_step_execution n on n.step_execution_id = s.step_execution_id
             left join tidemill_partition p on p.step_execution_id = s.step_execution_id
             left join tidemill_process r on r.id = p.owner
             where s.job_execution_id = $1 order by s.step_execution_id"
        )
    }

    fn job_reject_insert(step: StepExecutionId, rows: &[RejectRow], now: Timestamp) -> () {
        for row in rows
        bind(step, now, row.phase, &row.kind, &row.error, &row.place, &row.item)
        "insert into tidemill_reject (step_execution_id, at, phase, kind, error, place, item)
         values ($1, $2, $3, $4, $5, $6, $7)"
    }

    /// In order.
    pub fn Jobs::rejects(step: StepExecutionId, after: i64, limit: u32) -> Vec<RejectRecord> {
        "select id, at, phase, kind, error, place, item from tidemill_reject
         where step_execution_id = $1 and id > $2 order by id limit $3"
    }

    /// Saves a chunk in one round trip: the fence (a lock on the lease that a take-over has to wait for), the counters,
    /// the context, and whether a stop was requested. Returns the new version of the step; `None` if the lease has
    /// moved on, and then nothing was written.
    fn job_chunk_save(
        chunk: &ChunkSave<'_>, context: Option<&ContextColumns<'_>>, now: Option<DbStamp>,
    ) -> Option<(i64, bool)> {
        postgres {
            bind(
                chunk.lease.kind(), chunk.lease.name(), chunk.fence.owner, chunk.fence.epoch,
                chunk.step, chunk.execution, chunk.counters.commit, chunk.counters.read,
                chunk.counters.filter, chunk.counters.write, chunk.counters.read_skip,
                chunk.counters.write_skip, chunk.counters.process_skip,
                chunk.counters.rollback, now,
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
                chunk.step, chunk.execution, chunk.counters.commit, chunk.counters.read,
                chunk.counters.filter, chunk.counters.write, chunk.counters.read_skip,
                chunk.counters.write_skip, chunk.counters.process_skip,
                chunk.counters.rollback, now,
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

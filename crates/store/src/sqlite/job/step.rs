//! Statements on `batch_step_execution`.

use super::sequence;
use crate::codec::DbStamp;
use crate::row::job::{EarlierStepRow, StepRow};
use crate::tx::StepEndRow;
use sqlx::SqliteConnection;

/// The last run of a step in its instance. The executions of an instance follow each other, so it belongs to the last
/// one that has the step. Needs the indexes on the executions of an instance and on the steps of an execution.
pub(crate) async fn last(
    connection: &mut SqliteConnection,
    instance: i64,
    step: &str,
) -> Result<Option<StepRow>, sqlx::Error> {
    sqlx::query_as(
        "select s.step_execution_id as step_execution_id, s.job_execution_id as job_execution_id,
                s.step_name as step_name, s.version as version, s.status as status,
                coalesce(s.exit_code, '') as exit_code,
                coalesce(n.exit_text, s.exit_message, '') as exit_message,
                s.create_time as create_time, s.start_time as start_time, s.end_time as end_time,
                s.last_updated as last_updated,
                coalesce(s.commit_count, 0) as commit_count, coalesce(s.read_count, 0) as read_count,
                coalesce(s.filter_count, 0) as filter_count, coalesce(s.write_count, 0) as write_count,
                coalesce(s.read_skip_count, 0) as read_skip_count,
                coalesce(s.write_skip_count, 0) as write_skip_count,
                coalesce(s.process_skip_count, 0) as process_skip_count,
                coalesce(s.rollback_count, 0) as rollback_count, n.total_items as total_items,
                n.delivery as delivery
         from batch_job_execution e
         join batch_step_execution s on s.job_execution_id = e.job_execution_id
         left join tidemill_step_execution n on n.step_execution_id = s.step_execution_id
         where e.job_instance_id = $1
           and s.step_name = $2
         order by e.job_execution_id desc, s.step_execution_id desc
         limit 1",
    )
    .bind(instance)
    .bind(step)
    .fetch_optional(connection)
    .await
}

/// The run of a step before this one, in whichever other instance of the job. By the primary key, backwards.
pub(crate) async fn earlier(
    connection: &mut SqliteConnection,
    (job, step): (&str, &str),
    other_than: i64,
    before: i64,
) -> Result<Option<EarlierStepRow>, sqlx::Error> {
    sqlx::query_as(
        "select s.step_execution_id, s.job_execution_id, s.status, e.status as job_status,
                coalesce(c.serialized_context, c.short_context) as context
         from batch_step_execution s
         join batch_job_execution e on e.job_execution_id = s.job_execution_id
         join batch_job_instance i on i.job_instance_id = e.job_instance_id
         left join batch_step_execution_context c on c.step_execution_id = s.step_execution_id
         where i.job_name = $1
           and s.step_name = $2
           and i.job_instance_id <> $3
           and s.step_execution_id < $4
         order by s.step_execution_id desc
         limit 1",
    )
    .bind(job)
    .bind(step)
    .bind(other_than)
    .bind(before)
    .fetch_optional(connection)
    .await
}

/// How often a step was started in its instance; no more than `counted_max` are counted.
pub(crate) async fn starts(
    connection: &mut SqliteConnection,
    instance: i64,
    step: &str,
    counted_max: i64,
) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "select count(*)
         from (
             select 1
             from batch_job_execution e
             join batch_step_execution s on s.job_execution_id = e.job_execution_id
             where e.job_instance_id = $1
               and s.step_name = $2
             order by e.job_execution_id
             limit $3
         ) counted",
    )
    .bind(instance)
    .bind(step)
    .bind(counted_max)
    .fetch_one(connection)
    .await
}

pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    execution: i64,
    step: &str,
    now: DbStamp,
) -> Result<i64, sqlx::Error> {
    let id = sequence::next_step(&mut *connection).await?;
    sqlx::query_scalar(
        "insert into batch_step_execution
             (step_execution_id, version, step_name, job_execution_id, create_time, start_time, status,
              commit_count, read_count, filter_count, write_count, read_skip_count, write_skip_count,
              process_skip_count, rollback_count, exit_code, exit_message, last_updated)
         values ($1, 0, $2, $3, $4, $4, 'STARTED',
                 0, 0, 0, 0, 0, 0, 0, 0, 'EXECUTING', '', $4)
         returning step_execution_id",
    )
    .bind(id)
    .bind(step)
    .bind(execution)
    .bind(now)
    .fetch_one(connection)
    .await
}

/// Nobody else writes while this transaction does, so what is read here is the outcome.
pub(crate) async fn lock_version(
    connection: &mut SqliteConnection,
    id: i64,
) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "select version
         from batch_step_execution
         where step_execution_id = $1",
    )
    .bind(id)
    .fetch_optional(connection)
    .await
}

pub(crate) async fn save_end(
    connection: &mut SqliteConnection,
    end: &StepEndRow<'_>,
) -> Result<u64, sqlx::Error> {
    let count = &end.counters;
    let done = sqlx::query(
        "update batch_step_execution
         set version = version + 1, status = $3, exit_code = $4, exit_message = $5, end_time = $6,
             last_updated = $6, commit_count = $7, read_count = $8, filter_count = $9, write_count = $10,
             read_skip_count = $11, write_skip_count = $12, process_skip_count = $13, rollback_count = $14
         where step_execution_id = $1
           and job_execution_id = $2",
    )
    .bind(end.id)
    .bind(end.execution)
    .bind(end.status.as_str())
    .bind(&end.exit.code)
    .bind(&end.exit.message)
    .bind(end.now)
    .bind(count.commit)
    .bind(count.read)
    .bind(count.filter)
    .bind(count.write)
    .bind(count.read_skip)
    .bind(count.write_skip)
    .bind(count.process_skip)
    .bind(count.rollback)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

/// Ends what counts as running in an execution, in which nobody runs it any more.
pub(crate) async fn fail_running(
    connection: &mut SqliteConnection,
    execution: i64,
    message: &str,
    now: DbStamp,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update batch_step_execution
         set version = version + 1, status = 'FAILED', exit_code = 'FAILED', exit_message = $2, end_time = $3,
             last_updated = $3
         where job_execution_id = $1
           and status in ('STARTING', 'STARTED', 'STOPPING')",
    )
    .bind(execution)
    .bind(message)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}

/// The same for steps whose end nobody knows, on an operator's word.
pub(crate) async fn fail_unknown(
    connection: &mut SqliteConnection,
    execution: i64,
    message: &str,
    now: DbStamp,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update batch_step_execution
         set version = version + 1, status = 'FAILED', exit_code = 'FAILED', exit_message = $2,
             end_time = coalesce(end_time, $3), last_updated = $3
         where job_execution_id = $1
           and status = 'UNKNOWN'",
    )
    .bind(execution)
    .bind(message)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn of_execution(
    connection: &mut SqliteConnection,
    execution: i64,
) -> Result<Vec<StepRow>, sqlx::Error> {
    sqlx::query_as(
        "select s.step_execution_id as step_execution_id, s.job_execution_id as job_execution_id,
                s.step_name as step_name, s.version as version, s.status as status,
                coalesce(s.exit_code, '') as exit_code,
                coalesce(n.exit_text, s.exit_message, '') as exit_message,
                s.create_time as create_time, s.start_time as start_time, s.end_time as end_time,
                s.last_updated as last_updated,
                coalesce(s.commit_count, 0) as commit_count, coalesce(s.read_count, 0) as read_count,
                coalesce(s.filter_count, 0) as filter_count, coalesce(s.write_count, 0) as write_count,
                coalesce(s.read_skip_count, 0) as read_skip_count,
                coalesce(s.write_skip_count, 0) as write_skip_count,
                coalesce(s.process_skip_count, 0) as process_skip_count,
                coalesce(s.rollback_count, 0) as rollback_count, n.total_items as total_items,
                n.delivery as delivery, r.name as process
         from batch_step_execution s
         left join tidemill_step_execution n on n.step_execution_id = s.step_execution_id
         left join tidemill_partition p on p.step_execution_id = s.step_execution_id
         left join tidemill_process r on r.id = p.owner
         where s.job_execution_id = $1
         order by s.step_execution_id",
    )
    .bind(execution)
    .fetch_all(connection)
    .await
}

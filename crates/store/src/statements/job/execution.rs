//! Statements on `batch_job_execution` and on the contexts of jobs and steps, whose long column has the whole text when
//! the short one has only its beginning.
//!
//! Also ids on SQLite, which has no sequences: a table with one row replaces each, under the name that Spring Batch
//! uses.

use super::ContextColumns;
use crate::codec::DbStamp;
use crate::job::execution::ExecutionHead;
use crate::statement::statements;
use crate::tx::StatusChange;
use sqlx::SqliteConnection;
use tidemill_domain::job::{ExecutionId, StepExecutionId};

statements! {
    /// `None` if the instance has an execution without an end: the partial index ensures it for every program.
    fn job_execution_insert(instance: i64, now: DbStamp) -> Option<i64> {
        postgres {
            "insert into batch_job_execution
                 (job_execution_id, version, job_instance_id, create_time, status, exit_code, exit_message,
                  last_updated)
             values (nextval('batch_job_execution_seq'), 0, $1, $2, 'STARTING', 'UNKNOWN', '', $2)
             on conflict (job_instance_id) where status in ('STARTING', 'STARTED', 'STOPPING', 'UNKNOWN')
                 do nothing
             returning job_execution_id"
        }
        sqlite |connection| {
            let id = next_execution(&mut *connection).await?;
            sqlx::query_scalar(
                "insert into batch_job_execution
                     (job_execution_id, version, job_instance_id, create_time, status, exit_code, exit_message,
                      last_updated)
                 values ($1, 0, $2, $3, 'STARTING', 'UNKNOWN', '', $3)
                 on conflict (job_instance_id) where status in ('STARTING', 'STARTED', 'STOPPING', 'UNKNOWN')
                     do nothing
                 returning job_execution_id",
            )
            .bind(id)
            .bind(instance)
            .bind(now)
            .fetch_optional(connection)
            .await
        }
    }

    /// Without a lock, for callers that have to lock other rows first.
    fn job_execution_find(id: ExecutionId) -> Option<ExecutionHead> {
        "select job_execution_id as job_execution_id, job_instance_id as job_instance_id, status as status
         from batch_job_execution where job_execution_id = $1"
    }

    /// Its instance, and the name of the job.
    fn job_execution_job(id: ExecutionId) -> Option<(i64, String)> {
        "select i.job_instance_id, i.job_name from batch_job_execution e
         join batch_job_instance i on i.job_instance_id = e.job_instance_id
         where e.job_execution_id = $1"
    }

    fn job_execution_lock(id: ExecutionId) -> Option<ExecutionHead> {
        "select job_execution_id as job_execution_id, job_instance_id as job_instance_id, status as status
         from batch_job_execution where job_execution_id = $1 {for no key update}"
    }

    /// Absent values stay unchanged. Increments the version, by which Spring's programs notice the change.
    fn job_execution_save_status(change: &StatusChange<'_>) -> () {
        bind(
            change.id, change.status.as_str(), change.started_at, change.ended_at,
            change.exit.map(|exit| exit.code.as_str()), change.exit.map(|exit| exit.message.as_str()),
            change.now,
        )
        "update batch_job_execution
         set status = $2, version = coalesce(version, 0) + 1, start_time = coalesce($3, start_time),
             end_time = coalesce($4, end_time), exit_code = coalesce($5, exit_code),
             exit_message = coalesce($6, exit_message), last_updated = $7
         where job_execution_id = $1"
    }

    fn job_context_insert_of_job(execution: i64, context: &ContextColumns<'_>) -> () {
        bind(execution, &context.short, context.long)
        "insert into batch_job_execution_context (job_execution_id, short_context, serialized_context)
         values ($1, $2, $3)"
    }

    fn job_context_save_of_job(execution: ExecutionId, context: &ContextColumns<'_>) -> () {
        bind(execution, &context.short, context.long)
        "update batch_job_execution_context set short_context = $2, serialized_context = $3
         where job_execution_id = $1"
    }

    fn job_context_of_job(execution: i64) -> Option<String> {
        "select coalesce(serialized_context, short_context) from batch_job_execution_context
         where job_execution_id = $1"
    }

    fn job_context_insert_of_step(step: i64, context: &ContextColumns<'_>) -> () {
        bind(step, &context.short, context.long)
        "insert into batch_step_execution_context (step_execution_id, short_context, serialized_context)
         values ($1, $2, $3)"
    }

    fn job_context_save_of_step(step: StepExecutionId, context: &ContextColumns<'_>) -> () {
        bind(step, &context.short, context.long)
        "update batch_step_execution_context set short_context = $2, serialized_context = $3
         where step_execution_id = $1"
    }

    fn job_context_of_step(step: i64) -> Option<String> {
        "select coalesce(serialized_context, short_context) from batch_step_execution_context
         where step_execution_id = $1"
    }
}

/// Draws the next id from the table of a sequence, and deletes earlier ones.
async fn next(
    connection: &mut SqliteConnection,
    insert: &'static str,
    delete: &'static str,
) -> Result<i64, sqlx::Error> {
    let id: i64 = sqlx::query_scalar(insert).fetch_one(&mut *connection).await?;
    sqlx::query(delete).bind(id).execute(connection).await?;
    Ok(id)
}

pub(super) async fn next_instance(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    let insert = "insert into batch_job_seq default values returning id";
    next(connection, insert, "delete from batch_job_seq where id < $1").await
}

pub(super) async fn next_execution(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    let insert = "insert into batch_job_execution_seq default values returning id";
    next(connection, insert, "delete from batch_job_execution_seq where id < $1").await
}

pub(super) async fn next_step(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    let insert = "insert into batch_step_execution_seq default values returning id";
    next(connection, insert, "delete from batch_step_execution_seq where id < $1").await
}

/// The first of `count` consecutive ids.
pub(super) async fn next_steps(connection: &mut SqliteConnection, count: usize) -> Result<i64, sqlx::Error> {
    let first = next_step(&mut *connection).await?;
    let last = first + i64::try_from(count).unwrap_or(i64::MAX - first).max(1) - 1;
    if last > first {
        sqlx::query("delete from batch_step_execution_seq").execute(&mut *connection).await?;
        sqlx::query("insert into batch_step_execution_seq (id) values ($1)")
            .bind(last)
            .execute(connection)
            .await?;
    }
    Ok(first)
}

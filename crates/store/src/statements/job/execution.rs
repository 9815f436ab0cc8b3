//! Statements on `batch_job_execution`, its parameters, the contexts of jobs and steps, whose long column has the whole
//! text when the short one has only its beginning, and our columns beside Spring's (`tidemill_job_execution`,
//! `tidemill_step_execution`).

use super::ContextColumns;
use crate::codec::DbStamp;
use crate::job::LaunchRequest;
use crate::job::execution::ExecutionHead;
use crate::job::list::ExecutionNote;
use crate::job::record::ParameterRow;
use crate::statement::{list, rows, statements};
use crate::tx::StatusChange;
use serde_json::json;
use sqlx::SqliteConnection;
use tidemill_domain::job::{ExecutionId, JobParameter, StepExecutionId};
use tidemill_domain::time::Timestamp;

statements! {
    /// Draws the id that `{next …}` uses. SQLite has no sequences: a table with one row replaces each, under the name
    /// that Spring Batch uses.
    fn job_draw_id(sequence: Sequence) -> () {
        postgres { nothing }
        sqlite |connection| {
            sqlx::raw_sql(sequence.draw()).execute(connection).await.map(drop)
        }
    }

    /// `None` if the instance has an execution without an end: the partial index ensures it for every program.
    fn job_execution_insert(instance: i64, now: DbStamp) -> Option<i64> {
        "insert into batch_job_execution
             (job_execution_id, version, job_instance_id, create_time, status, exit_code, exit_message, last_updated)
         values ({next batch_job_execution_seq}, 0, $1, $2, 'STARTING', 'UNKNOWN', '', $2)
         on conflict (job_instance_id) where status in ('STARTING', 'STARTED', 'STOPPING', 'UNKNOWN') do nothing
         returning job_execution_id"
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

/// Whose ids to draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sequence {
    Instance,
    Execution,
    Step,
}

impl Sequence {
    const fn draw(self) -> &'static str {
        match self {
            Self::Instance => {
                "insert into batch_job_seq default values;
                 delete from batch_job_seq where id < (select max(id) from batch_job_seq)"
            }
            Self::Execution => {
                "insert into batch_job_execution_seq default values;
                 delete from batch_job_execution_seq where id < (select max(id) from batch_job_execution_seq)"
            }
            Self::Step => {
                "insert into batch_step_execution_seq default values;
                 delete from batch_step_execution_seq where id < (select max(id) from batch_step_execution_seq)"
            }
        }
    }
}

/// The first of `count` consecutive ids of steps.
pub(super) async fn next_steps(connection: &mut SqliteConnection, count: usize) -> Result<i64, sqlx::Error> {
    sqlx::raw_sql(Sequence::Step.draw()).execute(&mut *connection).await?;
    let first: i64 = sqlx::query_scalar("select max(id) from batch_step_execution_seq")
        .fetch_one(&mut *connection)
        .await?;
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

statements! {
    fn job_parameter_insert(execution: i64, parameters: &[(&str, &JobParameter)]) -> () {
        bind(
            execution,
            rows(parameters, |(name, parameter)| json!({
                "name": name, "type": parameter.value.kind().java_class(), "value": parameter.value.stored_text(),
                "identifying": if parameter.is_identifying { "Y" } else { "N" },
            })),
        )
        "insert into batch_job_execution_params
             (job_execution_id, parameter_name, parameter_type, parameter_value, identifying)
         select $1, name, type, value, identifying
         from {rows new $2: name text, type text, value text, identifying text}"
    }

    fn job_parameter_of_executions(executions: &[i64]) -> Vec<ParameterRow> {
        bind(list(executions))
        "select job_execution_id as job_execution_id, parameter_name as parameter_name,
                parameter_type as parameter_type, coalesce(parameter_value, '') as parameter_value,
                identifying as identifying
         from batch_job_execution_params where job_execution_id {in $1}
         order by job_execution_id, parameter_name {collate C}"
    }

    fn job_note_insert(execution: i64, request: &LaunchRequest<'_>) -> () {
        bind(
            execution, request.by, &request.actor.name, request.on_crash.as_str(),
            i64::from(request.on_crash.limit()), request.crash_restarts, request.fingerprint,
        )
        "insert into tidemill_job_execution
             (job_execution_id, owner, launched_by, on_crash, crash_restart_limit, crash_restarts, fingerprint)
         values ($1, $2, $3, $4, $5, $6, $7)"
    }

    fn job_note_find(execution: i64) -> Option<ExecutionNote> {
        "select job_execution_id, owner, on_crash, crash_restart_limit, restart_due, stop_requested_at,
                stop_requested_by, stop_reason, fingerprint
         from tidemill_job_execution where job_execution_id = $1"
    }

    /// Records that a step of `outer` launched `inner`, so that retention does not delete it first.
    pub fn Jobs::note_outer(inner: ExecutionId, outer: ExecutionId) -> () {
        "update tidemill_job_execution set outer_execution_id = $2 where job_execution_id = $1"
    }

    /// Keeps the first request.
    fn job_note_save_stop(execution: i64, by: &str, reason: Option<&str>, now: Timestamp) -> () {
        bind(execution, now, by, reason)
        "update tidemill_job_execution set stop_requested_at = $2, stop_requested_by = $3, stop_reason = $4
         where job_execution_id = $1 and stop_requested_at is null"
    }

    /// `exit_text` only if it did not fit its column.
    fn job_note_save_end(execution: i64, exit_text: Option<&str>, restart_due: bool) -> () {
        "update tidemill_job_execution set exit_text = $2, restart_due = $3 where job_execution_id = $1"
    }

    /// Any launch is the restart that was due. Reads the few that are due, not the many of the instance.
    fn job_note_clear_restart_due(instance: i64) -> () {
        "update tidemill_job_execution set restart_due = false
         where restart_due {= 1}
           and exists (
               select 1
               from batch_job_execution e
               where e.job_execution_id = tidemill_job_execution.job_execution_id
                 and e.job_instance_id = $1
           )"
    }

    /// Absent values stay unchanged.
    fn job_note_save_step(
        step: StepExecutionId, total_items: Option<i64>, delivery: Option<&str>, exit_text: Option<&str>,
    ) -> () {
        "insert into tidemill_step_execution as s (step_execution_id, total_items, delivery, exit_text)
         values ($1, $2, $3, $4)
         on conflict (step_execution_id) do update
         set total_items = coalesce(excluded.total_items, s.total_items),
             delivery = coalesce(excluded.delivery, s.delivery),
             exit_text = coalesce(excluded.exit_text, s.exit_text)"
    }
}

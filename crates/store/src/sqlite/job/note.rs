//! Statements on `tidemill_job_execution` and `tidemill_step_execution`: what we know beyond Spring's columns.

use crate::codec::DbTime;
use crate::row::job::ExecutionNoteRow;
use sqlx::SqliteConnection;

pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    row: &ExecutionNoteRow,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tidemill_job_execution
             (job_execution_id, owner, launched_by, on_crash, crash_restart_limit, crash_restarts, fingerprint)
         values ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(row.job_execution_id)
    .bind(row.owner)
    .bind(&row.launched_by)
    .bind(&row.on_crash)
    .bind(row.crash_restart_limit)
    .bind(row.crash_restarts)
    .bind(&row.fingerprint)
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn find(
    connection: &mut SqliteConnection,
    execution: i64,
) -> Result<Option<ExecutionNoteRow>, sqlx::Error> {
    sqlx::query_as(
        "select job_execution_id, owner, launched_by, on_crash, crash_restart_limit, crash_restarts, restart_due,
                stop_requested_at, stop_requested_by, stop_reason, fingerprint
         from tidemill_job_execution
         where job_execution_id = $1",
    )
    .bind(execution)
    .fetch_optional(connection)
    .await
}

/// Which execution of another job launched this one as a step.
pub(crate) async fn save_outer(
    connection: &mut SqliteConnection,
    execution: i64,
    outer: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_job_execution
         set outer_execution_id = $2
         where job_execution_id = $1",
    )
    .bind(execution)
    .bind(outer)
    .execute(connection)
    .await?;
    Ok(())
}

/// Who asked first is kept.
pub(crate) async fn save_stop(
    connection: &mut SqliteConnection,
    execution: i64,
    by: &str,
    reason: Option<&str>,
    now: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_job_execution
         set stop_requested_at = $2, stop_requested_by = $3, stop_reason = $4
         where job_execution_id = $1
           and stop_requested_at is null",
    )
    .bind(execution)
    .bind(now)
    .bind(by)
    .bind(reason)
    .execute(connection)
    .await?;
    Ok(())
}

/// The text is there only when it did not fit the column for it.
pub(crate) async fn save_end(
    connection: &mut SqliteConnection,
    execution: i64,
    exit_text: Option<&str>,
    restart_due: bool,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_job_execution
         set exit_text = $2, restart_due = $3
         where job_execution_id = $1",
    )
    .bind(execution)
    .bind(exit_text)
    .bind(restart_due)
    .execute(connection)
    .await?;
    Ok(())
}

/// A launch, by whomever, is the restart that was due. Looks at the few that are due, not at the many of the instance.
pub(crate) async fn clear_restart_due(
    connection: &mut SqliteConnection,
    instance: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_job_execution
         set restart_due = 0
         where restart_due = 1
           and exists (
               select 1
               from batch_job_execution e
               where e.job_execution_id = tidemill_job_execution.job_execution_id
                 and e.job_instance_id = $1
           )",
    )
    .bind(instance)
    .execute(connection)
    .await?;
    Ok(())
}

/// What is absent stays as it is.
pub(crate) async fn save_step(
    connection: &mut SqliteConnection,
    step: i64,
    total_items: Option<i64>,
    delivery: Option<&str>,
    exit_text: Option<&str>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tidemill_step_execution as s (step_execution_id, total_items, delivery, exit_text)
         values ($1, $2, $3, $4)
         on conflict (step_execution_id) do update
         set total_items = coalesce(excluded.total_items, s.total_items),
             delivery = coalesce(excluded.delivery, s.delivery),
             exit_text = coalesce(excluded.exit_text, s.exit_text)",
    )
    .bind(step)
    .bind(total_items)
    .bind(delivery)
    .bind(exit_text)
    .execute(connection)
    .await?;
    Ok(())
}

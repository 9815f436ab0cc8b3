//! Statements on `batch_job_execution`.

use crate::codec::DbStamp;
use crate::row::job::ExecutionHeadRow;
use crate::tx::StatusChange;
use sqlx::PgConnection;

/// None when the instance has an execution without an end: the partial index says so, whoever wrote that one.
pub(crate) async fn insert(
    connection: &mut PgConnection,
    instance: i64,
    now: DbStamp,
) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "insert into batch_job_execution
             (job_execution_id, version, job_instance_id, create_time, status, exit_code, exit_message,
              last_updated)
         values (nextval('batch_job_execution_seq'), 0, $1, $2, 'STARTING', 'UNKNOWN', '', $2)
         on conflict (job_instance_id) where status in ('STARTING', 'STARTED', 'STOPPING', 'UNKNOWN')
             do nothing
         returning job_execution_id",
    )
    .bind(instance)
    .bind(now)
    .fetch_optional(connection)
    .await
}

/// Without a lock: for who has to lock something else first.
pub(crate) async fn find(
    connection: &mut PgConnection,
    id: i64,
) -> Result<Option<ExecutionHeadRow>, sqlx::Error> {
    sqlx::query_as(
        "select job_execution_id, job_instance_id, status
         from batch_job_execution
         where job_execution_id = $1",
    )
    .bind(id)
    .fetch_optional(connection)
    .await
}

/// Its instance, and the name of the job.
pub(crate) async fn job(
    connection: &mut PgConnection,
    id: i64,
) -> Result<Option<(i64, String)>, sqlx::Error> {
    sqlx::query_as(
        "select i.job_instance_id, i.job_name
         from batch_job_execution e
         join batch_job_instance i on i.job_instance_id = e.job_instance_id
         where e.job_execution_id = $1",
    )
    .bind(id)
    .fetch_optional(connection)
    .await
}

pub(crate) async fn lock(
    connection: &mut PgConnection,
    id: i64,
) -> Result<Option<ExecutionHeadRow>, sqlx::Error> {
    sqlx::query_as(
        "select job_execution_id, job_instance_id, status
         from batch_job_execution
         where job_execution_id = $1
         for no key update",
    )
    .bind(id)
    .fetch_optional(connection)
    .await
}

/// What is absent stays as it is. The version grows, by which Spring's programs notice the change.
pub(crate) async fn save_status(
    connection: &mut PgConnection,
    change: &StatusChange<'_>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update batch_job_execution
         set status = $2, version = coalesce(version, 0) + 1, start_time = coalesce($3, start_time),
             end_time = coalesce($4, end_time), exit_code = coalesce($5, exit_code),
             exit_message = coalesce($6, exit_message), last_updated = $7
         where job_execution_id = $1",
    )
    .bind(change.id)
    .bind(change.status.as_str())
    .bind(change.started_at)
    .bind(change.ended_at)
    .bind(change.exit.map(|exit| exit.code.as_str()))
    .bind(change.exit.map(|exit| exit.message.as_str()))
    .bind(change.now)
    .execute(connection)
    .await?;
    Ok(())
}

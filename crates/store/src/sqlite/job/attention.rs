//! Statements about executions that somebody may have to look at. All are bounded, and find their rows by the index on
//! the status.

use crate::codec::DbStamp;
use crate::row::job::FailureRow;
use sqlx::SqliteConnection;

/// How many have not ended, counted up to `limit`.
pub(crate) async fn running(connection: &mut SqliteConnection, limit: i64) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "select count(*)
         from (
             select 1
             from batch_job_execution
             where status in ('STARTING', 'STARTED', 'STOPPING')
             limit $1
         ) as counted",
    )
    .bind(limit)
    .fetch_one(connection)
    .await
}

/// How many of the last `limit` that failed ended since an instant.
pub(crate) async fn failed_since(
    connection: &mut SqliteConnection,
    since: DbStamp,
    limit: i64,
) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "select count(*)
         from (
             select end_time
             from batch_job_execution
             where status = 'FAILED'
             order by job_execution_id desc
             limit $2
         ) as latest
         where end_time >= $1",
    )
    .bind(since)
    .bind(limit)
    .fetch_one(connection)
    .await
}

/// Of the last `limit` that failed, those that nobody has gone on with, the newest first.
pub(crate) async fn failures(
    connection: &mut SqliteConnection,
    limit: i64,
) -> Result<Vec<FailureRow>, sqlx::Error> {
    sqlx::query_as(
        "select e.job_execution_id as job_execution_id, i.job_name as job_name, e.end_time as end_time,
                substr(coalesce(e.exit_message, ''), 1, 300) as message
         from (
             select job_execution_id, job_instance_id, end_time, exit_message
             from batch_job_execution
             where status = 'FAILED'
             order by job_execution_id desc
             limit $1
         ) as e
         join batch_job_instance i on i.job_instance_id = e.job_instance_id
         where not exists (
             select 1
             from batch_job_execution later
             where later.job_instance_id = e.job_instance_id
               and later.job_execution_id > e.job_execution_id
         )
         order by e.job_execution_id desc",
    )
    .bind(limit)
    .fetch_all(connection)
    .await
}

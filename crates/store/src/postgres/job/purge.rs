//! Statements that find and remove what may be forgotten. Lists are bound as arrays.

use crate::codec::DbStamp;
use crate::row::job::RunsRow;
use sqlx::PgConnection;

/// The name of the job that follows this one in their order.
pub(crate) async fn next_job(
    connection: &mut PgConnection,
    after: &str,
) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar(
        "select job_name
         from batch_job_instance
         where job_name > $1
         order by job_name
         limit 1",
    )
    .bind(after)
    .fetch_optional(connection)
    .await
}

/// The newest instance of a job that is not among the newest `keep`.
pub(crate) async fn newest_beyond(
    connection: &mut PgConnection,
    job: &str,
    keep: i64,
) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "select job_instance_id
         from batch_job_instance
         where job_name = $1
         order by job_instance_id desc
         limit 1
         offset $2",
    )
    .bind(job)
    .bind(keep)
    .fetch_optional(connection)
    .await
}

/// Instances of a job behind one and up to another, the oldest first. Needs the index on the instances of a job.
pub(crate) async fn walk(
    connection: &mut PgConnection,
    job: &str,
    after: i64,
    up_to: i64,
    limit: i64,
) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "select job_instance_id
         from batch_job_instance
         where job_name = $1
           and job_instance_id > $2
           and job_instance_id <= $3
         order by job_instance_id
         limit $4",
    )
    .bind(job)
    .bind(after)
    .bind(up_to)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Locks instances, so that a launch of one of them waits; those that somebody has locked are left out. A launch
/// locks its instance without changing it, so what hangs on it has to be read after this.
pub(crate) async fn lock(connection: &mut PgConnection, instances: &[i64]) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "select job_instance_id
         from batch_job_instance
         where job_instance_id = any($1)
         order by job_instance_id
         for update skip locked",
    )
    .bind(instances)
    .fetch_all(connection)
    .await
}

/// The executions of instances by status. Needs the index on the executions of an instance.
pub(crate) async fn runs(
    connection: &mut PgConnection,
    instances: &[i64],
) -> Result<Vec<RunsRow>, sqlx::Error> {
    sqlx::query_as(
        "select job_instance_id, status, min(job_execution_id) as earliest, max(job_execution_id) as latest,
                count(*) as executions
         from batch_job_execution
         where job_instance_id = any($1)
         group by job_instance_id, status
         order by job_instance_id, latest",
    )
    .bind(instances)
    .fetch_all(connection)
    .await
}

/// When executions were made, and when they were over or last changed.
pub(crate) async fn times(
    connection: &mut PgConnection,
    executions: &[i64],
) -> Result<Vec<(i64, DbStamp, DbStamp)>, sqlx::Error> {
    sqlx::query_as(
        "select job_execution_id, create_time, coalesce(end_time, last_updated, create_time)
         from batch_job_execution
         where job_execution_id = any($1)",
    )
    .bind(executions)
    .fetch_all(connection)
    .await
}

/// Those of the instances that have a restart due, and those of which a process holds an execution.
pub(crate) async fn bound(
    connection: &mut PgConnection,
    instances: &[i64],
) -> Result<Vec<(i64, bool, bool)>, sqlx::Error> {
    sqlx::query_as(
        "select e.job_instance_id, coalesce(bool_or(n.restart_due), false), bool_or(l.name is not null)
         from batch_job_execution e
         left join tidemill_job_execution n on n.job_execution_id = e.job_execution_id
         left join tidemill_lease l on l.kind = 'job'
             and l.name = e.job_execution_id::text
             and l.owner is not null
         where e.job_instance_id = any($1)
           and (n.restart_due or l.name is not null)
         group by e.job_instance_id",
    )
    .bind(instances)
    .fetch_all(connection)
    .await
}

/// Of the instances that ran as a step of another job, the status of the last execution of that job's instance.
pub(crate) async fn outers(
    connection: &mut PgConnection,
    instances: &[i64],
) -> Result<Vec<(i64, Option<String>, i64)>, sqlx::Error> {
    sqlx::query_as(
        "select distinct e.job_instance_id, last.status, last.job_execution_id
         from batch_job_execution e
         join tidemill_job_execution n on n.job_execution_id = e.job_execution_id
             and n.outer_execution_id is not null
         join batch_job_execution o on o.job_execution_id = n.outer_execution_id
         join batch_job_execution last on last.job_execution_id = (
             select max(l.job_execution_id)
             from batch_job_execution l
             where l.job_instance_id = o.job_instance_id
         )
         where e.job_instance_id = any($1)",
    )
    .bind(instances)
    .fetch_all(connection)
    .await
}

/// All executions of instances.
pub(crate) async fn executions(
    connection: &mut PgConnection,
    instances: &[i64],
) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "select job_execution_id
         from batch_job_execution
         where job_instance_id = any($1)",
    )
    .bind(instances)
    .fetch_all(connection)
    .await
}

/// All steps of executions.
pub(crate) async fn steps(
    connection: &mut PgConnection,
    executions: &[i64],
) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "select step_execution_id
         from batch_step_execution
         where job_execution_id = any($1)",
    )
    .bind(executions)
    .fetch_all(connection)
    .await
}

pub(crate) async fn delete_rejects(connection: &mut PgConnection, steps: &[i64]) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from tidemill_reject
         where step_execution_id = any($1)",
    )
    .bind(steps)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

pub(crate) async fn delete_step_contexts(
    connection: &mut PgConnection,
    steps: &[i64],
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from batch_step_execution_context
         where step_execution_id = any($1)",
    )
    .bind(steps)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

pub(crate) async fn delete_step_notes(
    connection: &mut PgConnection,
    steps: &[i64],
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from tidemill_step_execution
         where step_execution_id = any($1)",
    )
    .bind(steps)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

/// Behind all that refers to them.
pub(crate) async fn delete_steps(connection: &mut PgConnection, steps: &[i64]) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from batch_step_execution
         where step_execution_id = any($1)",
    )
    .bind(steps)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

pub(crate) async fn delete_parameters(
    connection: &mut PgConnection,
    executions: &[i64],
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from batch_job_execution_params
         where job_execution_id = any($1)",
    )
    .bind(executions)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

pub(crate) async fn delete_contexts(
    connection: &mut PgConnection,
    executions: &[i64],
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from batch_job_execution_context
         where job_execution_id = any($1)",
    )
    .bind(executions)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

pub(crate) async fn delete_notes(
    connection: &mut PgConnection,
    executions: &[i64],
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from tidemill_job_execution
         where job_execution_id = any($1)",
    )
    .bind(executions)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

/// Leases that nobody holds any more.
pub(crate) async fn delete_leases(
    connection: &mut PgConnection,
    executions: &[i64],
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from tidemill_lease
         where kind = 'job'
           and name = any($1::bigint[]::text[])
           and owner is null",
    )
    .bind(executions)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

/// Behind all that refers to them.
pub(crate) async fn delete_executions(
    connection: &mut PgConnection,
    executions: &[i64],
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from batch_job_execution
         where job_execution_id = any($1)",
    )
    .bind(executions)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

/// Behind their executions.
pub(crate) async fn delete_instances(
    connection: &mut PgConnection,
    instances: &[i64],
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from batch_job_instance
         where job_instance_id = any($1)",
    )
    .bind(instances)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

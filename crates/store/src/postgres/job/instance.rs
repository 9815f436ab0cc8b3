//! Statements on `batch_job_instance`, and on the history of one instance.

use sqlx::PgConnection;

/// Serialises the launches of one instance.
pub(crate) async fn lock(
    connection: &mut PgConnection,
    job: &str,
    key: &str,
) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "select job_instance_id
         from batch_job_instance
         where job_name = $1
           and job_key = $2
         for no key update",
    )
    .bind(job)
    .bind(key)
    .fetch_optional(connection)
    .await
}

pub(crate) async fn lock_by_id(connection: &mut PgConnection, id: i64) -> Result<(), sqlx::Error> {
    sqlx::query(
        "select job_instance_id
         from batch_job_instance
         where job_instance_id = $1
         for no key update",
    )
    .bind(id)
    .execute(connection)
    .await?;
    Ok(())
}

/// Waits for whoever is just inserting or removing the same one. One that is there by then is locked by being written as
/// it is, so that nobody can remove it before this transaction has looked at it.
pub(crate) async fn insert(connection: &mut PgConnection, job: &str, key: &str) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "insert into batch_job_instance as i (job_instance_id, version, job_name, job_key)
         values (nextval('batch_job_seq'), 0, $1, $2)
         on conflict (job_name, job_key) do update
         set version = i.version
         returning job_instance_id",
    )
    .bind(job)
    .bind(key)
    .fetch_one(connection)
    .await
}

/// What a launch has to know of the executions of the instance, the latest of all last: those without an end, one that
/// is over for good, and the latest. An instance without identifying parameters may have run a million times, so they
/// are not looked at one by one.
pub(crate) async fn statuses(
    connection: &mut PgConnection,
    id: i64,
) -> Result<Vec<(Option<String>, i64)>, sqlx::Error> {
    sqlx::query_as(
        "select status, job_execution_id
         from (
             select status, job_execution_id
             from batch_job_execution
             where job_instance_id = $1
               and status in ('STARTING', 'STARTED', 'STOPPING', 'UNKNOWN')
             union
             select status, job_execution_id
             from (
                 select status, job_execution_id
                 from batch_job_execution
                 where job_instance_id = $1
                   and status in ('COMPLETED', 'ABANDONED')
                 order by job_execution_id desc
                 limit 1
             ) one_that_is_over
             union
             select status, job_execution_id
             from (
                 select status, job_execution_id
                 from batch_job_execution
                 where job_instance_id = $1
                 order by job_execution_id desc
                 limit 1
             ) latest
         ) known
         order by job_execution_id",
    )
    .bind(id)
    .fetch_all(connection)
    .await
}

/// Names and statuses of the steps of one execution.
pub(crate) async fn step_statuses(
    connection: &mut PgConnection,
    execution: i64,
) -> Result<Vec<(String, Option<String>, i64)>, sqlx::Error> {
    sqlx::query_as(
        "select step_name, status, step_execution_id
         from batch_step_execution
         where job_execution_id = $1
         order by step_execution_id",
    )
    .bind(execution)
    .fetch_all(connection)
    .await
}

/// Like `lock`, without a lock.
pub(crate) async fn find(
    connection: &mut PgConnection,
    job: &str,
    key: &str,
) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "select job_instance_id
         from batch_job_instance
         where job_name = $1
           and job_key = $2",
    )
    .bind(job)
    .bind(key)
    .fetch_optional(connection)
    .await
}

/// The greatest value of an identifying whole-number parameter among all instances of a job.
pub(crate) async fn greatest_long(
    connection: &mut PgConnection,
    job: &str,
    parameter: &str,
) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "select max(case when p.parameter_value ~ '^-?[0-9]{1,18}$' then p.parameter_value::bigint end)
         from batch_job_instance i
         join batch_job_execution e on e.job_instance_id = i.job_instance_id
         join batch_job_execution_params p on p.job_execution_id = e.job_execution_id
         where i.job_name = $1
           and p.parameter_name = $2
           and p.parameter_type = 'java.lang.Long'
           and p.identifying = 'Y'",
    )
    .bind(job)
    .bind(parameter)
    .fetch_one(connection)
    .await
}

/// Whether a step of the instance `outer` has launched the execution that completed this one.
pub(crate) async fn completed_within(
    connection: &mut PgConnection,
    job: &str,
    key: &str,
    outer: i64,
) -> Result<bool, sqlx::Error> {
    let found: Option<i64> = sqlx::query_scalar(
        "select e.job_execution_id
         from batch_job_instance i
         join batch_job_execution e on e.job_instance_id = i.job_instance_id
         join tidemill_job_execution n on n.job_execution_id = e.job_execution_id
         join batch_job_execution o on o.job_execution_id = n.outer_execution_id
         where i.job_name = $1
           and i.job_key = $2
           and e.status = 'COMPLETED'
           and o.job_instance_id = $3
         limit 1",
    )
    .bind(job)
    .bind(key)
    .bind(outer)
    .fetch_optional(connection)
    .await?;
    Ok(found.is_some())
}

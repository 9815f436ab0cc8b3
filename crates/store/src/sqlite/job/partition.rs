//! Statements on `tidemill_partition`, and on the steps that its rows stand for. Lists travel as JSON texts.

use super::sequence;
use crate::codec::{DbId, DbStamp};
use crate::row::job::StepRow;
use crate::row::partition::{ChainRow, ClaimRow, OutcomeRow};
use crate::tx::{ClaimFilterRow, ContextColumns, CounterColumns, ExitColumns, PartitionRows};
use serde_json::json;
use sqlx::SqliteConnection;

fn list(ids: &[i64]) -> String {
    json!(ids).to_string()
}

/// The last run of each partition in an instance, and how many runs there are of it.
pub(crate) async fn known(
    connection: &mut SqliteConnection,
    instance: i64,
    prefix: &str,
) -> Result<Vec<ChainRow>, sqlx::Error> {
    sqlx::query_as(
        "select step_execution_id, job_execution_id, step_name, status, chain_id, starts
         from (
             select s.step_execution_id as step_execution_id, s.job_execution_id as job_execution_id,
                    s.step_name as step_name, s.status as status,
                    coalesce(p.chain_id, s.step_execution_id) as chain_id,
                    count(s.start_time) over (partition by s.step_name) as starts,
                    row_number() over (partition by s.step_name order by s.step_execution_id desc) as place
             from batch_job_execution e
             join batch_step_execution s on s.job_execution_id = e.job_execution_id
             left join tidemill_partition p on p.step_execution_id = s.step_execution_id
             where e.job_instance_id = $1
               and substr(s.step_name, 1, length($2)) = $2
         )
         where place = 1",
    )
    .bind(instance)
    .bind(prefix)
    .fetch_all(connection)
    .await
}

pub(crate) async fn of_manager(
    connection: &mut SqliteConnection,
    manager: i64,
) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "select chain_id
         from tidemill_partition
         where manager_id = $1
         order by step_execution_id",
    )
    .bind(manager)
    .fetch_all(connection)
    .await
}

/// Steps that wait for somebody to run them, in the order of their names.
pub(crate) async fn insert_steps(
    connection: &mut SqliteConnection,
    execution: i64,
    names: &[String],
    now: DbStamp,
) -> Result<Vec<(i64, String)>, sqlx::Error> {
    let first = sequence::next_steps(&mut *connection, names.len()).await?;
    sqlx::query(
        "insert into batch_step_execution
             (step_execution_id, version, step_name, job_execution_id, create_time, status,
              commit_count, read_count, filter_count, write_count, read_skip_count, write_skip_count,
              process_skip_count, rollback_count, exit_code, exit_message, last_updated)
         select $1 + key, 0, value, $3, $4, 'STARTING', 0, 0, 0, 0, 0, 0, 0, 0, 'EXECUTING', '', $4
         from json_each($2)",
    )
    .bind(first)
    .bind(json!(names).to_string())
    .bind(execution)
    .bind(now)
    .execute(connection)
    .await?;
    Ok((first..).zip(names.iter().cloned()).collect())
}

pub(crate) async fn insert_contexts(
    connection: &mut SqliteConnection,
    contexts: &[(i64, ContextColumns<'_>)],
) -> Result<(), sqlx::Error> {
    let rows: Vec<_> =
        contexts.iter().map(|(id, context)| json!([id, context.short, context.long])).collect();
    sqlx::query(
        "insert into batch_step_execution_context (step_execution_id, short_context, serialized_context)
         select json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]')
         from json_each($1)",
    )
    .bind(json!(rows).to_string())
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    rows: &PartitionRows<'_>,
) -> Result<(), sqlx::Error> {
    let steps: Vec<_> = rows.steps.iter().map(|(step, chain)| json!([step, chain])).collect();
    sqlx::query(
        "insert into tidemill_partition
             (step_execution_id, manager_id, job_execution_id, job_name, worker, chain_id, only_process)
         select json_extract(value, '$[0]'), $1, $2, $3, $4, json_extract(value, '$[1]'), $5
         from json_each($6)",
    )
    .bind(rows.manager)
    .bind(rows.execution)
    .bind(rows.job)
    .bind(rows.worker)
    .bind(rows.only_process)
    .bind(json!(steps).to_string())
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn contexts(
    connection: &mut SqliteConnection,
    steps: &[i64],
) -> Result<Vec<(i64, String)>, sqlx::Error> {
    sqlx::query_as(
        "select step_execution_id as id, coalesce(serialized_context, short_context) as context
         from batch_step_execution_context
         where step_execution_id in (select value from json_each($1))",
    )
    .bind(list(steps))
    .fetch_all(connection)
    .await
}

/// Partitions that nobody runs. Who asks for no manager's in particular means those of other processes.
pub(crate) async fn lock_open(
    connection: &mut SqliteConnection,
    filter: &ClaimFilterRow<'_>,
) -> Result<Vec<ClaimRow>, sqlx::Error> {
    let known: Vec<_> =
        filter.known.iter().map(|known| json!([known.job, known.fingerprint, known.step])).collect();
    sqlx::query_as(
        "select p.step_execution_id as step_execution_id,
                p.job_execution_id as job_execution_id, p.job_name as job_name, p.worker as worker
         from json_each($1) known
         join tidemill_partition p on p.job_name = json_extract(known.value, '$[0]')
         join batch_job_execution e on e.job_execution_id = p.job_execution_id
         join tidemill_job_execution n on n.job_execution_id = p.job_execution_id
         where p.is_open = 1
           and n.fingerprint is json_extract(known.value, '$[1]')
           and p.worker = json_extract(known.value, '$[2]')
           and case when $2 is null then n.owner <> $3 else p.manager_id = $2 end
           and (p.only_process is null or p.only_process = $3)
           and e.status in ('STARTING', 'STARTED')
           and not exists (
               select 1 from tidemill_lease l
               where l.kind = 'partition'
                 and l.name = cast(p.step_execution_id as text)
                 and l.owner is not null
           )
         order by p.step_execution_id
         limit $4",
    )
    .bind(json!(known).to_string())
    .bind(filter.manager)
    .bind(filter.by)
    .bind(filter.limit)
    .fetch_all(connection)
    .await
}

/// Notes who runs these.
pub(crate) async fn save_owner(
    connection: &mut SqliteConnection,
    steps: &[i64],
    owner: DbId,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_partition
         set owner = $2
         where step_execution_id in (select value from json_each($1))",
    )
    .bind(list(steps))
    .bind(owner)
    .execute(connection)
    .await?;
    Ok(())
}

/// Notes that these are being run, since when they were first.
pub(crate) async fn begin(
    connection: &mut SqliteConnection,
    steps: &[i64],
    now: DbStamp,
) -> Result<Vec<StepRow>, sqlx::Error> {
    sqlx::query_as(
        "update batch_step_execution
         set version = version + 1, status = 'STARTED', start_time = coalesce(start_time, $2), last_updated = $2
         where step_execution_id in (select value from json_each($1))
         returning step_execution_id as step_execution_id, job_execution_id as job_execution_id,
                   step_name as step_name, version as version, status as status,
                   coalesce(exit_code, '') as exit_code, coalesce(exit_message, '') as exit_message,
                   create_time as create_time, start_time as start_time, end_time as end_time,
                   last_updated as last_updated,
                   coalesce(commit_count, 0) as commit_count, coalesce(read_count, 0) as read_count,
                   coalesce(filter_count, 0) as filter_count, coalesce(write_count, 0) as write_count,
                   coalesce(read_skip_count, 0) as read_skip_count,
                   coalesce(write_skip_count, 0) as write_skip_count,
                   coalesce(process_skip_count, 0) as process_skip_count,
                   coalesce(rollback_count, 0) as rollback_count, null as total_items, null as delivery",
    )
    .bind(list(steps))
    .bind(now)
    .fetch_all(connection)
    .await
}

/// Nobody will run it any more. Answers its manager; nothing when it was closed before.
pub(crate) async fn close(connection: &mut SqliteConnection, step: i64) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "update tidemill_partition
         set is_open = 0
         where step_execution_id = $1
           and is_open = 1
         returning manager_id",
    )
    .bind(step)
    .fetch_optional(connection)
    .await
}

pub(crate) async fn close_all(
    connection: &mut SqliteConnection,
    execution: i64,
) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "update tidemill_partition
         set is_open = 0
         where job_execution_id = $1
           and is_open = 1
         returning step_execution_id",
    )
    .bind(execution)
    .fetch_all(connection)
    .await
}

/// The open ones of a step.
pub(crate) async fn lock_of_manager(
    connection: &mut SqliteConnection,
    manager: i64,
) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "select step_execution_id
         from tidemill_partition
         where manager_id = $1
           and is_open = 1
         order by step_execution_id",
    )
    .bind(manager)
    .fetch_all(connection)
    .await
}

/// Ends those of these that nobody has the lease of, and answers them.
pub(crate) async fn stop_free(
    connection: &mut SqliteConnection,
    steps: &[i64],
    exit: &ExitColumns,
    now: DbStamp,
) -> Result<Vec<i64>, sqlx::Error> {
    let closed: Vec<i64> = sqlx::query_scalar(
        "update tidemill_partition
         set is_open = 0
         where step_execution_id in (select value from json_each($1))
           and not exists (
               select 1 from tidemill_lease l
               where l.kind = 'partition'
                 and l.name = cast(step_execution_id as text)
                 and l.owner is not null
           )
         returning step_execution_id",
    )
    .bind(list(steps))
    .fetch_all(&mut *connection)
    .await?;
    sqlx::query(
        "update batch_step_execution
         set version = version + 1, status = 'STOPPED', exit_code = $2, exit_message = $3, end_time = $4,
             last_updated = $4
         where step_execution_id in (select value from json_each($1))",
    )
    .bind(list(&closed))
    .bind(&exit.code)
    .bind(&exit.message)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(closed)
}

pub(crate) async fn forget_leases(
    connection: &mut SqliteConnection,
    steps: &[i64],
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "delete from tidemill_lease
         where kind = 'partition'
           and name in (select cast(value as text) from json_each($1))",
    )
    .bind(list(steps))
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn count_open(connection: &mut SqliteConnection, manager: i64) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "select count(*)
         from tidemill_partition
         where manager_id = $1
           and is_open = 1",
    )
    .bind(manager)
    .fetch_one(connection)
    .await
}

/// How the partitions of a step ended, each way once, with the first that ended so.
pub(crate) async fn outcomes(
    connection: &mut SqliteConnection,
    manager: i64,
) -> Result<Vec<OutcomeRow>, sqlx::Error> {
    sqlx::query_as(
        "select status, exit_code, partitions, step_execution_id, step_name, exit_message
         from (
             select s.status as status, coalesce(s.exit_code, '') as exit_code,
                    count(*) over (partition by s.status, coalesce(s.exit_code, '')) as partitions,
                    s.step_execution_id as step_execution_id, s.step_name as step_name,
                    coalesce(n.exit_text, s.exit_message, '') as exit_message,
                    row_number() over (
                        partition by s.status, coalesce(s.exit_code, '') order by s.step_execution_id
                    ) as place
             from tidemill_partition p
             join batch_step_execution s on s.step_execution_id = p.step_execution_id
             left join tidemill_step_execution n on n.step_execution_id = s.step_execution_id
             where p.manager_id = $1
         )
         where place = 1",
    )
    .bind(manager)
    .fetch_all(connection)
    .await
}

/// What all runs in these chains have counted.
pub(crate) async fn sum(
    connection: &mut SqliteConnection,
    chains: &[i64],
) -> Result<CounterColumns, sqlx::Error> {
    sqlx::query_as(
        "select coalesce(sum(commit_count), 0) as [commit], coalesce(sum(read_count), 0) as read,
                coalesce(sum(filter_count), 0) as filter, coalesce(sum(write_count), 0) as write,
                coalesce(sum(read_skip_count), 0) as read_skip,
                coalesce(sum(write_skip_count), 0) as write_skip,
                coalesce(sum(process_skip_count), 0) as process_skip,
                coalesce(sum(rollback_count), 0) as [rollback]
         from batch_step_execution
         where step_execution_id in (
             select value from json_each($1)
             union
             select step_execution_id from tidemill_partition
             where chain_id in (select value from json_each($1))
         )",
    )
    .bind(list(chains))
    .fetch_one(connection)
    .await
}

//! Statements on `tidemill_partition`, and on the steps that its rows stand for. Many rows at a time: a step may have
//! thousands of partitions.
//!
//! Locks are taken in the order lease of the execution, partition, lease of the partition, process.

use crate::codec::{DbId, DbStamp};
use crate::row::job::StepRow;
use crate::row::partition::{ChainRow, ClaimRow, OutcomeRow};
use crate::tx::{ClaimFilterRow, ContextColumns, CounterColumns, ExitColumns, PartitionRows};
use sqlx::PgConnection;

/// The last run of each partition in an instance, and how many runs there are of it.
pub(crate) async fn known(
    connection: &mut PgConnection,
    instance: i64,
    prefix: &str,
) -> Result<Vec<ChainRow>, sqlx::Error> {
    sqlx::query_as(
        "select distinct on (s.step_name) s.step_execution_id, s.job_execution_id, s.step_name, s.status,
                coalesce(p.chain_id, s.step_execution_id) as chain_id,
                count(s.start_time) over (partition by s.step_name) as starts
         from batch_job_execution e
         join batch_step_execution s on s.job_execution_id = e.job_execution_id
         left join tidemill_partition p on p.step_execution_id = s.step_execution_id
         where e.job_instance_id = $1
           and starts_with(s.step_name, $2)
         order by s.step_name, s.step_execution_id desc",
    )
    .bind(instance)
    .bind(prefix)
    .fetch_all(connection)
    .await
}

pub(crate) async fn of_manager(connection: &mut PgConnection, manager: i64) -> Result<Vec<i64>, sqlx::Error> {
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
    connection: &mut PgConnection,
    execution: i64,
    names: &[String],
    now: DbStamp,
) -> Result<Vec<(i64, String)>, sqlx::Error> {
    sqlx::query_as(
        "insert into batch_step_execution
             (step_execution_id, version, step_name, job_execution_id, create_time, status,
              commit_count, read_count, filter_count, write_count, read_skip_count, write_skip_count,
              process_skip_count, rollback_count, exit_code, exit_message, last_updated)
         select nextval('batch_step_execution_seq'), 0, ordered.name, $1, $3, 'STARTING',
                0, 0, 0, 0, 0, 0, 0, 0, 'EXECUTING', '', $3
         from (select name from unnest($2::text[]) with ordinality as asked (name, place) order by place) ordered
         returning step_execution_id, step_name",
    )
    .bind(execution)
    .bind(names)
    .bind(now)
    .fetch_all(connection)
    .await
}

pub(crate) async fn insert_contexts(
    connection: &mut PgConnection,
    contexts: &[(i64, ContextColumns<'_>)],
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into batch_step_execution_context (step_execution_id, short_context, serialized_context)
         select *
         from unnest($1::bigint[], $2::text[], $3::text[])",
    )
    .bind(contexts.iter().map(|(id, _)| *id).collect::<Vec<_>>())
    .bind(contexts.iter().map(|(_, context)| context.short.as_str()).collect::<Vec<_>>())
    .bind(contexts.iter().map(|(_, context)| context.long).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn insert(
    connection: &mut PgConnection,
    rows: &PartitionRows<'_>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tidemill_partition
             (step_execution_id, manager_id, job_execution_id, job_name, worker, chain_id, only_process)
         select asked.step, $1, $2, $3, $4, asked.chain, $5
         from unnest($6::bigint[], $7::bigint[]) as asked (step, chain)",
    )
    .bind(rows.manager)
    .bind(rows.execution)
    .bind(rows.job)
    .bind(rows.worker)
    .bind(rows.only_process)
    .bind(rows.steps.iter().map(|(step, _)| *step).collect::<Vec<_>>())
    .bind(rows.steps.iter().map(|(_, chain)| *chain).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn contexts(
    connection: &mut PgConnection,
    steps: &[i64],
) -> Result<Vec<(i64, String)>, sqlx::Error> {
    sqlx::query_as(
        "select step_execution_id, coalesce(serialized_context, short_context)
         from batch_step_execution_context
         where step_execution_id = any($1)",
    )
    .bind(steps)
    .fetch_all(connection)
    .await
}

/// Partitions that somebody could run, as far as this statement sees; the lease on each decides. Those in somebody's
/// hands are left out. Who asks for no manager's in particular means those of other processes.
pub(crate) async fn lock_open(
    connection: &mut PgConnection,
    filter: &ClaimFilterRow<'_>,
) -> Result<Vec<ClaimRow>, sqlx::Error> {
    sqlx::query_as(
        "select p.step_execution_id, p.job_execution_id, p.job_name, p.worker
         from tidemill_partition p
         join batch_job_execution e on e.job_execution_id = p.job_execution_id
         join tidemill_job_execution n on n.job_execution_id = p.job_execution_id
         join unnest($1::text[], $2::text[], $6::text[]) as known (job, fingerprint, step)
             on known.job = p.job_name
            and known.step = p.worker
            and known.fingerprint is not distinct from n.fingerprint
         where p.is_open
           and case when $3::bigint is null then n.owner <> $4 else p.manager_id = $3 end
           and (p.only_process is null or p.only_process = $4)
           and e.status in ('STARTING', 'STARTED')
           and not exists (
               select from tidemill_lease l
               where l.kind = 'partition'
                 and l.name = p.step_execution_id::text
                 and l.owner is not null
           )
         order by p.step_execution_id
         limit $5
         for update of p skip locked",
    )
    .bind(filter.known.iter().map(|known| known.job).collect::<Vec<_>>())
    .bind(filter.known.iter().map(|known| known.fingerprint).collect::<Vec<_>>())
    .bind(filter.manager)
    .bind(filter.by)
    .bind(filter.limit)
    .bind(filter.known.iter().map(|known| known.step).collect::<Vec<_>>())
    .fetch_all(connection)
    .await
}

/// Notes who runs these.
pub(crate) async fn save_owner(
    connection: &mut PgConnection,
    steps: &[i64],
    owner: DbId,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_partition
         set owner = $2
         where step_execution_id = any($1)",
    )
    .bind(steps)
    .bind(owner)
    .execute(connection)
    .await?;
    Ok(())
}

/// Notes that these are being run, since when they were first.
pub(crate) async fn begin(
    connection: &mut PgConnection,
    steps: &[i64],
    now: DbStamp,
) -> Result<Vec<StepRow>, sqlx::Error> {
    sqlx::query_as(
        "update batch_step_execution s
         set version = s.version + 1, status = 'STARTED', start_time = coalesce(s.start_time, $2),
             last_updated = $2
         where s.step_execution_id = any($1)
         returning s.step_execution_id, s.job_execution_id, s.step_name, s.version, s.status,
                   coalesce(s.exit_code, '') as exit_code, coalesce(s.exit_message, '') as exit_message,
                   s.create_time, s.start_time, s.end_time, s.last_updated,
                   coalesce(s.commit_count, 0) as commit_count, coalesce(s.read_count, 0) as read_count,
                   coalesce(s.filter_count, 0) as filter_count, coalesce(s.write_count, 0) as write_count,
                   coalesce(s.read_skip_count, 0) as read_skip_count,
                   coalesce(s.write_skip_count, 0) as write_skip_count,
                   coalesce(s.process_skip_count, 0) as process_skip_count,
                   coalesce(s.rollback_count, 0) as rollback_count, null::bigint as total_items,
                   null::text as delivery",
    )
    .bind(steps)
    .bind(now)
    .fetch_all(connection)
    .await
}

/// Nobody will run it any more. Answers its manager; nothing when it was closed before.
pub(crate) async fn close(connection: &mut PgConnection, step: i64) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "update tidemill_partition
         set is_open = false
         where step_execution_id = $1
           and is_open
         returning manager_id",
    )
    .bind(step)
    .fetch_optional(connection)
    .await
}

pub(crate) async fn close_all(
    connection: &mut PgConnection,
    execution: i64,
) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "update tidemill_partition
         set is_open = false
         where job_execution_id = $1
           and is_open
         returning step_execution_id",
    )
    .bind(execution)
    .fetch_all(connection)
    .await
}

/// The open ones of a step that are in nobody's hands at this moment.
pub(crate) async fn lock_of_manager(
    connection: &mut PgConnection,
    manager: i64,
) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "select step_execution_id
         from tidemill_partition
         where manager_id = $1
           and is_open
         order by step_execution_id
         for update skip locked",
    )
    .bind(manager)
    .fetch_all(connection)
    .await
}

/// Ends those of these that nobody has the lease of, and answers them. They have to be locked, so that nobody takes one meanwhile.
pub(crate) async fn stop_free(
    connection: &mut PgConnection,
    steps: &[i64],
    exit: &ExitColumns,
    now: DbStamp,
) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "with closed as (
             update tidemill_partition p
             set is_open = false
             where p.step_execution_id = any($1)
               and not exists (
                   select from tidemill_lease l
                   where l.kind = 'partition'
                     and l.name = p.step_execution_id::text
                     and l.owner is not null
               )
             returning p.step_execution_id
         )
         update batch_step_execution s
         set version = s.version + 1, status = 'STOPPED', exit_code = $2, exit_message = $3, end_time = $4,
             last_updated = $4
         from closed
         where s.step_execution_id = closed.step_execution_id
         returning s.step_execution_id",
    )
    .bind(steps)
    .bind(&exit.code)
    .bind(&exit.message)
    .bind(now)
    .fetch_all(connection)
    .await
}

/// Locks in the order of the keys, as everybody does who locks many.
pub(crate) async fn forget_leases(connection: &mut PgConnection, steps: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query(
        "with locked as (
             select kind, name
             from tidemill_lease
             where kind = 'partition'
               and name in (select step::text from unnest($1::bigint[]) as asked (step))
             order by kind, name
             for update
         )
         delete from tidemill_lease l
         using locked
         where l.kind = locked.kind
           and l.name = locked.name",
    )
    .bind(steps)
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn count_open(connection: &mut PgConnection, manager: i64) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "select count(*)
         from tidemill_partition
         where manager_id = $1
           and is_open",
    )
    .bind(manager)
    .fetch_one(connection)
    .await
}

/// How the partitions of a step ended, each way once, with the first that ended so.
pub(crate) async fn outcomes(
    connection: &mut PgConnection,
    manager: i64,
) -> Result<Vec<OutcomeRow>, sqlx::Error> {
    sqlx::query_as(
        "select distinct on (s.status, coalesce(s.exit_code, '')) s.status, coalesce(s.exit_code, '') as exit_code,
                count(*) over (partition by s.status, coalesce(s.exit_code, '')) as partitions,
                s.step_execution_id, s.step_name, coalesce(n.exit_text, s.exit_message, '') as exit_message
         from tidemill_partition p
         join batch_step_execution s on s.step_execution_id = p.step_execution_id
         left join tidemill_step_execution n on n.step_execution_id = s.step_execution_id
         where p.manager_id = $1
         order by s.status, coalesce(s.exit_code, ''), s.step_execution_id",
    )
    .bind(manager)
    .fetch_all(connection)
    .await
}

/// What all runs in these chains have counted.
pub(crate) async fn sum(
    connection: &mut PgConnection,
    chains: &[i64],
) -> Result<CounterColumns, sqlx::Error> {
    sqlx::query_as(
        "select coalesce(sum(commit_count), 0)::bigint as commit, coalesce(sum(read_count), 0)::bigint as read,
                coalesce(sum(filter_count), 0)::bigint as filter, coalesce(sum(write_count), 0)::bigint as write,
                coalesce(sum(read_skip_count), 0)::bigint as read_skip,
                coalesce(sum(write_skip_count), 0)::bigint as write_skip,
                coalesce(sum(process_skip_count), 0)::bigint as process_skip,
                coalesce(sum(rollback_count), 0)::bigint as rollback
         from batch_step_execution
         where step_execution_id in (
             select unnest($1::bigint[])
             union
             select step_execution_id from tidemill_partition where chain_id = any($1)
         )",
    )
    .bind(chains)
    .fetch_one(connection)
    .await
}

//! Statements on `tidemill_partition` and its step executions, many rows at a time: a step may have thousands.
//!
//! Lock order: lease of the execution, partition, lease of the partition, process.

use crate::codec::DbStamp;
use crate::job::columns::ExitColumns;
use crate::job::partition::{BegunPartition, ClaimRow, LastPartitionRun};
use crate::job::{Claim, PartitionOutcome, PartitionRequest, execution};
use crate::statement::{One, Total, column, rows, statements};
use serde_json::json;
use tidemill_domain::job::context::columns;
use tidemill_domain::job::{Counters, ExecutionId, InstanceId, StepExecutionId};
use tidemill_domain::process::ProcessId;

statements! {
    /// The last run of each partition in an instance, and its number of runs.
    fn partition_known(instance: InstanceId, prefix: &str) -> Vec<LastPartitionRun> {
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
         ) as runs
         where place = 1"
    }

    fn partition_of_manager(manager: StepExecutionId) -> Vec<i64> {
        "select chain_id from tidemill_partition where manager_id = $1 order by step_execution_id"
    }

    /// Steps that wait to be run, by name.
    fn partition_insert_steps(execution: ExecutionId, names: &[String], now: DbStamp) -> Vec<(i64, String)> {
        postgres {
            "insert into batch_step_execution
                 (step_execution_id, version, step_name, job_execution_id, create_time, status,
                  commit_count, read_count, filter_count, write_count, read_skip_count, write_skip_count,
                  process_skip_count, rollback_count, exit_code, exit_message, last_updated)
             select nextval('batch_step_execution_seq'), 0, ordered.name, $1, $3, 'STARTING',
                    0, 0, 0, 0, 0, 0, 0, 0, 'EXECUTING', '', $3
             from (select name from unnest($2::text[]) with ordinality as asked (name, place) order by place) ordered
             returning step_execution_id, step_name"
        }
        sqlite |connection| {
            let first = execution::next_steps(&mut *connection, names.len()).await?;
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
            .bind(execution.get())
            .bind(now)
            .execute(connection)
            .await?;
            Ok((first..).zip(names.iter().cloned()).collect())
        }
    }

    fn partition_insert_contexts(contexts: &[(i64, String)]) -> () {
        bind(rows(contexts, |(id, text)| json!({ "id": id, "short": columns(text).0, "long": columns(text).1 })))
        "insert into batch_step_execution_context (step_execution_id, short_context, serialized_context)
         select id, short, long from {rows new $1: id bigint, short text, long text}"
    }

    /// `steps` are the ids, each with the first run of its chain.
    fn partition_insert(request: &PartitionRequest<'_>, steps: &[(i64, i64)]) -> () {
        bind(
            request.manager, request.worker.execution, request.job, request.worker.step, request.only,
            rows(steps, |(step, chain)| json!({ "step": step, "chain": chain })),
        )
        "insert into tidemill_partition
             (step_execution_id, manager_id, job_execution_id, job_name, worker, chain_id, only_process)
         select step, $1, $2, $3, $4, chain, $5 from {rows new $6: step bigint, chain bigint}"
    }

    fn partition_contexts(steps: &[i64]) -> Vec<(i64, String)> {
        "select step_execution_id, coalesce(serialized_context, short_context)
         from batch_step_execution_context where step_execution_id {in $1}"
    }

    /// Partitions that may be free; their leases decide. Skips locked rows. Without a manager, only of other processes.
    fn partition_lock_open(claim: &Claim<'_>) -> Vec<ClaimRow> {
        bind(
            rows(claim.known, |known| json!({
                "job": known.job, "fingerprint": known.fingerprint, "step": known.step,
            })),
            claim.manager, claim.by, claim.limit,
        )
        "select p.step_execution_id as step_execution_id,
                p.job_execution_id as job_execution_id, p.job_name as job_name, p.worker as worker
         from {rows known $1: job text, fingerprint text, step text}
         join tidemill_partition p on p.job_name = known.job and p.worker = known.step
         join batch_job_execution e on e.job_execution_id = p.job_execution_id
         join tidemill_job_execution n on n.job_execution_id = p.job_execution_id
             and n.fingerprint {is} known.fingerprint
         where p.is_open {= 1}
           and case when $2{::bigint} is null then n.owner <> $3 else p.manager_id = $2 end
           and (p.only_process is null or p.only_process = $3)
           and e.status in ('STARTING', 'STARTED')
           and not exists (
               select 1 from tidemill_lease l
               where l.kind = 'partition'
                 and l.name = cast(p.step_execution_id as text)
                 and l.owner is not null
           )
         order by p.step_execution_id limit $4 {for update of p skip locked}"
    }

    fn partition_save_owner(steps: &[i64], owner: ProcessId) -> () {
        "update tidemill_partition set owner = $2 where step_execution_id {in $1}"
    }

    /// Marks these as running; keeps the first start.
    fn partition_begin(steps: &[i64], now: DbStamp) -> Vec<BegunPartition> {
        "update batch_step_execution
         set version = version + 1, status = 'STARTED', start_time = coalesce(start_time, $2), last_updated = $2
         where step_execution_id {in $1}
         returning step_execution_id as step_execution_id, step_name as step_name,
                   coalesce(commit_count, 0) as commit_count, coalesce(read_count, 0) as read_count,
                   coalesce(filter_count, 0) as filter_count, coalesce(write_count, 0) as write_count,
                   coalesce(read_skip_count, 0) as read_skip_count,
                   coalesce(write_skip_count, 0) as write_skip_count,
                   coalesce(process_skip_count, 0) as process_skip_count,
                   coalesce(rollback_count, 0) as rollback_count"
    }

    /// Returns its manager; `None` if it was closed before.
    fn partition_close(step: StepExecutionId) -> Option<i64> {
        "update tidemill_partition set is_open = false where step_execution_id = $1 and is_open {= 1}
         returning manager_id"
    }

    fn partition_close_all(execution: ExecutionId) -> Vec<i64> {
        "update tidemill_partition set is_open = false where job_execution_id = $1 and is_open {= 1}
         returning step_execution_id"
    }

    /// The open ones of a step that are not locked.
    fn partition_lock_of_manager(manager: StepExecutionId) -> Vec<i64> {
        "select step_execution_id from tidemill_partition where manager_id = $1 and is_open {= 1}
         order by step_execution_id {for update skip locked}"
    }

    /// Closes those of these whose lease is free, and returns them. Lock them first, so that nobody takes one.
    fn partition_close_free(steps: &[i64]) -> Vec<i64> {
        "update tidemill_partition set is_open = false
         where step_execution_id {in $1}
           and not exists (
               select 1 from tidemill_lease l
               where l.kind = 'partition'
                 and l.name = cast(step_execution_id as text)
                 and l.owner is not null
           )
         returning step_execution_id"
    }

    fn partition_stop(steps: &[i64], exit: &ExitColumns, now: DbStamp) -> () {
        bind(steps, &exit.code, &exit.message, now)
        "update batch_step_execution
         set version = version + 1, status = 'STOPPED', exit_code = $2, exit_message = $3, end_time = $4,
             last_updated = $4
         where step_execution_id {in $1}"
    }

    /// Locks in the order of the keys, like every statement that locks many.
    fn partition_forget_leases(steps: &[i64]) -> () {
        bind(column(steps, i64::to_string))
        "with locked as materialized (
             select kind, name
             from tidemill_lease
             where kind = 'partition'
               and name {in $1}
             order by kind, name
             {for update}
         )
         delete from tidemill_lease where (kind, name) in (select kind, name from locked)"
    }

    pub fn Jobs::open_partitions(manager: StepExecutionId) -> Total {
        "select count(*) from tidemill_partition where manager_id = $1 and is_open {= 1}"
    }

    /// The ways in which the partitions of a step ended, each with the first that ended so.
    pub fn Jobs::partition_outcome(manager: StepExecutionId) -> Vec<PartitionOutcome> {
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
         ) as ended
         where place = 1
         order by status, exit_code"
    }

    /// The sums over all runs in these chains.
    fn partition_sum(chains: &[i64]) -> One<Counters> {
        "select coalesce(sum(commit_count), 0){::bigint} as commit_count,
                coalesce(sum(read_count), 0){::bigint} as read_count,
                coalesce(sum(filter_count), 0){::bigint} as filter_count,
                coalesce(sum(write_count), 0){::bigint} as write_count,
                coalesce(sum(read_skip_count), 0){::bigint} as read_skip_count,
                coalesce(sum(write_skip_count), 0){::bigint} as write_skip_count,
                coalesce(sum(process_skip_count), 0){::bigint} as process_skip_count,
                coalesce(sum(rollback_count), 0){::bigint} as rollback_count
         from batch_step_execution
         where step_execution_id in (
             {each $1}
             union
             select step_execution_id from tidemill_partition where chain_id {in $1}
         )"
    }
}

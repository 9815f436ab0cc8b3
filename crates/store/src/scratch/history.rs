//! A long history of jobs, made by bulk statements, for tests and benchmarks.
//!
//! Every tenth execution is of the job `ticker`, which has no identifying parameters and so a single instance. The
//! others are of eight jobs `load_0` to `load_7`; of each ten, one failed and is followed by the restart that completed
//! it, and of each hundred one failed for good. Each execution has two parameters and two steps, each with its context.
//! They are a minute apart, and the last has just ended.

use crate::error::Result;
use crate::tx::Tx;
use sqlx::AssertSqlSafe;

/// The executions from `$from` to `$to`; every statement below begins with it.
const SERIES_POSTGRES: &str = "with run as (
    select e, 1 + case when e % 10 = 0 then 0 when e % 10 = 9 then e - 1 else e end as instance,
           case when e % 10 = 8 or e % 100 = 7 then 'FAILED' else 'COMPLETED' end as status,
           case when e % 10 = 0 then 'ticker' else 'load_' || (e - case when e % 10 = 9 then 1 else 0 end) % 8 end as job,
           (clock_timestamp() at time zone 'UTC') - make_interval(mins => $LAST - e) as at
    from generate_series($FROM, $TO) as e
)";

const SERIES_SQLITE: &str = "with recursive series (e) as (
    select $FROM
    union all
    select e + 1 from series where e < $TO
), run as (
    select e, 1 + case when e % 10 = 0 then 0 when e % 10 = 9 then e - 1 else e end as instance,
           case when e % 10 = 8 or e % 100 = 7 then 'FAILED' else 'COMPLETED' end as status,
           case when e % 10 = 0 then 'ticker' else 'load_' || ((e - case when e % 10 = 9 then 1 else 0 end) % 8) end as job,
           strftime('%Y-%m-%d %H:%M:%f', 'now', '-' || ($LAST - e) || ' minutes') || '000' as at
    from series
)";

/// For both databases; `$KEY` is a hash of the instance, `$OWNER` a process.
const FILL: &[&str] = &[
    "insert into batch_job_instance (job_instance_id, version, job_name, job_key)
     $SERIES select instance, 0, min(job), min(case when instance = 1 then 'd41d8cd98f00b204e9800998ecf8427e' else $KEY end)
     from run where e % 10 <> 9 group by instance
     on conflict do nothing",
    "insert into batch_job_execution
         (job_execution_id, version, job_instance_id, create_time, start_time, end_time, status, exit_code, exit_message,
          last_updated)
     $SERIES select e, 2, instance, at, at, at, status, status, '', at from run",
    "insert into batch_job_execution_params
         (job_execution_id, parameter_name, parameter_type, parameter_value, identifying)
     $SERIES select e, 'number', 'java.lang.Long', cast(instance as text), 'Y' from run where e % 10 <> 0
     union all
     select e, 'note', 'java.lang.String', 'some remark', 'N' from run",
    "insert into batch_job_execution_context (job_execution_id, short_context)
     $SERIES select e, '{\"version\":1,\"values\":{\"total\":1000}}' from run",
    "insert into tidemill_job_execution
         (job_execution_id, owner, launched_by, on_crash, crash_restart_limit, crash_restarts)
     $SERIES select e, '00000000-0000-0000-0000-000000000001', 'scheduler', 'fail', 0, 0 from run",
    "insert into batch_step_execution
         (step_execution_id, version, step_name, job_execution_id, create_time, start_time, end_time, status,
          commit_count, read_count, filter_count, write_count, read_skip_count, write_skip_count, process_skip_count,
          rollback_count, exit_code, exit_message, last_updated)
     $SERIES select 2 * e - 1, 12, 'extract', e, at, at, at, 'COMPLETED', 10, 1000, 0, 1000, 0, 0, 0, 0, 'COMPLETED', '', at
     from run
     union all
     select 2 * e, 12, 'load', e, at, at, at, status, 10, 1000, 0, 1000, 0, 0, 0, 0, status, '', at from run",
    "insert into batch_step_execution_context (step_execution_id, short_context)
     $SERIES select 2 * e - 1, '{\"version\":1,\"values\":{\"reader.position\":1000}}' from run
     union all
     select 2 * e, '{\"version\":1,\"values\":{\"reader.position\":1000}}' from run",
];

/// Executions per round of statements.
const ROUND: u64 = 50_000;

impl Tx {
    /// Creates this many executions in an empty database.
    pub async fn fill_history(&mut self, total: u64) -> Result<()> {
        let is_postgres = self.postgres().is_some();
        let series = if is_postgres { SERIES_POSTGRES } else { SERIES_SQLITE };
        let key = if is_postgres { "md5(instance::text)" } else { "printf('%032x', instance)" };
        let mut from = 1;
        while from <= total {
            let to = total.min(from + ROUND - 1);
            for statement in FILL {
                // Only our own words and numbers are inserted.
                let text = statement
                    .replace("$SERIES", series)
                    .replace("$KEY", key)
                    .replace("$FROM", &from.to_string())
                    .replace("$TO", &to.to_string())
                    .replace("$LAST", &total.to_string());
                self.execute_for_test(&text).await?;
            }
            from = to + 1;
        }
        let finish = if is_postgres { FINISH_POSTGRES } else { FINISH_SQLITE };
        self.execute_for_test(finish).await
    }

    /// SQLite's query plan; runs nothing.
    pub async fn plan_for_test(&mut self, statement: &str) -> Result<Vec<String>> {
        let explain = AssertSqlSafe(format!("explain query plan {statement}"));
        let Some(connection) = self.sqlite() else { return Ok(Vec::new()) };
        let rows: Vec<(i64, i64, i64, String)> = sqlx::query_as(explain).fetch_all(connection).await?;
        Ok(rows.into_iter().map(|(.., detail)| detail).collect())
    }
}

/// Moves the sequences past the rows, and updates the planner's statistics.
const FINISH_POSTGRES: &str = "
    select setval('batch_job_seq', (select max(job_instance_id) from batch_job_instance));
    select setval('batch_job_execution_seq', (select max(job_execution_id) from batch_job_execution));
    select setval('batch_step_execution_seq', (select max(step_execution_id) from batch_step_execution));
    analyze";

/// SQLite is not analyzed in production either.
const FINISH_SQLITE: &str = "
    insert or replace into batch_job_seq (id) select max(job_instance_id) from batch_job_instance;
    insert or replace into batch_job_execution_seq (id) select max(job_execution_id) from batch_job_execution;
    insert or replace into batch_step_execution_seq (id) select max(step_execution_id) from batch_step_execution";

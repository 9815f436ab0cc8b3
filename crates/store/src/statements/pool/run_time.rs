//! Statements on run times (`tidemill_pool_run_time`, and the tickets it is made of) and on usage
//! (`tidemill_pool_usage`).

use crate::pool::row::{EndedRunRow, ForgottenRow, RunTimeRow, SavedRunTime};
use crate::statement::{rows, statements};
use serde_json::json;
use tidemill_domain::pool::PoolName;
use tidemill_domain::pool::usage::UsageStep;
use tidemill_domain::time::Timestamp;

statements! {
    fn pool_run_time_list(pool: &str) -> Vec<RunTimeRow> {
        "select dag_id, table_name, parallel, seconds from tidemill_pool_run_time where pool = $1"
    }

    /// The last released ones, the oldest first.
    fn pool_ended_runs(pool: &str, limit: i64) -> Vec<EndedRunRow> {
        "select dag_id, table_name, parallel, started_at, ended_at
         from (
             select dag_id, table_name, parallel, started_at, ended_at
             from tidemill_pool_ticket
             where pool = $1
               and state = 'released'
               and started_at is not null
             order by version desc
             limit $2
         ) as latest
         order by ended_at"
    }

    /// Deletes the oldest tickets that ended before an instant; returns them in no order. Rows of ended tickets are
    /// never moved, so `ctid` is stable.
    fn pool_delete_ended(pool: &str, before: Timestamp, limit: u32) -> Vec<ForgottenRow> {
        postgres {
            "delete from tidemill_pool_ticket
             where ctid = any(array(
                 select ctid
                 from tidemill_pool_ticket
                 where pool = $1
                   and ended_at < $2
                 order by ended_at
                 limit $3
             ))
             returning dag_id, table_name, parallel, state, version, started_at, ended_at"
        }
        sqlite {
            "delete from tidemill_pool_ticket
             where id in (
                 select id
                 from tidemill_pool_ticket
                 where pool = $1
                   and ended_at < $2
                 order by ended_at
                 limit $3
             )
             returning dag_id, table_name, parallel, state, version, started_at, ended_at"
        }
    }

    fn pool_run_time_save(run_times: &[SavedRunTime]) -> () {
        bind(rows(run_times, |run_time| json!(run_time)))
        "insert into tidemill_pool_run_time (pool, dag_id, table_name, parallel, seconds)
         select pool, dag_id, table_name, parallel, seconds
         from {rows saved $1: pool text, dag_id text, table_name text, parallel bigint, seconds text} where true
         on conflict (pool, dag_id, table_name, parallel) do update
         set seconds = excluded.seconds"
    }

    /// Adds the current usage of every pool to a step. By name, which is the lock order.
    fn pool_usage_sample(step: Timestamp) -> u64 {
        "insert into tidemill_pool_usage as u (pool, at, least, most, total, samples, most_waiting)
         select name, $1, usage, usage, usage, 1, waiting from tidemill_pool where true order by name
         on conflict (pool, at) do update
         set least = {least}(u.least, excluded.least), most = {greatest}(u.most, excluded.most),
             total = u.total + excluded.total, samples = u.samples + 1,
             most_waiting = {greatest}(u.most_waiting, excluded.most_waiting)"
    }

    /// Oldest first.
    pub fn Pools::usage(name: &PoolName, since: Timestamp) -> Vec<UsageStep> {
        bind(name.as_str(), since)
        "select pool, at, least, most, total, samples, most_waiting from tidemill_pool_usage
         where pool = $1 and at >= $2 order by at"
    }

    fn pool_usage_delete_before(pool: &str, before: Timestamp) -> u64 {
        "delete from tidemill_pool_usage where pool = $1 and at < $2"
    }
}

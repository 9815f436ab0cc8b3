//! Statements that measure: how full pools are and were, how long their queues take, and who left them.

use crate::codec::DbTime;
use crate::pool::row::{LevelRow, UsageRow};
use crate::statement::statements;

statements! {
    /// By name. Only the tickets of pools that somebody waits for are looked at.
    fn pool_level_list(limit: i64) -> Vec<LevelRow> {
        "select name, settings, usage, active, waiting, suspect,
                case when waiting > 0 then (
                    select min(t.enqueued_at)
                    from tidemill_pool_ticket t
                    where t.pool = p.name
                      and t.ended_at is null
                      and t.state = 'waiting'
                ) end as waiting_since
         from tidemill_pool p order by name limit $1"
    }

    /// By pool, the mean wait in microseconds of those that got their units since then and had to wait. They are live, or
    /// ended since then too; so each half has its index.
    fn pool_wait_list(since: DbTime) -> Vec<(String, i64)> {
        "select granted.pool, cast(avg({as micros granted.started_at - granted.enqueued_at}) as bigint)
         from (
             select t.pool, t.enqueued_at, t.started_at
             from tidemill_pool p
             join tidemill_pool_ticket t on t.pool = p.name
             where t.ended_at is null
               and t.started_at >= $1
             union all
             select t.pool, t.enqueued_at, t.started_at
             from tidemill_pool p
             join tidemill_pool_ticket t on t.pool = p.name
             where t.ended_at >= $1
               and t.started_at >= $1
         ) as granted
         where granted.started_at > granted.enqueued_at
         group by granted.pool"
    }

    /// By pool, how many left the queue since then without units of their own accord.
    fn pool_timeout_list(since: DbTime) -> Vec<(String, i64)> {
        "select t.pool, count(*) from tidemill_pool p
         join tidemill_pool_ticket t on t.pool = p.name
         where t.ended_at >= $1
           and t.started_at is null
           and t.ending in ('stopped_asking', 'gave_up', 'released', 'released_failed')
         group by t.pool"
    }

    /// Adds to a step what is in use now, in every pool. In the order of the names, which is that of all who lock pools.
    fn pool_usage_sample(step: DbTime) -> u64 {
        postgres {
            "insert into tidemill_pool_usage as u (pool, at, least, most, total, samples, most_waiting)
             select name, $1, usage, usage, usage, 1, waiting from tidemill_pool where true order by name
             on conflict (pool, at) do update
             set least = least(u.least, excluded.least), most = greatest(u.most, excluded.most),
                 total = u.total + excluded.total, samples = u.samples + 1,
                 most_waiting = greatest(u.most_waiting, excluded.most_waiting)"
        }
        sqlite {
            "insert into tidemill_pool_usage (pool, at, least, most, total, samples, most_waiting)
             select name, $1, usage, usage, usage, 1, waiting from tidemill_pool where true order by name
             on conflict (pool, at) do update
             set least = min(tidemill_pool_usage.least, excluded.least), most = max(tidemill_pool_usage.most, excluded.most),
                 total = tidemill_pool_usage.total + excluded.total, samples = tidemill_pool_usage.samples + 1,
                 most_waiting = max(tidemill_pool_usage.most_waiting, excluded.most_waiting)"
        }
    }

    /// The steps of a pool from this one on, the oldest first.
    fn pool_usage_list(pool: &str, since: DbTime) -> Vec<UsageRow> {
        "select pool, at, least, most, total, samples, most_waiting from tidemill_pool_usage
         where pool = $1 and at >= $2 order by at"
    }

    fn pool_usage_delete_before(pool: &str, before: DbTime) -> u64 {
        "delete from tidemill_pool_usage where pool = $1 and at < $2"
    }
}

//! Statements for metrics of pools.

use crate::pool::row::LevelRow;
use crate::statement::statements;
use tidemill_domain::time::Timestamp;

statements! {
    /// By name. Reads only the tickets of pools with a queue.
    fn pool_level_list(limit: u32) -> Vec<LevelRow> {
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

    /// Per pool, the mean wait in microseconds of tickets that were queued and got their units since then. They are
    /// live, or have ended since then too; so each half has its index.
    fn pool_wait_list(since: Timestamp) -> Vec<(String, i64)> {
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

    /// Per pool, the tickets that left the queue by themselves since then.
    fn pool_timeout_list(since: Timestamp) -> Vec<(String, i64)> {
        "select t.pool, count(*) from tidemill_pool p
         join tidemill_pool_ticket t on t.pool = p.name
         where t.ended_at >= $1
           and t.started_at is null
           and t.ending in ('stopped_asking', 'gave_up', 'released', 'released_failed')
         group by t.pool"
    }
}

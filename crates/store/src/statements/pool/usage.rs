//! Statements on `tidemill_pool_usage`.

use crate::codec::DbTime;
use crate::pool::row::UsageRow;
use crate::statement::statements;

statements! {
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

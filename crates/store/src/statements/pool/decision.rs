//! Statements on `tidemill_pool_log` for those who look back.

use crate::codec::DbTime;
use crate::pool::row::{DecisionRow, LogRow};
use crate::statement::statements;

statements! {
    /// The newest first, from before a place on. By the primary key.
    fn pool_decision_before(pool: &str, before: (i64, i32), limit: i64) -> Vec<DecisionRow> {
        bind(pool, before.0, before.1, limit)
        "select pool, version, seq, at, ticket_id, dag_id, run_id, event from tidemill_pool_log
         where pool = $1 and (version, seq) < ($2, $3) and kind <> 'snapshot'
         order by version desc, seq desc limit $4"
    }

    /// What was set since an instant, the newest first. By `tidemill_pool_log_configured`.
    fn pool_configured_since(pool: &str, since: DbTime, limit: i64) -> Vec<LogRow> {
        "select pool, version, seq, at, event from tidemill_pool_log
         where pool = $1 and kind = 'configured' and at >= $2 order by at desc limit $3"
    }

    /// What was last set before an instant. By `tidemill_pool_log_configured`.
    fn pool_configured_before(pool: &str, before: DbTime) -> Option<LogRow> {
        "select pool, version, seq, at, event from tidemill_pool_log
         where pool = $1 and kind = 'configured' and at < $2 order by at desc limit 1"
    }

    /// The oldest snapshot, which has what was set when the log before it was forgotten. By `tidemill_pool_log_snapshot`.
    fn pool_first_snapshot(pool: &str) -> Option<LogRow> {
        "select pool, version, seq, at, event from tidemill_pool_log where pool = $1 and kind = 'snapshot'
         order by at limit 1"
    }

    fn pool_first_snapshot_at(pool: &str) -> Option<DbTime> {
        "select at from tidemill_pool_log where pool = $1 and kind = 'snapshot' order by at limit 1"
    }
}

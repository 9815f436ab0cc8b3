//! What happened in a pool, from its log, so that it can be simulated with other settings.

use crate::error::Result;
use crate::tx::Pools;
use tidemill_domain::pool::PoolName;
use tidemill_domain::pool::simulate::past::{Log, Past};
use tidemill_domain::time::Timestamp;

/// Records per read.
const AT_ONCE: usize = 5_000;

impl Pools<'_> {
    /// `None` if there is no such pool. Reads at most `most` records, from the last snapshot before `since` on: if there are
    /// more, the past ends where they end. Run times are the present ones.
    #[crate::boxed]
    pub async fn past(&mut self, name: &PoolName, since: Timestamp, most: usize) -> Result<Option<Past>> {
        let Some(row) = self.pool_find(name.as_str()).await? else { return Ok(None) };
        let present = self.pool_refresh(&row, None).await?;
        let before = self.pool_log_snapshot_before(name.as_str(), since).await?;
        let from = before.map_or(row.log_from, |(version, _)| version.max(row.log_from));
        let (mut after, mut until) = ((from - 1, i32::MAX), self.now().await?);
        let (mut log, mut left) = (Log::new(present.settings().clone()), most);
        while left > 0 {
            let limit = left.min(AT_ONCE);
            let page = self.pool_log_from(name.as_str(), after, limit as i64).await?;
            page.iter().for_each(|record| log.see(record));
            left -= page.len();
            match page.last() {
                Some(last) if page.len() == limit => {
                    after = (last.version, last.seq);
                    until = if left == 0 { last.at } else { until };
                }
                _ => break,
            }
        }
        Ok(Some(log.past(&present.run_times, since, until)))
    }
}

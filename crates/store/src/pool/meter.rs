//! Metrics of pools for alerts, metrics and pages: read from the rows, so every process sees the same; and usage in
//! steps of five minutes.

use crate::error::Result;
use crate::tx::Pools;
use std::collections::BTreeMap;
use std::time::Duration;
use tidemill_domain::pool::command::Level;
use tidemill_domain::pool::usage::{PEAK_OF, UsageStep, peaks, step_of};
use tidemill_domain::pool::{PoolName, Settings};
use tidemill_domain::time::Timestamp;

#[derive(Clone, PartialEq, Debug)]
pub struct PoolLevel {
    pub settings: Settings,
    pub level: Level,
    pub active: u64,
    pub waiting: u64,
    /// How many of the active ones are suspect.
    pub suspect: u64,
    /// The age of the oldest queued ticket.
    pub oldest_wait: Duration,
}

impl Pools<'_> {
    /// By name.
    pub async fn levels(&mut self, limit: u32) -> Result<Vec<PoolLevel>> {
        let now = self.now().await?;
        let rows = self.pool_level_list(limit).await?;
        Ok(rows.into_iter().map(|row| row.level(now)).collect())
    }

    /// The average wait of tickets that were queued and got their units within this time; pools without any are left
    /// out.
    pub async fn waits(&mut self, within: Duration) -> Result<BTreeMap<PoolName, Duration>> {
        let since = self.now().await?.minus(within);
        let rows = self.pool_wait_list(since).await?;
        let wait = |micros: i64| Duration::from_micros(u64::try_from(micros).unwrap_or(0));
        Ok(rows.into_iter().filter_map(|(pool, micros)| Some((pool.parse().ok()?, wait(micros)))).collect())
    }

    /// Tickets that left the queues without units within this time, because they gave up or stopped asking; pools
    /// without any are left out.
    pub async fn timeouts(&mut self, within: Duration) -> Result<BTreeMap<PoolName, u64>> {
        let since = self.now().await?.minus(within);
        let rows = self.pool_timeout_list(since).await?;
        let count = |count: i64| u64::try_from(count).unwrap_or(0);
        Ok(rows.into_iter().filter_map(|(pool, number)| Some((pool.parse().ok()?, count(number)))).collect())
    }
}

/// How long usage is kept.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

impl Pools<'_> {
    /// Adds the current usage to the present step of every pool. Returns the number of pools.
    pub async fn sample_usage(&mut self) -> Result<u64> {
        let step = step_of(self.now().await?);
        Ok(self.pool_usage_sample(step).await?)
    }

    /// Steps in which a pool was fuller than in the day before, the oldest first.
    pub async fn peaks(&mut self, name: &PoolName, since: Timestamp) -> Result<Vec<UsageStep>> {
        let now = self.now().await?;
        let steps = self.usage(name, since.minus(PEAK_OF)).await?;
        Ok(peaks(&steps, now).into_iter().filter(|peak| peak.at >= since).collect())
    }

    /// Deletes steps older than a week. Returns how many.
    pub async fn forget_usage(&mut self, name: &PoolName) -> Result<u64> {
        let before = self.now().await?.minus(KEPT);
        Ok(self.pool_usage_delete_before(name.as_str(), before).await?)
    }
}

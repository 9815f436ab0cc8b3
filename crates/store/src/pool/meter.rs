//! What is measured about pools, for alerts, metrics and pages: read from the rows, so that it is the same in every
//! process; and how full pools were, in steps of five minutes.

use crate::error::StoreError;
use crate::tx::Pools;
use std::collections::BTreeMap;
use std::time::Duration;
use tidemill_domain::pool::command::Level;
use tidemill_domain::pool::usage::{PEAK_OF, UsageStep, peaks, step_of};
use tidemill_domain::pool::{PoolName, Settings};
use tidemill_domain::time::Timestamp;

/// How full a pool is, and who waits for it.
#[derive(Clone, PartialEq, Debug)]
pub struct PoolLevel {
    pub settings: Settings,
    pub level: Level,
    pub active: u64,
    pub waiting: u64,
    /// Of those that count, how many are in doubt.
    pub suspect: u64,
    /// For how long the oldest ticket of the queue has been there.
    pub oldest_wait: Duration,
}

impl Pools<'_> {
    /// How full pools are, by name.
    pub async fn levels(&mut self, limit: u32) -> Result<Vec<PoolLevel>, StoreError> {
        let now = self.now().await?;
        let rows = self.pool_level_list(limit.into()).await?;
        Ok(rows.into_iter().map(|row| row.level(now)).collect())
    }

    /// How long those waited on average that had to wait and got their units within this time; pools without any are
    /// not in it.
    pub async fn waits(&mut self, within: Duration) -> Result<BTreeMap<PoolName, Duration>, StoreError> {
        let since = self.now().await?.minus(within);
        let rows = self.pool_wait_list(since.into()).await?;
        let wait = |micros: i64| Duration::from_micros(u64::try_from(micros).unwrap_or(0));
        Ok(rows.into_iter().filter_map(|(pool, micros)| Some((pool.parse().ok()?, wait(micros)))).collect())
    }

    /// How many left the queues without units within this time, because they gave up or no longer asked; pools without
    /// any are not in it.
    pub async fn timeouts(&mut self, within: Duration) -> Result<BTreeMap<PoolName, u64>, StoreError> {
        let since = self.now().await?.minus(within);
        let rows = self.pool_timeout_list(since.into()).await?;
        let count = |count: i64| u64::try_from(count).unwrap_or(0);
        Ok(rows.into_iter().filter_map(|(pool, number)| Some((pool.parse().ok()?, count(number)))).collect())
    }
}

/// How long it is known how full a pool was.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

impl Pools<'_> {
    /// Adds what is in use now to the present step of every pool. Returns how many pools there are.
    pub async fn sample_usage(&mut self) -> Result<u64, StoreError> {
        let step = step_of(self.now().await?);
        Ok(self.pool_usage_sample(step.into()).await?)
    }

    /// The steps of a pool since an instant, the oldest first.
    pub async fn usage(&mut self, name: &PoolName, since: Timestamp) -> Result<Vec<UsageStep>, StoreError> {
        Ok(self.pool_usage_list(name.as_str(), since.into()).await?)
    }

    /// The steps since an instant in which a pool was fuller than in the day before, the oldest first.
    pub async fn peaks(&mut self, name: &PoolName, since: Timestamp) -> Result<Vec<UsageStep>, StoreError> {
        let now = self.now().await?;
        let steps = self.usage(name, since.minus(PEAK_OF)).await?;
        Ok(peaks(&steps, now).into_iter().filter(|peak| peak.at >= since).collect())
    }

    /// Deletes the steps of a pool that are older than a week. Returns how many went.
    pub async fn forget_usage(&mut self, name: &PoolName) -> Result<u64, StoreError> {
        let before = self.now().await?.minus(KEPT);
        Ok(self.pool_usage_delete_before(name.as_str(), before.into()).await?)
    }
}

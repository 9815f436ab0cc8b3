//! How full pools were, in steps of five minutes.

use crate::error::StoreError;
use crate::tx::Pools;
use std::time::Duration;
use tidemill_domain::pool::PoolName;
use tidemill_domain::pool::usage::{PEAK_OF, UsageStep, peaks, step_of};
use tidemill_domain::time::Timestamp;

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
        let rows = self.pool_usage_list(name.as_str(), since.into()).await?;
        rows.iter().map(super::row::UsageRow::step).collect()
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

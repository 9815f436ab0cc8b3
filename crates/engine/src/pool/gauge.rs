//! Gauges of pools for Prometheus. Read from the database, so that every server reports the same.

use crate::Service;
use crate::metrics::{self, number};
use std::collections::BTreeSet;
use std::time::Duration;
use tidemill_domain::pool::PoolName;
use tidemill_store::pool::PoolLevel;
use tidemill_store::{Store, StoreError};

const PAUSE: Duration = Duration::from_secs(5);

/// Maximum number of pools measured: each is a handful of time series.
pub const POOLS_MAX: u32 = 1_000;

#[crate::boxed]
pub async fn run(store: Store) {
    let mut measured = BTreeSet::new();
    let mut service = Service::new("measuring pools", PAUSE);
    while service.is_due().await {
        // After a failure the gauges keep their values.
        service.ended(levels(&store).await.map(|levels| measured = set_gauges(&measured, &levels)));
    }
}

pub async fn levels(store: &Store) -> Result<Vec<PoolLevel>, StoreError> {
    store.read().await?.pools().levels(POOLS_MAX).await
}

/// Returns the measured pools. The gauges of pools that were removed since `before` are reset.
fn set_gauges(before: &BTreeSet<PoolName>, levels: &[PoolLevel]) -> BTreeSet<PoolName> {
    let names: BTreeSet<PoolName> = levels.iter().map(|seen| seen.settings.name.clone()).collect();
    let removed = before.difference(&names).map(|pool| (pool, None));
    for (pool, seen) in removed.chain(levels.iter().map(|seen| (&seen.settings.name, Some(seen)))) {
        let (pool, value) = (pool.as_str(), |of: fn(&PoolLevel) -> f64| seen.map_or(0.0, of));
        metrics::pool_in_use(pool).set(value(|seen| number(seen.level.usage)));
        metrics::pool_capacity(pool).set(value(|seen| f64::from(seen.level.max_units)));
        metrics::pool_utilization(pool).set(value(|seen| seen.level.percent() / 100.0));
        metrics::pool_over(pool).set(value(|seen| number(seen.level.over_by())));
        metrics::pool_waiting(pool).set(value(|seen| number(seen.waiting)));
        metrics::pool_suspect(pool).set(value(|seen| number(seen.suspect)));
        metrics::pool_oldest_wait(pool).set(value(|seen| seen.oldest_wait.as_secs_f64()));
    }
    names
}

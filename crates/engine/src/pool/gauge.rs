//! Gauges of pools for Prometheus. Read from the database, so that every server reports the same.

use super::metrics;
use crate::Service;
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
    for pool in before.difference(&names) {
        metrics::measured(pool.as_str(), None);
    }
    for seen in levels {
        metrics::measured(seen.settings.name.as_str(), Some(seen));
    }
    names
}

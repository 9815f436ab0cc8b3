//! How full pools are, for those who scrape this process. Read from the database, so that every server says the same,
//! also of pools about which it has never decided anything.

use super::metrics;
use crate::service::Service;
use std::collections::BTreeSet;
use std::time::Duration;
use tidemill_domain::pool::PoolName;
use tidemill_store::pool::PoolLevel;
use tidemill_store::{Store, StoreError};

/// Pause between two looks; those who scrape come less often.
const PAUSE: Duration = Duration::from_secs(5);

/// Most pools that are measured: each is a handful of time series.
pub const POOLS_MAX: u32 = 1_000;

#[crate::boxed]
pub async fn run(store: Store) {
    let mut gauges = Gauges::default();
    let mut service = Service::new("measuring pools", PAUSE);
    while service.is_due().await {
        // After a failure the metrics keep what they said.
        service.ended(levels(&store).await.map(|levels| gauges.set(&levels)));
    }
}

pub async fn levels(store: &Store) -> Result<Vec<PoolLevel>, StoreError> {
    store.read().await?.pools().levels(POOLS_MAX).await
}

/// The pools of which something was said, so that those which are removed do not stay full for ever.
#[derive(Debug, Default)]
struct Gauges {
    told: BTreeSet<PoolName>,
}

impl Gauges {
    fn set(&mut self, levels: &[PoolLevel]) {
        let names: BTreeSet<PoolName> = levels.iter().map(|seen| seen.settings.name.clone()).collect();
        for pool in self.told.difference(&names) {
            metrics::forgotten(pool.as_str());
        }
        for seen in levels {
            metrics::measured(seen.settings.name.as_str(), seen);
        }
        self.told = names;
    }
}

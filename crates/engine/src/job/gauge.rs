//! The gauge of active executions for Prometheus. Read from the database, so that every server reports the same,
//! including executions of processes that cannot be scraped.

use crate::Service;
use crate::metrics::{self, number};
use std::collections::BTreeSet;
use std::time::Duration;
use tidemill_store::Store;

const PAUSE: Duration = Duration::from_secs(5);

/// Sets the gauges while it runs.
#[crate::boxed]
pub async fn run(store: Store) {
    let mut measured = BTreeSet::new();
    let mut service = Service::new("measuring jobs", PAUSE);
    while service.is_due().await {
        // After a failure the gauges keep their values.
        service.ended(active(&store).await.map(|active| measured = set_gauges(&measured, &active)));
    }
}

async fn active(store: &Store) -> Result<Vec<(String, i64)>, tidemill_store::StoreError> {
    store.read().await?.jobs().active_executions().await
}

/// Returns the jobs. The gauges of jobs that are no longer active are reset.
fn set_gauges(before: &BTreeSet<String>, active: &[(String, i64)]) -> BTreeSet<String> {
    for job in before {
        metrics::job_active(job).set(0.0);
    }
    for (job, count) in active {
        metrics::job_active(job).set(number(count.unsigned_abs()));
    }
    before.iter().chain(active.iter().map(|(job, _)| job)).cloned().collect()
}

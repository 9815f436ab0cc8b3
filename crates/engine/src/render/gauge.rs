//! Gauges of renders for Prometheus. Read from the database, so that every server reports the same, including workers
//! that cannot be scraped. Unknown values are NaN, never 0.

use crate::Service;
use crate::metrics::{self, number};
use std::time::Duration;
use tidemill_domain::render::Status;
use tidemill_domain::time::Timestamp;
use tidemill_store::render::{RenderCounts, RenderMetrics, WorkerRecord};
use tidemill_store::{Store, StoreError};

const PAUSE: Duration = Duration::from_secs(15);

/// A worker that was silent for longer is not counted: it sends a heartbeat every 15 seconds.
pub const WORKER_SEEN_WITHIN: Duration = Duration::from_secs(60);

#[derive(Clone, PartialEq, Debug)]
pub struct RenderGauges {
    pub counts: RenderCounts,
    pub recent: RenderMetrics,
    pub workers: Vec<WorkerRecord>,
    pub at: Timestamp,
}

impl RenderGauges {
    #[crate::boxed]
    pub async fn read(store: &Store) -> Result<Self, StoreError> {
        let mut tx = store.read().await?;
        let at = tx.now().await?;
        let counts = tx.renders().counts().await?;
        let recent = tx.renders().metrics().await?;
        let workers = tx.renders().workers(WORKER_SEEN_WITHIN).await?;
        Ok(Self { counts, recent, workers, at })
    }

    /// Without those that wait for approval.
    pub fn count(&self, status: Status) -> u64 {
        if status == Status::Pending { self.counts.waiting_for_worker() } else { self.counts.of(status) }
    }

    /// Completed renders of the last 24 hours, from 0 to 1; none if none has ended.
    pub fn success_ratio(&self) -> Option<f64> {
        let (completed, failed) = (number(self.recent.completed), number(self.recent.failed));
        let ended = completed + failed;
        (ended > 0.0).then(|| completed / ended)
    }
}

#[crate::boxed]
pub async fn run(store: Store) {
    let mut service = Service::new("measuring renders", PAUSE);
    while service.is_due().await {
        let seen = RenderGauges::read(&store).await;
        set_gauges(seen.as_ref().ok());
        service.ended(seen.map(drop));
    }
}

/// None after a failed sample.
fn set_gauges(gauges: Option<&RenderGauges>) {
    let found = |value: fn(&RenderGauges) -> f64| gauges.map_or(f64::NAN, value);
    for status in Status::ALL.into_iter().filter(|status| !status.is_terminal()) {
        let count = gauges.map_or(f64::NAN, |gauges| number(gauges.count(status)));
        metrics::render_renders(status.as_str()).set(count);
    }
    metrics::render_oldest().set(found(|gauges| {
        // 0 if none waits.
        gauges.counts.oldest_pending.map_or(0.0, |since| gauges.at.since(since).as_secs_f64())
    }));
    metrics::render_leftovers().set(found(|gauges| number(gauges.counts.leftovers)));
    metrics::render_workers().set(found(|gauges| gauges.workers.len() as f64));
    metrics::render_success().set(found(|gauges| gauges.success_ratio().unwrap_or(f64::NAN)));
}

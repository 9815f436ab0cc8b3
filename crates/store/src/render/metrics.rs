//! Metrics of renders: recent results, and problems of the others.

use crate::error::Result;
use crate::statement::stored;
use crate::tx::Renders;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::render::lifecycle::RECOVERIES_TOLD_AFTER;
use tidemill_domain::time::Timestamp;

const DAY: Duration = Duration::from_secs(24 * 3600);

const HOUR: Duration = Duration::from_secs(3600);

stored! {
    #[derive(Clone, PartialEq, Debug, Default)]
    pub struct RenderMetrics in ("render_queue", "completed") {
        /// In the last 24 hours.
        pub completed: u64,
        /// In the last 24 hours.
        pub failed: u64,
        /// Average duration of renders completed in the last hour; `None` if there were none.
        pub longest_seconds: Option<f64>,
        /// Error codes of renders that failed in the last hour or wait for a retry, with their number. Without those
        /// whose worker was lost, which are in `recovering`.
        pub failures: Vec<(String, u64)> => Vec::new(),
        /// Unfinished renders that lose one worker after the other.
        pub recovering: u64,
        /// Renders that are past their deadline, or whose retry is.
        pub late: u64,
        /// Since when the oldest job waits for a render node.
        pub waiting_since: Option<Timestamp>,
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerTally {
    pub worker: String,
    pub completed: u64,
    pub failed: u64,
}

const WORKERS_MAX: u32 = 200;

impl Renders<'_> {
    /// In the last 24 hours, by name.
    #[crate::boxed]
    pub async fn tallies(&mut self) -> Result<Vec<WorkerTally>> {
        let since = self.now().await?.minus(DAY);
        let rows = self.render_metrics_workers(since, WORKERS_MAX).await?;
        let tally = |(worker, completed, failed): (String, i64, i64)| WorkerTally {
            worker,
            completed: completed.unsigned_abs(),
            failed: failed.unsigned_abs(),
        };
        Ok(rows.into_iter().map(tally).collect())
    }

    #[crate::boxed]
    pub async fn metrics(&mut self) -> Result<RenderMetrics> {
        let now = self.now().await?;
        let hour = now.minus(HOUR);
        let (day, recoveries) = (now.minus(DAY), RECOVERIES_TOLD_AFTER.into());
        let mut metrics = self.render_metrics_of(day, hour, now, recoveries).await?;
        // Another worker continues it.
        let passing = Code::RenderWorkerLost.to_string();
        let failures = self.render_metrics_failures(hour, &passing).await?;
        metrics.failures = failures.into_iter().map(|(code, count)| (code, count.unsigned_abs())).collect();
        Ok(metrics)
    }
}

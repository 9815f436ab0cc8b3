//! How renders go: what has ended lately, and what is wrong with the others.

use crate::error::StoreError;
use crate::statement::stored;
use crate::tx::Renders;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::render::lifecycle::RECOVERIES_TOLD_AFTER;
use tidemill_domain::time::Timestamp;

/// What counts as lately where successes are told from failures.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// What counts as lately where somebody may still want to do something.
const HOUR: Duration = Duration::from_secs(3600);

stored! {
    #[derive(Clone, PartialEq, Debug, Default)]
    pub struct RenderStanding in ("render_queue", "completed") {
        /// Those that were completed in the last 24 hours.
        pub completed: u64,
        /// Those that failed in the last 24 hours.
        pub failed: u64,
        /// How long those took on average that were completed in the last hour; none when there were none.
        pub longest_seconds: Option<f64>,
        /// Why renders failed in the last hour, or wait to be tried again: codes, and how many have each. Those that wait
        /// because their worker was lost are not among them. Counted apart.
        pub failures: Vec<(String, u64)> => Vec::new(),
        /// Those that have not ended and lose one worker after the other.
        pub recovering: u64,
        /// Those that are not ready although they should be on air, or are tried again only then.
        pub late: u64,
        /// Since when the oldest job waits for a render node.
        pub waiting_since: Option<Timestamp>,
    }
}

/// What one worker has done lately.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerTally {
    pub worker: String,
    /// Renders whose file it has published.
    pub completed: u64,
    /// Renders that it had to give up.
    pub failed: u64,
}

/// Most workers that are told of.
const WORKERS_MAX: u32 = 200;

impl Renders<'_> {
    /// What each worker has done in the last 24 hours, by name.
    #[crate::boxed]
    pub async fn tallies(&mut self) -> Result<Vec<WorkerTally>, StoreError> {
        let since = self.now().await?.minus(DAY);
        let rows = self.render_standing_workers(since.into(), WORKERS_MAX.into()).await?;
        let tally = |(worker, completed, failed): (String, i64, i64)| WorkerTally {
            worker,
            completed: completed.unsigned_abs(),
            failed: failed.unsigned_abs(),
        };
        Ok(rows.into_iter().map(tally).collect())
    }

    #[crate::boxed]
    pub async fn standing(&mut self) -> Result<RenderStanding, StoreError> {
        let now = self.now().await?;
        let hour = now.minus(HOUR);
        let (day, recoveries) = (now.minus(DAY), RECOVERIES_TOLD_AFTER.into());
        let mut standing = self.render_standing_of(day.into(), hour.into(), now.into(), recoveries).await?;
        // Somebody else goes on with it.
        let passing = Code::RenderWorkerLost.to_string();
        let failures = self.render_standing_failures(hour.into(), &passing).await?;
        standing.failures = failures.into_iter().map(|(code, count)| (code, count.unsigned_abs())).collect();
        Ok(standing)
    }
}

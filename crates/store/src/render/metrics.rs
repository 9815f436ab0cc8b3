//! Metrics of renders: recent results, and problems of the others.

use crate::error::Result;
use crate::statement::{One, statements, stored};
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

    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct WorkerTally in ("render_queue", "worker_name") {
        pub worker: String = "worker_name",
        pub completed: u64,
        pub failed: u64,
    }
}

const WORKERS_MAX: u32 = 200;

impl Renders<'_> {
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

statements! {
    /// By the index on `ended_at`, and on `status` for those that have not ended.
    fn render_metrics_of(day: Timestamp, hour: Timestamp, now: Timestamp, recoveries: i64) -> One<RenderMetrics> {
        "select ended.completed, ended.failed, going.recovering, going.late, going.waiting_since,
                (coalesce({greatest}(ended.longest, going.longest), ended.longest, going.longest)
                 / 1000000.0){::double precision} as longest_seconds
         from (
             select count(*) filter (where status = 'completed') as completed,
                    count(*) filter (where status = 'failed') as failed,
                    max({as micros completed_at - started_at})
                        filter (where status = 'completed' and ended_at > $2) as longest
             from render_queue
             where ended_at > $1
         ) as ended,
         (
             select count(*) filter (where recovery_count > $4) as recovering,
                    count(*) filter (where deadline <= $3 or (status = 'pending' and run_after >= deadline)) as late,
                    max({as micros $3 - started_at}) filter (where status <> 'pending') as longest,
                    min(submitted_at) filter (where phase = 'waiting_for_node' and status = 'rendering')
                        as waiting_since
             from render_queue
             where status in ('pending', 'preparing', 'rendering', 'encoding', 'uploading')
         ) as going"
    }

    /// Error codes of renders that failed since then or wait for a retry, with their number. Waiting with the code
    /// `passing` is not a failure.
    fn render_metrics_failures(since: Timestamp, passing: &str) -> Vec<(String, i64)> {
        "select error_code, count(*) from render_queue
         where error_code is not null
           and ((status = 'pending' and error_code <> $2) or (status = 'failed' and ended_at > $1))
         group by error_code
         order by error_code"
    }

    /// Completed and failed renders of the last 24 hours, by worker. Needs `render_queue_ended`.
    pub fn Renders::tallies() at now -> Vec<WorkerTally> {
        bind(now.minus(DAY), WORKERS_MAX)
        "select worker_name, count(*) filter (where status = 'completed') as completed,
                count(*) filter (where status = 'failed') as failed
         from render_queue {indexed by render_queue_ended} where ended_at > $1 and worker_name is not null
         group by worker_name
         order by worker_name limit $2"
    }
}

//! Signals of renders. All are read from the database, so any process can evaluate them.

use super::{Observing, Signal, number, whole};
use crate::render::gauge::RenderGauges;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::render::retry_rules::needs_alert;
use tidemill_domain::render::{Failure, Status};
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_store::render::WorkerState;
use tidemill_store::{Store, StoreError};
use tokio::sync::Mutex;

tidemill_domain::words! {
    pub enum RenderSignal {
        /// Renders waiting for a worker.
        Pending = "render_pending",
        /// The longest duration of the renders completed in the last hour.
        Seconds = "render_seconds",
        /// Completed renders in percent of those that ended in the last 24 hours.
        SuccessPercent = "render_success_percent",
        /// Live workers that are not paused; no value while there are neither workers nor waiting renders.
        Workers = "render_workers",
        /// Response time of nexrender at the slowest worker.
        NexrenderSeconds = "render_nexrender_seconds",
        /// Duration of the last copy to the NAS at the slowest worker.
        CopySeconds = "render_copy_seconds",
        /// Renders that failed in the last hour, or wait, for a reason that needs a person.
        Failures = "render_failures",
        /// Renders that lost their worker more than once.
        Recovering = "render_recovering",
        /// Renders that are not ready at their air time, or cannot be.
        Late = "render_late",
        /// How long the oldest job has waited for a render node.
        NodeWaitSeconds = "render_node_wait_seconds",
    }
}

/// How long the sample is reused: all signals are sampled one right after the other.
const SAMPLE_FOR: Duration = Duration::from_secs(1);

pub(super) fn signals(clock: &Arc<dyn Clock>) -> Vec<Box<dyn Signal>> {
    let sample = Arc::new(SharedSample { clock: clock.clone(), last: Mutex::default() });
    RenderSignal::ALL.map(|what| Box::new(Render { what, sample: sample.clone() }) as Box<dyn Signal>).into()
}

#[derive(Debug)]
struct Render {
    what: RenderSignal,
    sample: Arc<SharedSample>,
}

/// The sample that all render signals share.
#[derive(Debug)]
struct SharedSample {
    clock: Arc<dyn Clock>,
    last: Mutex<Option<(Monotonic, Arc<RenderGauges>)>>,
}

impl SharedSample {
    async fn gauges(&self, store: &Store) -> Result<Arc<RenderGauges>, StoreError> {
        let (mut last, now) = (self.last.lock().await, self.clock.monotonic());
        match &*last {
            Some((at, gauges)) if now.since(*at) < SAMPLE_FOR => Ok(gauges.clone()),
            _ => {
                let gauges = Arc::new(RenderGauges::read(store).await?);
                *last = Some((now, gauges.clone()));
                Ok(gauges)
            }
        }
    }
}

impl RenderSignal {
    fn value(self, gauges: &RenderGauges) -> Option<f64> {
        let recent = &gauges.recent;
        let longest = |took: Option<Duration>| took.map(|took| took.as_secs_f64());
        match self {
            Self::Pending => Some(number(gauges.count(Status::Pending))),
            Self::Seconds => recent.longest_seconds,
            Self::SuccessPercent => gauges.success_ratio().map(|ratio| ratio * 100.0),
            // Without work no worker is needed.
            Self::Workers => {
                let is_used = !gauges.workers.is_empty() || gauges.count(Status::Pending) > 0;
                is_used.then(|| {
                    let is_working = |state| state == WorkerState::Working;
                    number(gauges.workers.iter().filter(|worker| is_working(worker.state)).count() as u64)
                })
            }
            Self::NexrenderSeconds => longest(gauges.workers.iter().filter_map(|worker| worker.farm).max()),
            Self::CopySeconds => longest(gauges.workers.iter().filter_map(|worker| worker.copy).max()),
            Self::Failures => {
                let lasting = |code: &str| {
                    Failure::ALL
                        .into_iter()
                        .any(|failure| needs_alert(failure) && failure.code().to_string() == code)
                };
                let lasting = recent.failures.iter().filter(|(code, _)| lasting(code));
                Some(number(lasting.map(|(_, count)| count).sum()))
            }
            Self::Recovering => Some(number(recent.recovering)),
            Self::Late => Some(number(recent.late)),
            Self::NodeWaitSeconds => {
                Some(recent.waiting_since.map_or(0.0, |since| gauges.at.since(since).as_secs_f64()))
            }
        }
    }
}

impl Signal for Render {
    fn name(&self) -> &'static str {
        self.what.as_str()
    }

    fn observe<'a>(&'a self, store: &'a Store) -> Observing<'a> {
        Box::pin(async {
            let gauges = self.sample.gauges(store).await?;
            Ok(self.what.value(&gauges).map(whole).unwrap_or_default())
        })
    }
}

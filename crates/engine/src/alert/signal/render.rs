//! The signals of renders. All are read from the rows, so it does not matter which process has the watch and which one
//! renders.

use super::{Observing, Signal, number, whole};
use crate::render::gauge::RenderGauges;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::render::retry_rules::is_told;
use tidemill_domain::render::{Failure, Status};
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_store::render::WorkerState;
use tidemill_store::{Store, StoreError};
use tokio::sync::Mutex;

tidemill_domain::words! {
    pub enum RenderSignal {
        /// Renders that wait for a worker.
        Pending = "render_pending",
        /// Seconds that the longest render took of those that were completed in the last hour.
        Seconds = "render_seconds",
        /// Renders that were completed, in percent of those that ended in the last 24 hours.
        SuccessPercent = "render_success_percent",
        /// Workers that are alive and not paused, while there are workers or renders wait.
        Workers = "render_workers",
        /// Seconds that nexrender took to answer, of the slowest worker.
        NexrenderSeconds = "render_nexrender_seconds",
        /// Seconds that the last copy to the NAS took, of the slowest worker.
        CopySeconds = "render_copy_seconds",
        /// Renders that failed in the last hour, or wait, for a reason that does not mend itself.
        Failures = "render_failures",
        /// Renders whose workers vanish, one after the other.
        Recovering = "render_recovering",
        /// Renders that are not ready when they should be on air, or cannot be.
        Late = "render_late",
        /// Seconds that the oldest job has waited for a render node.
        NodeWaitSeconds = "render_node_wait_seconds",
    }
}

/// How long a look is good for: all signals are looked at one right after the other.
const LOOK_FOR: Duration = Duration::from_secs(1);

pub(super) fn signals(clock: &Arc<dyn Clock>) -> Vec<Box<dyn Signal>> {
    let look = Arc::new(Look { clock: clock.clone(), last: Mutex::default() });
    RenderSignal::ALL.map(|what| Box::new(Render { what, look: look.clone() }) as Box<dyn Signal>).into()
}

#[derive(Debug)]
struct Render {
    what: RenderSignal,
    look: Arc<Look>,
}

/// A look at the queue that all of them share.
#[derive(Debug)]
struct Look {
    clock: Arc<dyn Clock>,
    last: Mutex<Option<(Monotonic, Arc<RenderGauges>)>>,
}

impl Look {
    async fn standing(&self, store: &Store) -> Result<Arc<RenderGauges>, StoreError> {
        let (mut last, now) = (self.last.lock().await, self.clock.monotonic());
        match &*last {
            Some((at, standing)) if now.since(*at) < LOOK_FOR => Ok(standing.clone()),
            _ => {
                let standing = Arc::new(RenderGauges::read(store).await?);
                *last = Some((now, standing.clone()));
                Ok(standing)
            }
        }
    }
}

impl RenderSignal {
    /// What it says; none when there is nothing to see.
    fn see(self, standing: &RenderGauges) -> Option<f64> {
        let recent = &standing.recent;
        let longest = |took: Option<Duration>| took.map(|took| took.as_secs_f64());
        match self {
            Self::Pending => Some(number(standing.count(Status::Pending))),
            Self::Seconds => recent.longest_seconds,
            Self::SuccessPercent => standing.success_ratio().map(|ratio| ratio * 100.0),
            // Where nothing waits, nobody has to be there.
            Self::Workers => {
                let is_used = !standing.workers.is_empty() || standing.count(Status::Pending) > 0;
                is_used.then(|| {
                    let is_working = |state| state == WorkerState::Working;
                    number(standing.workers.iter().filter(|worker| is_working(worker.state)).count() as u64)
                })
            }
            Self::NexrenderSeconds => longest(standing.workers.iter().filter_map(|worker| worker.farm).max()),
            Self::CopySeconds => longest(standing.workers.iter().filter_map(|worker| worker.copy).max()),
            Self::Failures => {
                let lasting = |code: &str| {
                    Failure::ALL
                        .into_iter()
                        .any(|failure| is_told(failure) && failure.code().to_string() == code)
                };
                let lasting = recent.failures.iter().filter(|(code, _)| lasting(code));
                Some(number(lasting.map(|(_, count)| count).sum()))
            }
            Self::Recovering => Some(number(recent.recovering)),
            Self::Late => Some(number(recent.late)),
            Self::NodeWaitSeconds => {
                Some(recent.waiting_since.map_or(0.0, |since| standing.at.since(since).as_secs_f64()))
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
            let standing = self.look.standing(store).await?;
            Ok(self.what.see(&standing).map(whole).unwrap_or_default())
        })
    }
}

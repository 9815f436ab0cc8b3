//! The signals of renders. All are read from the rows, so it does not matter which process has the watch and which one
//! renders.

use super::{Observing, Signal, number, whole};
use crate::render::gauge::Standing;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::render::matrix::is_told;
use tidemill_domain::render::{Failure, Status};
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_store::render::WorkerState;
use tidemill_store::{Store, StoreError};
use tokio::sync::Mutex;

/// Number of renders that wait for a worker.
pub const RENDER_PENDING: &str = "render_pending";
/// How long the longest render takes.
pub const RENDER_SECONDS: &str = "render_seconds";
/// Which part of renders was completed.
pub const RENDER_SUCCESS_PERCENT: &str = "render_success_percent";
/// Number of workers that take renders.
pub const RENDER_WORKERS: &str = "render_workers";
/// How long nexrender takes to answer.
pub const RENDER_NEXRENDER_SECONDS: &str = "render_nexrender_seconds";
/// How long a file takes to be copied.
pub const RENDER_COPY_SECONDS: &str = "render_copy_seconds";
/// Number of renders that have failed in a way that does not mend itself.
pub const RENDER_FAILURES: &str = "render_failures";
/// Number of renders that lose one worker after the other.
pub const RENDER_RECOVERING: &str = "render_recovering";
/// Number of renders that come too late for their broadcast.
pub const RENDER_LATE: &str = "render_late";
/// How long no render node takes a job.
pub const RENDER_NODE_WAIT_SECONDS: &str = "render_node_wait_seconds";

/// How long a look is good for: all signals are looked at one right after the other.
const LOOK_FOR: Duration = Duration::from_secs(1);

pub(super) fn signals(clock: Arc<dyn Clock>) -> Vec<Box<dyn Signal>> {
    let look = Arc::new(Look { clock, last: Mutex::default() });
    What::ALL.map(|what| Box::new(RenderSignal { what, look: look.clone() }) as Box<dyn Signal>).into()
}

#[derive(Debug)]
struct RenderSignal {
    what: What,
    look: Arc<Look>,
}

/// A look at the queue that all of them share.
#[derive(Debug)]
struct Look {
    clock: Arc<dyn Clock>,
    last: Mutex<Option<(Monotonic, Arc<Standing>)>>,
}

impl Look {
    async fn standing(&self, store: &Store) -> Result<Arc<Standing>, StoreError> {
        let (mut last, now) = (self.last.lock().await, self.clock.monotonic());
        match &*last {
            Some((at, standing)) if now.since(*at) < LOOK_FOR => Ok(standing.clone()),
            _ => {
                let standing = Arc::new(Standing::read(store).await?);
                *last = Some((now, standing.clone()));
                Ok(standing)
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum What {
    Pending,
    Seconds,
    SuccessPercent,
    Workers,
    NexrenderSeconds,
    CopySeconds,
    Failures,
    Recovering,
    Late,
    NodeWaitSeconds,
}

impl What {
    const ALL: [Self; 10] = [
        Self::Pending,
        Self::Seconds,
        Self::SuccessPercent,
        Self::Workers,
        Self::NexrenderSeconds,
        Self::CopySeconds,
        Self::Failures,
        Self::Recovering,
        Self::Late,
        Self::NodeWaitSeconds,
    ];

    /// What it says; none when there is nothing to see.
    fn see(self, standing: &Standing) -> Option<f64> {
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

impl Signal for RenderSignal {
    fn name(&self) -> &'static str {
        match self.what {
            What::Pending => RENDER_PENDING,
            What::Seconds => RENDER_SECONDS,
            What::SuccessPercent => RENDER_SUCCESS_PERCENT,
            What::Workers => RENDER_WORKERS,
            What::NexrenderSeconds => RENDER_NEXRENDER_SECONDS,
            What::CopySeconds => RENDER_COPY_SECONDS,
            What::Failures => RENDER_FAILURES,
            What::Recovering => RENDER_RECOVERING,
            What::Late => RENDER_LATE,
            What::NodeWaitSeconds => RENDER_NODE_WAIT_SECONDS,
        }
    }

    fn observe<'a>(&'a self, store: &'a Store) -> Observing<'a> {
        Box::pin(async {
            let standing = self.look.standing(store).await?;
            Ok(self.what.see(&standing).map(whole).unwrap_or_default())
        })
    }
}

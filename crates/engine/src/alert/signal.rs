//! What can be seen: each signal tells a value for each of its subjects. Pillars add their own.

pub mod outbox;
pub mod pool;
pub mod render;

use crate::error::EngineError;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::alert::Subject;
use tidemill_domain::time::Clock;
use tidemill_store::Store;

/// What a signal says about one subject.
#[derive(Clone, PartialEq, Debug)]
pub struct Observation {
    pub subject: Subject,
    /// The value. What is no finite number counts as unknown.
    pub value: f64,
}

/// A look at a signal that is under way.
pub type Observing<'a> = Pin<Box<dyn Future<Output = Result<Vec<Observation>, EngineError>> + Send + 'a>>;

/// Something that can be watched.
pub trait Signal: fmt::Debug + Send + Sync {
    /// Its name, by which rules refer to it.
    fn name(&self) -> &'static str;

    /// One look. Name every subject that exists: one that is no longer named counts as gone, and its alert as
    /// over. When the look fails, everything stays as it was.
    fn observe<'a>(&'a self, store: &'a Store) -> Observing<'a>;
}

/// Number of processes that were declared dead in the last five minutes.
pub const PROCESSES_DIED: &str = "processes_died";
/// Number of processes that are alive.
pub const PROCESSES_LIVE: &str = "processes_live";
/// How long a transaction takes that does nothing.
pub const DATABASE_SECONDS: &str = "database_seconds";

/// The names of the signals that this program observes, with what they tell.
pub const KNOWN: &[(&str, &str)] = &[
    (PROCESSES_DIED, "processes that were declared dead in the last five minutes"),
    (PROCESSES_LIVE, "processes that are alive"),
    (DATABASE_SECONDS, "seconds that a transaction takes that does nothing"),
    (pool::POOL_UTILIZATION_PERCENT, "units of a pool in use, in percent of those that there are"),
    (
        pool::POOL_WAIT_SECONDS,
        "seconds that those waited on average who got units of a pool in the last five minutes",
    ),
    (pool::POOL_OLDEST_WAIT_SECONDS, "seconds that the oldest request in the queue of a pool has waited"),
    (pool::POOL_TIMEOUTS, "requests that left the queue of a pool without units in the last minute"),
    (pool::POOL_SUSPECT_LEASES, "leases of a pool whose holders have not been heard of"),
    (
        outbox::OUTBOX_LAG_SECONDS,
        "seconds since the oldest event was written that no relay has read yet, or since a row of an adopted table is due",
    ),
    (outbox::OUTBOX_PARKED, "events, or rows of an adopted table, that nobody tries to publish any more"),
    (outbox::OUTBOX_DEFAULT_ROWS, "events in the default partition of the outbox"),
    (outbox::OUTBOX_UNOWNED_SLOTS, "slots of an outbox in use that no live relay has"),
    (outbox::OUTBOX_MISSING_SHARES, "fixed shares of the outbox that no live relay has"),
    (render::RENDER_PENDING, "renders that wait for a worker"),
    (render::RENDER_SECONDS, "seconds that renders took on average that were completed in the last hour"),
    (
        render::RENDER_SUCCESS_PERCENT,
        "renders that were completed, in percent of those that ended in the last 24 hours",
    ),
    (
        render::RENDER_WORKERS,
        "render workers that are alive and not paused, while there are workers or renders wait",
    ),
    (render::RENDER_NEXRENDER_SECONDS, "seconds that nexrender took to answer, of the slowest worker"),
    (render::RENDER_COPY_SECONDS, "seconds that the last copy to the NAS took, of the slowest worker"),
    (
        render::RENDER_FAILURES,
        "renders that failed in the last hour, or wait, for a reason that does not mend itself",
    ),
    (render::RENDER_RECOVERING, "renders whose workers vanish, one after the other"),
    (render::RENDER_LATE, "renders that are not ready when they should be on air, or cannot be"),
    (render::RENDER_NODE_WAIT_SECONDS, "seconds that the oldest job has waited for a render node"),
];

/// How far back deaths are counted.
const DEATHS_WITHIN: Duration = Duration::from_secs(300);

/// All signals that are known.
pub fn known(clock: Arc<dyn Clock>) -> Vec<Box<dyn Signal>> {
    let renders = render::signals(clock.clone());
    let foundation: [Box<dyn Signal>; 3] =
        [Box::new(ProcessesDied), Box::new(ProcessesLive), Box::new(DatabaseSeconds { clock })];
    let pillars = pool::signals().into_iter().chain(outbox::signals()).chain(renders);
    foundation.into_iter().chain(pillars).collect()
}

#[derive(Debug)]
struct ProcessesDied;

impl Signal for ProcessesDied {
    fn name(&self) -> &'static str {
        PROCESSES_DIED
    }

    fn observe<'a>(&'a self, store: &'a Store) -> Observing<'a> {
        Box::pin(async {
            let mut tx = store.read().await?;
            let count = tx.alerts().died(DEATHS_WITHIN).await?;
            Ok(whole(number(count)))
        })
    }
}

#[derive(Debug)]
struct ProcessesLive;

impl Signal for ProcessesLive {
    fn name(&self) -> &'static str {
        PROCESSES_LIVE
    }

    fn observe<'a>(&'a self, store: &'a Store) -> Observing<'a> {
        Box::pin(async {
            let mut tx = store.read().await?;
            let count = tx.alerts().live().await?;
            Ok(whole(number(count)))
        })
    }
}

#[derive(Debug)]
struct DatabaseSeconds {
    clock: Arc<dyn Clock>,
}

impl Signal for DatabaseSeconds {
    fn name(&self) -> &'static str {
        DATABASE_SECONDS
    }

    fn observe<'a>(&'a self, store: &'a Store) -> Observing<'a> {
        Box::pin(async {
            let begun = self.clock.monotonic();
            let mut tx = store.begin().await?;
            tx.now().await?;
            tx.commit().await?;
            Ok(whole(self.clock.monotonic().since(begun).as_secs_f64()))
        })
    }
}

/// One observation of the whole installation.
fn whole(value: f64) -> Vec<Observation> {
    vec![Observation { subject: Subject::whole(), value }]
}

#[expect(clippy::cast_precision_loss, reason = "nobody counts as far as a f64 can count")]
fn number(count: u64) -> f64 {
    count as f64
}

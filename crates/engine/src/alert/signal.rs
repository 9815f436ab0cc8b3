//! What can be seen: each signal tells a value for each of its subjects. Pillars add their own.

pub mod outbox;
pub mod pool;
pub mod render;

pub use outbox::OutboxSignal;
pub use pool::PoolSignal;
pub use render::RenderSignal;

use crate::error::EngineError;
use crate::metrics::number;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::alert::Subject;
use tidemill_domain::time::Clock;
use tidemill_store::Store;

#[derive(Clone, PartialEq, Debug)]
pub struct Observation {
    pub subject: Subject,
    /// The value. What is no finite number counts as unknown.
    pub value: f64,
}

pub type Observing<'a> = Pin<Box<dyn Future<Output = Result<Vec<Observation>, EngineError>> + Send + 'a>>;

pub trait Signal: fmt::Debug + Send + Sync {
    fn name(&self) -> &'static str;

    /// One look. Name every subject that exists: one that is no longer named counts as gone, and its alert as
    /// over. When the look fails, everything stays as it was.
    fn observe<'a>(&'a self, store: &'a Store) -> Observing<'a>;
}

tidemill_domain::words! {
    pub enum CoreSignal {
        /// Processes that were declared dead in the last five minutes.
        ProcessesDied = "processes_died",
        ProcessesLive = "processes_live",
        /// Seconds that a transaction takes that does nothing.
        DatabaseSeconds = "database_seconds",
    }
}

/// The names of the signals that this program observes.
pub fn names() -> impl Iterator<Item = &'static str> {
    let pillars = [PoolSignal::NAMES, OutboxSignal::NAMES, RenderSignal::NAMES];
    CoreSignal::NAMES.iter().chain(pillars.into_iter().flatten()).copied()
}

const DEATHS_WITHIN: Duration = Duration::from_secs(300);

pub fn known(clock: Arc<dyn Clock>) -> Vec<Box<dyn Signal>> {
    let renders = render::signals(&clock);
    let core = CoreSignal::ALL.map(|what| Box::new(Core { what, clock: clock.clone() }) as Box<dyn Signal>);
    let pools = PoolSignal::ALL.map(|signal| Box::new(signal) as Box<dyn Signal>);
    let outbox = OutboxSignal::ALL.map(|signal| Box::new(signal) as Box<dyn Signal>);
    core.into_iter().chain(pools).chain(outbox).chain(renders).collect()
}

#[derive(Debug)]
struct Core {
    what: CoreSignal,
    clock: Arc<dyn Clock>,
}

impl Signal for Core {
    fn name(&self) -> &'static str {
        self.what.as_str()
    }

    fn observe<'a>(&'a self, store: &'a Store) -> Observing<'a> {
        Box::pin(async {
            Ok(whole(match self.what {
                CoreSignal::ProcessesDied => number(store.read().await?.alerts().died(DEATHS_WITHIN).await?),
                CoreSignal::ProcessesLive => number(store.read().await?.alerts().live().await?),
                CoreSignal::DatabaseSeconds => {
                    let begun = self.clock.monotonic();
                    let mut tx = store.begin().await?;
                    tx.now().await?;
                    tx.commit().await?;
                    self.clock.monotonic().since(begun).as_secs_f64()
                }
            }))
        })
    }
}

fn whole(value: f64) -> Vec<Observation> {
    vec![Observation { subject: Subject::whole(), value }]
}

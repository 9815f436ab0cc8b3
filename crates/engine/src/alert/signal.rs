//! Signals: each has a value for each of its subjects.

pub mod job;
pub mod outbox;
pub mod pool;
pub mod render;

pub use job::JobSignal;
pub use outbox::OutboxSignal;
pub use pool::PoolSignal;
pub use render::RenderSignal;

use crate::metrics::number;
use crate::{BoxFuture, EngineError, transact};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::alert::Subject;
use tidemill_domain::time::Clock;
use tidemill_store::Store;

#[derive(Clone, PartialEq, Debug)]
pub struct Observation {
    pub subject: Subject,
    /// Values that are not finite count as unknown.
    pub value: f64,
    /// What is wrong, beyond the value. Notifications, lists and logs show it, so it must not contain data of items.
    pub detail: Option<String>,
}

impl Observation {
    pub fn new(subject: Subject, value: f64) -> Self {
        Self { subject, value, detail: None }
    }
}

pub type Observing<'a> = BoxFuture<'a, Result<Vec<Observation>, EngineError>>;

pub trait Signal: fmt::Debug + Send + Sync {
    fn name(&self) -> &'static str;

    /// Returns every subject that exists: an alert whose subject is missing counts as resolved. After an error nothing
    /// changes.
    fn observe<'a>(&'a self, store: &'a Store) -> Observing<'a>;
}

tidemill_domain::words! {
    pub enum CoreSignal {
        /// Processes declared dead in the last five minutes.
        ProcessesDied = "processes_died",
        ProcessesLive = "processes_live",
        /// Duration of an empty transaction.
        DatabaseSeconds = "database_seconds",
    }
}

pub fn names() -> impl Iterator<Item = &'static str> {
    let pillars = [JobSignal::NAMES, PoolSignal::NAMES, OutboxSignal::NAMES, RenderSignal::NAMES];
    CoreSignal::NAMES.iter().chain(pillars.into_iter().flatten()).copied()
}

const DEATHS_WITHIN: Duration = Duration::from_secs(300);

pub fn known(clock: Arc<dyn Clock>) -> Vec<Box<dyn Signal>> {
    let renders = render::signals(&clock);
    let core = CoreSignal::ALL.map(|what| Box::new(Core { what, clock: clock.clone() }) as Box<dyn Signal>);
    let jobs = JobSignal::ALL.map(|signal| Box::new(signal) as Box<dyn Signal>);
    let pools = PoolSignal::ALL.map(|signal| Box::new(signal) as Box<dyn Signal>);
    let outbox = OutboxSignal::ALL.map(|signal| Box::new(signal) as Box<dyn Signal>);
    core.into_iter().chain(jobs).chain(pools).chain(outbox).chain(renders).collect()
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
                    transact(store, async |tx| tx.now().await).await?;
                    self.clock.monotonic().since(begun).as_secs_f64()
                }
            }))
        })
    }
}

fn whole(value: f64) -> Vec<Observation> {
    vec![Observation::new(Subject::whole(), value)]
}

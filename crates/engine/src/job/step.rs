//! A step: its name, its rules and its body. Every kind of step adds a constructor to [`Step`].

use crate::job::listener::Promote;
use crate::job::{ChunkScope, LogFolder, StepListener, StepScope, StopSignal};
use crate::pool::PoolsOnDemand;
use crate::{BoxFuture, HeldLease};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::item::ItemError;
use tidemill_domain::job::pool::PoolUse;
use tidemill_domain::job::step::StepRules;
use tidemill_domain::job::{BatchStatus, Counters, ExecutionContext, ExitStatus};
use tidemill_domain::time::Clock;
use tidemill_domain::words::plural;
use tidemill_store::StoreError;
use tidemill_store::job::ChunkPlace;

/// A part of a job.
#[derive(Clone)]
#[must_use]
pub struct Step {
    name: String,
    type_word: &'static str,
    pub(super) rules: StepRules,
    pub(super) listeners: Vec<Arc<dyn StepListener>>,
    pub(super) pool: Option<PoolUse>,
    pub(super) body: Arc<dyn StepBody>,
}

tidemill_domain::getters!(Step {
    /// The name.
    &name: str,
    /// The kind of step, such as `chunk` or `tasklet`.
    type_word: &'static str,
});

/// Name and value of a setting of a step, for people.
pub type Described = (&'static str, String);

impl Step {
    pub(crate) fn new(name: String, type_word: &'static str, body: impl StepBody + 'static) -> Self {
        let rules = StepRules::default();
        Self { name, type_word, rules, listeners: Vec::new(), pool: None, body: Arc::new(body) }
    }

    /// A step that only has to run.
    pub(crate) fn running(
        name: impl Into<String>,
        type_word: &'static str,
        run: impl for<'a> Fn(&'a mut StepTask) -> StepFuture<'a> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name.into(), type_word, run)
    }

    tidemill_domain::setters! {
        /// Runs it again in a restart even if it has completed.
        pub fn allow_start_if_complete(self) { self.rules.allow_start_if_complete = true }
        /// How often it may be started in one instance of the job.
        pub fn start_limit(self, limit: u32) { self.rules.start_limit = limit }
        /// Adds a listener.
        pub fn listener(self, listener: impl StepListener + 'static) { self.listeners.push(Arc::new(listener)) }
        /// Copies these values of its context to the context of the job when it completes, so that later steps and a
        /// restart read them with [`StepScope::job_context`]. A value that is missing is removed there.
        pub fn promote(self, keys: impl IntoIterator<Item = impl Into<String>>) {
            self.listeners.push(Arc::new(Promote(keys.into_iter().map(Into::into).collect())))
        }
        /// Holds units of a pool while it runs. It waits in the pool's queue before it begins; [`StepScope::granted`] is
        /// what it got. A divided step runs that many partitions at once, all in this process.
        pub fn pool(self, pool_use: PoolUse) { self.pool = Some(pool_use) }
    }

    /// Settings that differ from their default, in display order.
    pub fn describe(&self) -> Vec<Described> {
        let mut all = self.body.describe();
        if let Some(PoolUse { pool, units, least, .. }) = &self.pool {
            let units = units
                .map_or_else(|| "its default units".to_owned(), |units| plural(units.get(), "unit", "units"));
            let least = least.map(|least| format!(", at least {least}")).unwrap_or_default();
            all.push(("pool", format!("{units} of {pool}{least}")));
        }
        if self.rules.start_limit != u32::MAX {
            all.push(("starts", format!("at most {} in one instance", self.rules.start_limit)));
        }
        if self.rules.allow_start_if_complete {
            all.push(("when complete", "runs again in a restart".to_owned()));
        }
        all
    }

    /// The step that runs one partition, if this one is divided.
    pub(crate) fn worker(&self) -> Option<&Self> {
        self.body.worker()
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(pool_use) = &self.pool {
            pool_use.check().map_err(|bad| format!("of pool {}: {bad}", pool_use.pool))?;
            if self.worker().is_some_and(|worker| worker.pool.is_some()) {
                return Err("both it and its worker ask for units; one of them has to".into());
            }
        } else if self.body.needs_units() {
            return Err("its grid is what a pool grants, and it asks no pool".into());
        }
        self.body.check()
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Step({}, {})", self.name, self.type_word)
    }
}

pub(crate) type StepFuture<'a> = BoxFuture<'a, Result<Outcome, StepFailure>>;

pub(crate) trait StepBody: Send + Sync {
    /// Counters and context are in the task, even after a failure.
    fn run<'a>(&'a self, task: &'a mut StepTask) -> StepFuture<'a>;

    /// The step that runs one partition, if this one is divided.
    fn worker(&self) -> Option<&Step> {
        None
    }

    /// Whether it cannot run without units of a pool.
    fn needs_units(&self) -> bool {
        false
    }

    fn describe(&self) -> Vec<Described> {
        Vec::new()
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

impl<F> StepBody for F
where
    F: for<'a> Fn(&'a mut StepTask) -> StepFuture<'a> + Send + Sync,
{
    fn run<'a>(&'a self, task: &'a mut StepTask) -> StepFuture<'a> {
        self(task)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    pub(crate) status: BatchStatus,
    /// The exit code for flows, and the reason.
    pub(crate) exit: ExitStatus,
    pub(crate) code: Option<Code>,
}

impl Outcome {
    pub(crate) fn completed(exit: ExitStatus) -> Self {
        Self { status: BatchStatus::Completed, exit, code: None }
    }

    pub(crate) fn stopped() -> Self {
        Self { status: BatchStatus::Stopped, exit: ExitStatus::new(ExitStatus::STOPPED), code: None }
    }

    pub(crate) fn because(self, text: impl Into<String>) -> Self {
        Self { exit: self.exit.describe(text), ..self }
    }

    /// Combines its exit status with one that the step has set.
    pub(crate) fn and(self, exit: ExitStatus) -> Self {
        Self { exit: self.exit.and(exit), ..self }
    }

    pub(crate) fn failed(code: Code, text: String) -> Self {
        Self { status: BatchStatus::Failed, exit: ExitStatus::failed(text), code: Some(code) }
    }

    pub(crate) fn is_completed(&self) -> bool {
        self.status == BatchStatus::Completed
    }
}

#[derive(Debug)]
pub(crate) enum StepFailure {
    Failed {
        code: Code,
        text: String,
    },
    /// Another process has taken over. Nothing may be written any more.
    LeaseLost,
}

impl StepFailure {
    pub(crate) fn failed(code: Code, text: impl Into<String>) -> Self {
        Self::Failed { code, text: text.into() }
    }
}

impl From<ItemError> for StepFailure {
    fn from(error: ItemError) -> Self {
        Self::failed(error.code().unwrap_or(Code::ExecutionFailed), error.text())
    }
}

impl From<StoreError> for StepFailure {
    fn from(error: StoreError) -> Self {
        let code = error.code();
        Self::failed(code, ItemError::from(error).text())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct StepResources {
    pub(crate) lease: Arc<HeldLease>,
    pub(crate) stop: StopSignal,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) pools: PoolsOnDemand,
    /// Where the output of commands is kept, if it is.
    pub(crate) logs: Option<LogFolder>,
}

/// A running step, with its counters and context. `commit.rs` saves both.
#[derive(Debug)]
pub(crate) struct StepTask {
    pub(crate) scope: StepScope,
    /// The context as of the current chunk.
    pub(crate) context: ExecutionContext,
    /// Includes commits and rollbacks.
    pub(crate) counters: Counters,
    pub(crate) resources: StepResources,
    /// The context as it is stored.
    pub(super) stored: String,
    pub(super) place: ChunkPlace,
    pub(super) is_stop_stored: bool,
    /// What the step has committed; it outlives this task.
    pub(super) progress: Arc<Mutex<CommittedState>>,
}

#[derive(Clone, Debug)]
pub(crate) struct CommittedState {
    pub(super) counters: Counters,
    pub(super) context: ExecutionContext,
    /// What a commit in progress records, if it succeeds.
    pub(super) committing: Option<(Counters, ExecutionContext)>,
    /// The step was given up: nothing may be committed any more.
    pub(super) is_closed: bool,
}

impl StepTask {
    pub(super) fn new(
        scope: StepScope,
        counters: Counters,
        context: ExecutionContext,
        resources: StepResources,
    ) -> Self {
        let committed =
            CommittedState { counters, context: context.clone(), committing: None, is_closed: false };
        let progress = Arc::new(Mutex::new(committed));
        Self {
            scope,
            context,
            counters,
            resources,
            stored: String::new(),
            place: ChunkPlace::default(),
            is_stop_stored: false,
            progress,
        }
    }

    /// Whether it should stop at the end of the current chunk.
    pub(crate) fn shall_stop(&self) -> bool {
        self.is_stop_stored || self.resources.stop.is_asked()
    }

    /// Fails if this process lost the lease.
    pub(crate) fn check(&self) -> Result<(), StepFailure> {
        if self.resources.lease.is_trusted() { Ok(()) } else { Err(StepFailure::LeaseLost) }
    }

    /// A chunk whose transaction begins when it is needed.
    pub(crate) fn chunk(&self, idle_limit: Option<Duration>) -> ChunkScope {
        ChunkScope::new(self.scope.store().clone(), Some(self.resources.lease.clone()), idle_limit)
    }
}

#[cfg(test)]
mod tests {
    use crate::item::{ItemsReader, ItemsWriter};
    use crate::job::{Partition, Step};
    use tidemill_domain::item::ErrorKind;
    use tidemill_domain::job::pool::PoolUse;

    #[test]
    fn what_was_said_of_a_step_is_told_and_nothing_else() {
        let plain = || {
            Step::chunk("load", 500)
                .reader(ItemsReader::new("numbers", 1..=10_i64))
                .writer(ItemsWriter::default())
        };
        let told = |step: Step| -> Vec<String> {
            step.describe().into_iter().map(|(what, said)| format!("{what}: {said}")).collect()
        };

        assert_eq!(told(plain().build()), ["chunk: 500 items"]);
        let careful = plain().skip([ErrorKind::VALIDATION], 5).retry_all(3).threads(4).build();
        let pool = PoolUse { units: std::num::NonZeroU32::new(8), ..PoolUse::new("ADW".parse().unwrap()) };
        assert_eq!(
            told(careful.pool(pool).start_limit(2)),
            [
                "chunk: 500 items",
                "threads: 4",
                "retries: 3 attempts, of all kinds",
                "skips: at most 5, of validation",
                "pool: 8 units of ADW",
                "starts: at most 2 in one instance",
            ]
        );
        let parts = |_: &_, _: usize| Ok(vec![Partition::new("one")]);
        assert_eq!(
            told(Step::partitioned("all", plain().build(), parts).grid(8).build()),
            ["partitions: 8", "worker: load", "chunk: 500 items"]
        );
    }
}

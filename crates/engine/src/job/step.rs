//! A step: a name, when it may run, and a body that does the work.

use crate::job::chunk_step::ChunkStepStart;
use crate::job::component::Delivery;
use crate::job::definition::Job;
use crate::job::describe::Described;
use crate::job::job_step::JobStep;
use crate::job::listener::StepListener;
use crate::job::partition::{PartitionedStep, Partitioner};
use crate::job::run_step::StepRunner;
use crate::job::scope::{ChunkScope, StepScope};
use crate::job::stop::StopSignal;
use crate::job::tasklet::{Tasklet, TaskletStep};
use crate::lease::HeldLease;
use crate::metrics;
use crate::pool::PoolsOnDemand;
use crate::process::Process;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::item::ItemError;
use tidemill_domain::job::pool::PoolUse;
use tidemill_domain::job::step::StepRules;
use tidemill_domain::job::{Counters, ExecutionContext, ExitStatus, JobParameters};
use tidemill_domain::time::Clock;
use tidemill_store::job::{ChunkSave, ChunkSaved};
use tidemill_store::{StoreError, crash_point};

/// A part of a job.
#[derive(Clone)]
pub struct Step {
    name: String,
    rules: StepRules,
    listeners: Vec<Arc<dyn StepListener>>,
    pool: Option<PoolUse>,
    body: Arc<dyn StepBody>,
}

impl Step {
    /// A step that reads, processes and writes items, `size` of them in one transaction.
    pub fn chunk(name: impl Into<String>, size: usize) -> ChunkStepStart {
        ChunkStepStart::new(name.into(), size)
    }

    /// A step that calls `tasklet` until it is finished, each time in a transaction of its own. It is made anew
    /// for each run of the step.
    pub fn tasklet<T, F>(name: impl Into<String>, tasklet: F) -> Self
    where
        T: Tasklet,
        F: Fn(&StepScope) -> Result<T, ItemError> + Send + Sync + 'static,
    {
        Self::new(name.into(), Arc::new(TaskletStep::new(tasklet)))
    }

    /// A step that runs another job and ends as that does. It is an execution of its own, with parameters that are made
    /// once: a restart of the outer job goes on with the same instance of the inner one.
    pub fn job(
        name: impl Into<String>,
        job: Job,
        parameters: impl Fn(&StepScope) -> Result<JobParameters, ItemError> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name.into(), Arc::new(JobStep::new(job, Arc::new(parameters))))
    }

    /// A step that is divided: `worker` runs once for each partition that `partitioner` makes, in this process and in
    /// all others that have the job. It ends when all of them have, as the worst of them did.
    ///
    /// ```
    /// # use tidemill_engine::item::{ItemsReader, ItemsWriter};
    /// # use tidemill_engine::job::{Job, Partition, Step};
    /// let worker = Step::chunk("import", 100)
    ///     .reader(|scope| {
    ///         let first = scope.context().get_long("first").unwrap_or(0);
    ///         Ok(ItemsReader::new("numbers", first..first + 1000))
    ///     })
    ///     .writer(|_| Ok(ItemsWriter::default()))
    ///     .build();
    /// let thousands = |_: &_, grid: usize| {
    ///     Ok((0..grid).map(|n| Partition::new(format!("part{n}")).with("first", n as i64 * 1000)).collect())
    /// };
    /// let job = Job::new("numbers").step(Step::partitioned("all", worker, thousands).grid(4).build());
    /// assert!(job.check().is_ok());
    /// ```
    pub fn partitioned(
        name: impl Into<String>,
        worker: Self,
        partitioner: impl Partitioner,
    ) -> PartitionedStep {
        PartitionedStep::new(name.into(), worker, partitioner)
    }

    pub(crate) fn new(name: String, body: Arc<dyn StepBody>) -> Self {
        Self { name, rules: StepRules::default(), listeners: Vec::new(), pool: None, body }
    }

    /// Run it again in a restart even if it has completed.
    #[must_use]
    pub fn allow_start_if_complete(mut self) -> Self {
        self.rules.allow_start_if_complete = true;
        self
    }

    /// How often it may be started in one instance of the job.
    #[must_use]
    pub fn start_limit(mut self, limit: u32) -> Self {
        self.rules.start_limit = limit;
        self
    }

    /// Adds a listener.
    #[must_use]
    pub fn listener(mut self, listener: impl StepListener + 'static) -> Self {
        self.listeners.push(Arc::new(listener));
        self
    }

    /// Takes units of a pool for as long as it runs. It waits in the queue of the pool before it begins, and what it got
    /// is what [`StepScope::granted`] says; of a divided step, so many partitions run at once, all in this process.
    #[must_use]
    pub fn pool(mut self, wanted: PoolUse) -> Self {
        self.pool = Some(wanted);
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What sort of step it is, such as `chunk` or `tasklet`.
    pub fn type_word(&self) -> &'static str {
        self.body.type_word()
    }

    pub(crate) fn rules(&self) -> StepRules {
        self.rules
    }

    pub(crate) fn listeners(&self) -> &[Arc<dyn StepListener>] {
        &self.listeners
    }

    pub(crate) fn pool_use(&self) -> Option<&PoolUse> {
        self.pool.as_ref()
    }

    pub(crate) fn body(&self) -> &dyn StepBody {
        &*self.body
    }

    /// The step that does the work of one partition, when this one is divided.
    pub(crate) fn worker(&self) -> Option<&Self> {
        self.body.worker()
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(wanted) = &self.pool {
            wanted.check().map_err(|bad| format!("of pool {}: {bad}", wanted.pool))?;
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
        write!(f, "Step({}, {})", self.name, self.type_word())
    }
}

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a step does.
pub(crate) trait StepBody: Send + Sync {
    /// Runs it. What is counted and remembered is in the task, also after a failure.
    fn run<'a>(&'a self, task: &'a mut StepTask) -> BoxFuture<'a, Result<StepEnd, StepFailure>>;

    /// What sort of step it is.
    fn type_word(&self) -> &'static str;

    /// The step that does the work of one partition, when this one is divided.
    fn worker(&self) -> Option<&Step> {
        None
    }

    /// Whether it cannot run without units of a pool.
    fn needs_units(&self) -> bool {
        false
    }

    /// What was said of it when it was defined.
    fn describe(&self) -> Vec<Described> {
        Vec::new()
    }

    /// What is wrong with its definition.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// How a step ended that came to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum StepEnd {
    /// All is done.
    Completed(ExitStatus),
    /// It was asked to stop, and did at the end of a chunk.
    Stopped,
    /// It came to its end, and what it has to say is that it failed. Unlike with [`StepFailure`] the exit code may be
    /// one of the author's.
    Failed {
        /// The stable code.
        code: Code,
        /// The exit code for flows, and the reason.
        exit: ExitStatus,
    },
}

/// Why a step did not come to its end.
#[derive(Debug)]
pub(crate) enum StepFailure {
    /// It failed.
    Failed {
        /// The stable code.
        code: Code,
        /// What happened.
        text: String,
    },
    /// Somebody else has taken over, or this process no longer counts. Nothing may be written any more.
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

/// A step that is running: what it has counted, what it remembers, and how it commits.
#[derive(Debug)]
pub(crate) struct StepTask {
    pub(crate) scope: StepScope,
    /// What the step remembers, as of the chunk in hand.
    pub(crate) context: ExecutionContext,
    /// What has been counted, commits and rollbacks included.
    pub(crate) counters: Counters,
    pub(crate) stop: StopSignal,
    pub(crate) clock: Arc<dyn Clock>,
    /// The process that it runs in.
    pub(crate) process: Process,
    /// The pools, for steps that run others.
    pub(crate) pools: PoolsOnDemand,
    lease: Arc<HeldLease>,
    /// The context as it is stored.
    stored: String,
    is_stop_stored: bool,
    progress: Progress,
}

/// What a step has committed; it outlives the step's own task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress(Arc<Mutex<Committed>>);

#[derive(Debug, Default)]
struct Committed {
    counters: Counters,
    context: ExecutionContext,
    /// Whether a commit is on its way.
    is_committing: bool,
}

impl Progress {
    fn get(&self) -> MutexGuard<'_, Committed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was counted and remembered at the last commit.
    pub(crate) fn committed(&self) -> (Counters, ExecutionContext) {
        let committed = self.get();
        (committed.counters, committed.context.clone())
    }

    /// Whether a commit is on its way, so that nobody can say yet what is committed.
    pub(crate) fn is_committing(&self) -> bool {
        self.get().is_committing
    }

    fn begin_commit(&self) {
        self.get().is_committing = true;
    }

    fn set(&self, counters: Counters, context: &ExecutionContext) {
        let mut committed = self.get();
        committed.counters = counters;
        committed.context.clone_from(context);
        committed.is_committing = false;
    }
}

impl StepTask {
    pub(super) fn new(
        scope: StepScope,
        (counters, context): (Counters, ExecutionContext),
        StepRunner { lease, stop, clock, pools }: StepRunner,
    ) -> Self {
        let (stored, is_stop_stored) = (String::new(), false);
        let progress = Progress::default();
        progress.set(counters, &context);
        let process = lease.process().clone();
        Self {
            scope,
            context,
            counters,
            stop,
            clock,
            process,
            pools,
            lease,
            stored,
            is_stop_stored,
            progress,
        }
    }

    /// What it has committed, for those who look from outside.
    pub(crate) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// The lease under which it writes.
    pub(crate) fn lease(&self) -> &Arc<HeldLease> {
        &self.lease
    }

    /// Whether it shall stop at the end of the chunk in hand.
    pub(crate) fn shall_stop(&self) -> bool {
        self.is_stop_stored || self.stop.is_asked()
    }

    /// Refuses to go on when this process may no longer act.
    pub(crate) fn check(&self) -> Result<(), StepFailure> {
        self.lease.check().map_err(|_| StepFailure::LeaseLost)
    }

    /// Waits until this process may no longer act.
    pub(crate) async fn lost(&self) {
        self.lease.lost().await;
    }

    /// A chunk whose transaction begins when it is needed.
    pub(crate) fn chunk(&self, idle_limit: Option<Duration>) -> ChunkScope {
        ChunkScope::new(self.scope.store().clone(), idle_limit).under(self.lease.clone())
    }

    /// Tells what this step promises and how much there is to do.
    pub(crate) async fn describe(
        &self,
        total: Option<u64>,
        delivery: Option<Delivery>,
    ) -> Result<(), StepFailure> {
        let mut chunk = self.chunk(None);
        let tx = chunk.tx().await?;
        if !tx.leases().confirm(self.lease.key(), self.lease.fence()).await? {
            return Err(self.refused());
        }
        tx.jobs().describe_step(self.scope.step_execution(), total, delivery.map(Delivery::as_str)).await?;
        if let Some(tx) = chunk.take() {
            tx.commit().await?;
        }
        Ok(())
    }

    /// Commits a chunk: what was written in its transaction, the position, the counters, and the proof that this
    /// process may still act, together or not at all. `contribution` is what the chunk has counted.
    pub(crate) async fn commit(
        &mut self,
        chunk: &mut ChunkScope,
        contribution: Counters,
    ) -> Result<(), StepFailure> {
        let text = self
            .context
            .to_text()
            .map_err(|error| StepFailure::failed(Code::ContextTooLarge, error.to_string()))?;
        let mut counters = self.counters;
        counters += contribution;
        counters.commit += 1;
        chunk.tx().await?;
        let Some(mut tx) = chunk.take() else { return Err(StepFailure::LeaseLost) };
        crash_point!("chunk_before_save");
        let save = ChunkSave {
            step: self.scope.step_execution(),
            execution: self.scope.execution(),
            lease: self.lease.key(),
            fence: self.lease.fence(),
            counters: &counters,
            context: (text != self.stored).then_some(text.as_str()),
        };
        let (version, stop_requested) = match tx.jobs().save_chunk(&save).await? {
            ChunkSaved::Saved { version, stop_requested } => (version, stop_requested),
            ChunkSaved::Fenced => return Err(self.refused()),
        };
        crash_point!("chunk_after_save");
        self.check()?;
        crash_point!("chunk_before_commit");
        self.progress.begin_commit();
        match tx.commit().await {
            Ok(()) => {}
            Err(StoreError::OutcomeUnknown(error)) => {
                tracing::warn!(%error, "the answer to a commit was lost; looking whether it happened");
                if !self.has_committed(version).await? {
                    let text = format!("the connection broke before a chunk was committed: {error}");
                    return Err(StepFailure::failed(Code::DatabaseUnreachable, text));
                }
            }
            Err(error) => return Err(error.into()),
        }
        crash_point!("chunk_after_commit");
        self.stored = text;
        self.is_stop_stored |= stop_requested;
        self.progress.set(counters, &self.context);
        Ok(())
    }

    /// Commits what it remembers, and nothing else.
    pub(crate) async fn remember(&mut self) -> Result<(), StepFailure> {
        let mut chunk = self.chunk(None);
        self.commit(&mut chunk, Counters::default()).await?;
        self.counters.commit += 1;
        Ok(())
    }

    /// Finds out whether a transaction committed whose answer was lost. It held the row of the step, so who gets
    /// that row afterwards sees how it ended.
    async fn has_committed(&self, version: i64) -> Result<bool, StepFailure> {
        const PAUSE: Duration = Duration::from_millis(200);
        loop {
            self.check()?;
            let looked = async {
                let mut tx = self.scope.store().begin().await?;
                let found = tx.jobs().settled_version(self.scope.step_execution()).await?;
                tx.rollback().await?;
                Ok::<_, StoreError>(found)
            };
            match looked.await {
                Ok(found) => return Ok(found.is_some_and(|found| found >= version)),
                Err(error) if error.is_transient() => {
                    tracing::warn!(%error, "could not look yet; will try again");
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The fence was refused: somebody else has taken over.
    fn refused(&self) -> StepFailure {
        let execution = self.scope.execution();
        tracing::warn!(execution.id = %execution, "execution {execution} has been given to somebody else; this write was refused");
        metrics::fencing_rejected(self.lease.key().kind());
        StepFailure::LeaseLost
    }
}

//! The launcher: starts executions in this process, and lets operators act on any.

use crate::error::EngineError;
use crate::job::definition::{Job, JobRegistry};
use crate::job::error::JobError;
use crate::job::run_job::Runner;
use crate::job::stop::{StopSignal, StopSwitch, Urgency};
use crate::lease::HeldLease;
use crate::pool::{Pools, PoolsOnDemand};
use crate::process::Process;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::code::Code;
use tidemill_domain::job::{BatchStatus, ExecutionId, ExitStatus, JobParameters};
use tidemill_domain::time::Clock;
use tidemill_store::job::{Launched, stop_topic};
use tidemill_store::{Store, StoreError};
use tokio::task::JoinHandle;

/// How often to look for a stop that nobody called out.
const STOP_PAUSE: Duration = Duration::from_secs(2);

/// How an execution ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExecutionEnd {
    /// Which.
    pub execution: ExecutionId,
    /// Its status.
    pub status: BatchStatus,
    /// Its exit status.
    pub exit: ExitStatus,
    /// The code of its failure, if it failed.
    pub code: Option<Code>,
}

/// An execution that runs in this process.
#[derive(Debug)]
pub struct Running {
    /// Which.
    pub execution: ExecutionId,
    working: JoinHandle<Result<ExecutionEnd, EngineError>>,
}

impl Running {
    /// Waits for its end. The error says that this process may no longer act for it.
    pub async fn ended(self) -> Result<ExecutionEnd, EngineError> {
        match self.working.await {
            Ok(ended) => ended,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => std::future::pending().await,
            },
        }
    }
}

/// Starts executions in this process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Launcher {
    pub(super) inner: Arc<Inner>,
    pub(super) pools: PoolsOnDemand,
    pub(super) running_max: usize,
    pub(super) accepts_change: bool,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) store: Store,
    pub(super) process: Process,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) jobs: JobRegistry,
    pub(super) running: Mutex<HashMap<ExecutionId, StopSwitch>>,
    /// Stops the partitions of other processes' executions that run here.
    pub(super) partition_stop: StopSwitch,
    /// One for each of them.
    pub(super) partitions: Arc<()>,
}

impl Launcher {
    /// A launcher of these jobs, on behalf of `process`.
    pub fn new(store: Store, process: Process, clock: Arc<dyn Clock>, jobs: JobRegistry) -> Self {
        let pools = PoolsOnDemand::new(store.clone());
        let inner = Inner {
            store,
            process,
            clock,
            jobs,
            running: Mutex::default(),
            partition_stop: StopSwitch::default(),
            partitions: Arc::default(),
        };
        Self { inner: Arc::new(inner), pools, running_max: usize::MAX, accepts_change: false }
    }

    /// Refuses launches while so many executions run in this process. Without it there is no limit.
    #[must_use]
    pub fn max_running(mut self, limit: usize) -> Self {
        self.running_max = limit;
        self
    }

    /// Goes on with instances although the definition of their job is another one than that of their last execution.
    #[must_use]
    pub fn accept_change(mut self, accepts_change: bool) -> Self {
        self.accepts_change = accepts_change;
        self
    }

    /// Asks these pools for the units that steps need. Without it, pools are started when the first step needs some.
    #[must_use]
    pub fn pools(mut self, pools: Pools) -> Self {
        self.pools = PoolsOnDemand::of(pools);
        self
    }

    /// Shares the pools of whoever launches this.
    pub(crate) fn sharing(mut self, pools: PoolsOnDemand) -> Self {
        self.pools = pools;
        self
    }

    pub(crate) fn pools_on_demand(&self) -> &PoolsOnDemand {
        &self.pools
    }

    /// The jobs that it can start.
    pub fn jobs(&self) -> &JobRegistry {
        &self.inner.jobs
    }

    /// The database.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// Tells the partitions of other processes' executions when this process lets go of them.
    pub(crate) fn partition_stop(&self) -> StopSignal {
        self.inner.partition_stop.signal()
    }

    /// Counts a partition of another process's execution until the answer is dropped.
    pub(crate) fn partition_begins(&self) -> Arc<()> {
        self.inner.partitions.clone()
    }

    pub(crate) fn process(&self) -> &Process {
        &self.inner.process
    }

    /// Starts a job. The same identifying parameters mean the same instance: an instance that did not complete goes
    /// on where it ended, one that did is refused.
    pub async fn launch(
        &self,
        job: &str,
        parameters: &JobParameters,
        actor: &Actor,
    ) -> Result<Running, JobError> {
        self.launch_with(job, parameters, actor, None).await
    }

    /// [`launch`](Self::launch) as a step of another execution, which is noted so that retention knows.
    pub(crate) async fn launch_within(
        &self,
        outer: ExecutionId,
        job: &str,
        parameters: &JobParameters,
        actor: &Actor,
    ) -> Result<Running, JobError> {
        self.launch_with(job, parameters, actor, Some(outer)).await
    }

    async fn launch_with(
        &self,
        job: &str,
        parameters: &JobParameters,
        actor: &Actor,
        outer: Option<ExecutionId>,
    ) -> Result<Running, JobError> {
        // Before anybody has to wait for it.
        self.inner.jobs.get(job)?;
        let mut launching = self.launching().await;
        let mut tx = self.inner.store.begin().await?;
        let id = launching.launch(&mut tx, job, parameters, actor).await?;
        if let Some(outer) = outer {
            tx.jobs().note_outer(id, outer).await?;
        }
        tx.commit().await?;
        Ok(launching.committed().expect("what was launched has been prepared"))
    }

    /// Starts the job of an execution that did not complete again, with its parameters.
    pub async fn restart(&self, id: ExecutionId, actor: &Actor) -> Result<Running, JobError> {
        let mut tx = self.inner.store.read().await?;
        let found = tx.jobs().execution(id).await?;
        drop(tx);
        let found = found.ok_or(JobError::UnknownExecution(id))?;
        let (job, parameters) = (found.execution.job.as_str(), found.job_parameters()?);
        self.inner.jobs.get(job)?;
        let mut launching = self.launching().await;
        let mut tx = self.inner.store.begin().await?;
        launching.restart(&mut tx, job, &parameters, actor).await?;
        tx.commit().await?;
        Ok(launching.committed().expect("what was launched has been prepared"))
    }

    /// Starts one execution whose process died and that shall be restarted, if there is one for a job of ours.
    pub(crate) async fn restart_due(&self) -> Result<Option<Running>, JobError> {
        let names: Vec<(&str, Option<&str>)> =
            self.inner.jobs.iter().map(|job| (job.name(), job.definition())).collect();
        if names.is_empty() {
            return Ok(None);
        }
        let mut launching = self.launching().await;
        if launching.is_full() {
            // It stays due: another process may take it, or this one when something has ended.
            return Ok(None);
        }
        let mut tx = self.inner.store.begin().await?;
        let Some(due) = tx.jobs().take_due_restart(&names).await? else { return Ok(None) };
        let restarts = due.crash_restarts + 1;
        let actor = Actor::system();
        match launching.launch_again(&mut tx, &due.job, &due.parameters, &actor, restarts).await {
            Ok(_) => {}
            // That commits too: the restart is no longer due, which nobody has to find out again.
            Err(JobError::Refused { refusal, job }) => {
                tracing::warn!(job, "job {job} was not restarted after a crash: {refusal}");
            }
            Err(error) => return Err(error),
        }
        tx.commit().await?;
        Ok(launching.committed())
    }

    pub(super) fn start(&self, job: Job, launched: Launched, lease: HeldLease) -> Running {
        let execution = launched.execution;
        let switch = StopSwitch::default();
        self.running().insert(execution, switch.clone());
        let (store, clock) = (self.inner.store.clone(), self.inner.clock.clone());
        let pools = self.pools.clone();
        let runner = Runner::new(store, clock, job, launched, lease, switch.signal(), pools);
        let launcher = self.clone();
        let working = tokio::spawn(async move {
            let watching = tokio::spawn(watch_for_stop(launcher.inner.store.clone(), execution, switch));
            let ended = runner.run().await;
            watching.abort();
            launcher.running().remove(&execution);
            ended
        });
        Running { execution, working }
    }

    /// Stops all executions of this process, and hands the partitions of others back: at the end of their chunks, and
    /// after `grace` in the middle of them. Returns when all have ended.
    pub async fn stop_all(&self, grace: Duration) {
        let ask = |urgency| {
            self.inner.partition_stop.ask(urgency);
            self.running().values().for_each(|switch| switch.ask(urgency));
        };
        ask(Urgency::AtChunkEnd);
        if tokio::time::timeout(grace, self.idle()).await.is_err() {
            tracing::warn!(
                "executions have not come to the end of a chunk within {grace:?}; they are stopped now"
            );
            ask(Urgency::Now);
            self.idle().await;
        }
    }

    /// Stops all executions of this launcher in the middle of their chunks, without waiting for their end.
    pub(crate) fn stop_now(&self) {
        self.running().values().for_each(|switch| switch.ask(Urgency::Now));
    }

    /// Waits until nothing runs in this process.
    async fn idle(&self) {
        const PAUSE: Duration = Duration::from_millis(20);
        while !self.running().is_empty() || Arc::strong_count(&self.inner.partitions) > 1 {
            tokio::time::sleep(PAUSE).await;
        }
    }

    pub(super) fn running(&self) -> MutexGuard<'_, HashMap<ExecutionId, StopSwitch>> {
        self.inner.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes on a stop that was requested in the database.
pub(crate) async fn watch_for_stop(store: Store, execution: ExecutionId, switch: StopSwitch) {
    let mut wakeup = store.wakeup(&stop_topic(execution));
    loop {
        let asked = async {
            let mut tx = store.read().await?;
            let found = tx.jobs().execution(execution).await?;
            drop(tx);
            Ok::<bool, StoreError>(found.is_some_and(|found| found.stop.is_some()))
        };
        // A look that fails is repeated; chunks look by themselves, too.
        if matches!(asked.await, Ok(true)) {
            return switch.ask(Urgency::AtChunkEnd);
        }
        wakeup.wait(STOP_PAUSE).await;
    }
}

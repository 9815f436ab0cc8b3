//! The launcher: the jobs and executions of this process, and how they are stopped. `launch.rs` starts them.

use crate::job::command::log::LogFolder;
use crate::job::{Execution, ExecutionEnd, Job, JobRegistry, StepResources, StopSwitch, Urgency};
use crate::pool::{Pools, PoolsOnDemand};
use crate::{EngineError, HeldLease, Next, Process, Service, locked};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tidemill_domain::job::ExecutionId;
use tidemill_domain::time::Clock;
use tidemill_store::job::{Launched, stop_topic};
use tidemill_store::{Store, StoreError};
use tokio::task::JoinHandle;
use tracing::Span;

/// How often to check for a stop request if no wake-up arrives.
const STOP_PAUSE: Duration = Duration::from_secs(2);

/// An execution that runs in this process.
#[derive(Debug)]
pub struct Running {
    /// Its id.
    pub execution: ExecutionId,
    task: JoinHandle<Result<ExecutionEnd, EngineError>>,
}

impl Running {
    /// Waits for its end. The error means that this process lost the execution.
    #[crate::boxed]
    pub async fn ended(self) -> Result<ExecutionEnd, EngineError> {
        match self.task.await {
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
#[must_use]
pub struct Launcher {
    pub(super) inner: Arc<Inner>,
    pub(super) pools: PoolsOnDemand,
    logs: Option<LogFolder>,
    pub(super) running_max: usize,
    pub(super) accepts_change: bool,
}

#[derive(Debug)]
pub(super) struct Inner {
    store: Store,
    process: Process,
    pub(super) clock: Arc<dyn Clock>,
    jobs: Mutex<JobRegistry>,
    running: Mutex<HashMap<ExecutionId, StopSwitch>>,
    /// Stops partitions of other processes' executions that run here.
    pub(super) partition_stop: StopSwitch,
    /// Cloned once for each such partition.
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
            jobs: Mutex::new(jobs),
            running: Mutex::default(),
            partition_stop: StopSwitch::default(),
            partitions: Arc::default(),
        };
        Self { inner: Arc::new(inner), pools, logs: None, running_max: usize::MAX, accepts_change: false }
    }

    tidemill_domain::setters! {
        /// Maximum number of executions in this process; unlimited by default.
        pub fn max_running(self, limit: usize) { self.running_max = limit }
        /// Continues instances even if the definition of their job has changed.
        pub fn accept_change(self, accepts_change: bool) { self.accepts_change = accepts_change }
        /// Keeps the output of command and Spark steps in this folder; by default it is not kept.
        pub fn logs(self, folder: impl Into<Option<LogFolder>>) { self.logs = folder.into() }
        /// Takes units from these pools. By default, pools are started when the first step needs units.
        pub fn pools(self, pools: Pools) { self.pools = PoolsOnDemand::of(pools) }
    }

    /// The folder with the output of command and Spark steps.
    pub fn log_folder(&self) -> Option<&LogFolder> {
        self.logs.as_ref()
    }

    /// The jobs that it can start now.
    pub fn jobs(&self) -> JobRegistry {
        locked(&self.inner.jobs).clone()
    }

    /// Replaces the jobs. Running executions keep the definition they began with.
    pub fn set_jobs(&self, jobs: JobRegistry) {
        *locked(&self.inner.jobs) = jobs;
    }

    /// The database.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    pub(crate) fn process(&self) -> &Process {
        &self.inner.process
    }

    pub(super) fn resources(&self, lease: HeldLease, stop: &StopSwitch) -> StepResources {
        StepResources {
            lease: Arc::new(lease),
            stop: stop.signal(),
            clock: self.inner.clock.clone(),
            pools: self.pools.clone(),
            logs: self.logs.clone(),
        }
    }

    /// Runs an execution whose insert has committed.
    pub(super) fn start(&self, job: Job, launched: Launched, lease: HeldLease, span: Span) -> Running {
        let id = launched.execution;
        let switch = StopSwitch::default();
        self.running().insert(id, switch.clone());
        let resources = self.resources(lease, &switch);
        let execution = Execution::new(self.inner.store.clone(), job, launched, resources, span);
        let launcher = self.clone();
        let task = tokio::spawn(async move {
            let watching = tokio::spawn(watch_for_stop(launcher.inner.store.clone(), id, switch));
            let ended = execution.run().await;
            watching.abort();
            launcher.running().remove(&id);
            ended
        });
        Running { execution: id, task }
    }

    /// Stops all executions of this process, and hands back partitions of others: at the end of their chunks, or at
    /// once after `grace`. Returns when all have ended.
    #[crate::boxed]
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

    async fn idle(&self) {
        const PAUSE: Duration = Duration::from_millis(20);
        while !self.running().is_empty() || Arc::strong_count(&self.inner.partitions) > 1 {
            tokio::time::sleep(PAUSE).await;
        }
    }

    pub(super) fn running(&self) -> MutexGuard<'_, HashMap<ExecutionId, StopSwitch>> {
        locked(&self.inner.running)
    }
}

/// Forwards a stop request from the database, which another program, such as Spring Batch, writes without a wake-up.
pub(crate) async fn watch_for_stop(store: Store, execution: ExecutionId, switch: StopSwitch) {
    let mut service = Service::new(format!("looking whether execution {execution} shall stop"), STOP_PAUSE)
        .wake_by(store.wakeup(&stop_topic(execution)));
    while service.is_due().await {
        let look = async || -> Result<Next, StoreError> {
            let must_stop = store.read().await?.jobs().must_stop(execution).await?;
            Ok(if must_stop { Next::End } else { Next::Rest })
        };
        service.ended(look().await);
    }
    switch.ask(Urgency::AtChunkEnd);
}

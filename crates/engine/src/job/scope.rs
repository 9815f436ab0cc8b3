//! What the parts of a step may look at while they run.

use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::{ExecutionContext, ExecutionId, JobParameters, StepExecutionId};
use tidemill_store::{Store, StoreError, Tx};

/// What a step's parts are made with. Readers, processors and writers are made anew for each run of the step, so
/// they can depend on the parameters of that run.
#[derive(Clone, Debug)]
pub struct StepScope {
    inner: Arc<StepScopeParts>,
}

/// What a [`StepScope`] is made of.
#[derive(Debug)]
pub(crate) struct StepScopeParts {
    pub(crate) store: Store,
    pub(crate) job: String,
    pub(crate) step: String,
    pub(crate) execution: ExecutionId,
    pub(crate) step_execution: StepExecutionId,
    pub(crate) parameters: JobParameters,
    pub(crate) job_context: ExecutionContext,
    pub(crate) is_resumed: bool,
}

impl StepScope {
    pub(crate) fn new(parts: StepScopeParts) -> Self {
        Self { inner: Arc::new(parts) }
    }

    /// The database that the job is recorded in, which is also where writers write exactly once.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Name of the job.
    pub fn job(&self) -> &str {
        &self.inner.job
    }

    /// Name of the step.
    pub fn step(&self) -> &str {
        &self.inner.step
    }

    /// This run of the job.
    pub fn execution(&self) -> ExecutionId {
        self.inner.execution
    }

    /// This run of the step.
    pub fn step_execution(&self) -> StepExecutionId {
        self.inner.step_execution
    }

    /// Whether this run goes on where an earlier one ended.
    pub fn is_resumed(&self) -> bool {
        self.inner.is_resumed
    }

    /// The parameters of the job.
    pub fn parameters(&self) -> &JobParameters {
        &self.inner.parameters
    }

    /// A parameter as text; an error that names it when it was not given.
    pub fn text(&self, name: &str) -> Result<String, ItemError> {
        self.inner.parameters.get(name).map(|parameter| parameter.value.to_string()).ok_or_else(|| {
            ItemError::new(ErrorKind::FATAL, format!("the job parameter {name:?} was not given"))
        })
    }

    /// What the job remembers, as it was at the start of the step.
    pub fn job_context(&self) -> &ExecutionContext {
        &self.inner.job_context
    }
}

/// The chunk that is being written, and its transaction. That begins when it is first asked for, so that a writer
/// which does something else first does not hold it meanwhile.
#[derive(Debug)]
pub struct ChunkScope {
    store: Store,
    idle_limit: Option<Duration>,
    tx: Option<Tx>,
}

impl ChunkScope {
    pub(crate) fn new(store: Store, idle_limit: Option<Duration>) -> Self {
        Self { store, idle_limit, tx: None }
    }

    /// The transaction of this chunk. Do not commit; the step does.
    pub async fn tx(&mut self) -> Result<&mut Tx, StoreError> {
        if self.tx.is_none() {
            self.tx = Some(match self.idle_limit {
                Some(limit) => self.store.begin_idling(limit).await?,
                None => self.store.begin().await?,
            });
        }
        Ok(self.tx.as_mut().expect("the transaction has just begun"))
    }

    /// The transaction, if one has begun.
    pub(crate) fn take(&mut self) -> Option<Tx> {
        self.tx.take()
    }

    /// Whether a transaction has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.tx.is_some()
    }
}

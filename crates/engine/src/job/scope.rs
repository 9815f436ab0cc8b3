//! What the parts of a step may look at while they run.

use crate::lease::HeldLease;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::partition::worker_of;
use tidemill_domain::job::spark::Granted;
use tidemill_domain::job::{ExecutionContext, ExecutionId, InstanceId, JobParameters, StepExecutionId};
use tidemill_store::job::{PreviousPosition, PreviousRunRequest};
use tidemill_store::{Store, StoreError, Tx};

/// What a step's parts are made with. Readers, processors and writers are made anew for each run of the step, so
/// they can depend on the parameters of that run.
#[derive(Clone, Debug)]
pub struct StepScope {
    inner: Arc<StepScopeParts>,
}

#[derive(Debug)]
pub(crate) struct StepScopeParts {
    pub(crate) store: Store,
    pub(crate) job: String,
    pub(crate) step: String,
    pub(crate) instance: InstanceId,
    pub(crate) execution: ExecutionId,
    pub(crate) step_execution: StepExecutionId,
    pub(crate) parameters: JobParameters,
    pub(crate) job_context: ExecutionContext,
    /// What the step remembers at its start.
    pub(crate) context: ExecutionContext,
    /// Of the definition of the job, where it has one.
    pub(crate) fingerprint: Option<String>,
    pub(crate) is_resumed: bool,
    /// What a pool has granted, once it has.
    pub(crate) granted: OnceLock<Granted>,
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

    /// Name of the step; of a partition `<step>:<key>`.
    pub fn step(&self) -> &str {
        &self.inner.step
    }

    /// Name of the step as it is defined, whichever partition of it this is: what metrics are counted by.
    pub(crate) fn defined_step(&self) -> &str {
        worker_of(&self.inner.step)
    }

    pub(crate) fn instance(&self) -> InstanceId {
        self.inner.instance
    }

    pub(crate) fn fingerprint(&self) -> Option<&str> {
        self.inner.fingerprint.as_deref()
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

    /// What a pool has granted to the step, or to the divided step that this is a partition of; none when it asks no
    /// pool.
    pub fn granted(&self) -> Option<&Granted> {
        self.inner.granted.get()
    }

    /// Notes what a pool has granted. It is granted once in a run of a step.
    pub(crate) fn grant(&self, granted: Granted) {
        self.inner.granted.get_or_init(|| granted);
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

    /// What the step remembers, as it was at its start. In a partition: what its partitioner gave it, too.
    pub fn context(&self) -> &ExecutionContext {
        &self.inner.context
    }

    /// Where the same step of the last earlier instance of the job ended, for a reader of something that has no end: it
    /// goes on behind what was read. `key` is what the reader saves its position under. It is an error when that
    /// instance runs, or can be restarted: it would read the same.
    #[crate::boxed]
    pub async fn previous_run(&self, key: &str) -> Result<Option<ExecutionContext>, ItemError> {
        let request = PreviousRunRequest {
            job: self.job(),
            step: self.step(),
            instance: self.instance(),
            run: self.step_execution(),
            key,
        };
        let mut tx = self.store().read().await?;
        match tx.jobs().earlier_step(&request).await? {
            PreviousPosition::None => Ok(None),
            PreviousPosition::Behind(context) => Ok(Some(context)),
            PreviousPosition::Open(execution) => {
                let text = format!(
                    "execution {execution} of an earlier instance has not come to its end, so this one cannot go on \
                     behind it; wait for it, restart it with `tidemill job restart {execution}`, or give it up with \
                     `tidemill job abandon {execution}`"
                );
                Err(ItemError::new(ErrorKind::FATAL, text).coded(Code::EarlierRunOpen))
            }
        }
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
    /// As long as this is trusted, a database that is away is waited for.
    lease: Option<Arc<HeldLease>>,
    idle_limit: Option<Duration>,
    tx: Option<Tx>,
}

/// Pause before a transaction is begun again, after the database could not be reached or had no time.
const PAUSE: Duration = Duration::from_millis(250);

impl ChunkScope {
    pub(crate) fn new(store: Store, idle_limit: Option<Duration>) -> Self {
        Self { store, lease: None, idle_limit, tx: None }
    }

    /// That of another chunk of the same step.
    pub(crate) fn another(&self) -> Self {
        let (store, lease) = (self.store.clone(), self.lease.clone());
        Self { store, lease, idle_limit: self.idle_limit, tx: None }
    }

    pub(crate) fn under(self, lease: Arc<HeldLease>) -> Self {
        Self { lease: Some(lease), ..self }
    }

    /// The transaction of this chunk. Do not commit; the step does. While nothing has been done in it, a database that
    /// is away or busy is waited for, as long as this process may act.
    pub async fn tx(&mut self) -> Result<&mut Tx, StoreError> {
        while self.tx.is_none() {
            match self.begin().await {
                Ok(tx) => self.tx = Some(tx),
                Err(error) if error.is_transient() && self.may_wait() => {
                    tracing::warn!(%error, "the transaction of a chunk could not begin; will try again");
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(self.tx.as_mut().expect("the transaction has just begun"))
    }

    fn may_wait(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.is_trusted())
    }

    async fn begin(&self) -> Result<Tx, StoreError> {
        match self.idle_limit {
            Some(limit) => self.store.begin_idling(limit).await,
            None => self.store.begin().await,
        }
    }

    pub(crate) fn take(&mut self) -> Option<Tx> {
        self.tx.take()
    }

    pub(crate) async fn roll_back(&mut self) {
        if let Some(tx) = self.take() {
            // A connection that is gone has rolled back as well.
            if let Err(error) = tx.rollback().await {
                tracing::debug!(%error, "a rollback was not answered");
            }
        }
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.tx.is_some()
    }
}

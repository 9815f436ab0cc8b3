//! The scopes that the parts of a step get while they run.

use crate::HeldLease;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::partition::worker_of;
use tidemill_domain::job::spark::Granted;
use tidemill_domain::job::{ExecutionContext, ExecutionId, InstanceId, JobParameters, StepExecutionId};
use tidemill_domain::outbox::NewEvent;
use tidemill_store::item::TableWriter;
use tidemill_store::job::{PreviousPosition, PreviousRunRequest, Staged};
use tidemill_store::{Store, StoreError, Tx};

/// The run of a step. Readers, processors and writers are made for each run, so they can depend on its parameters.
#[derive(Clone, Debug)]
pub struct StepScope {
    inner: Arc<StepScopeParts>,
}

#[derive(Clone, Debug)]
pub(crate) struct StepScopeParts {
    pub(crate) store: Store,
    pub(crate) job: String,
    pub(crate) step: String,
    pub(crate) instance: InstanceId,
    pub(crate) execution: ExecutionId,
    pub(crate) step_execution: StepExecutionId,
    pub(crate) parameters: JobParameters,
    pub(crate) job_context: ExecutionContext,
    /// The context of the step at its start.
    pub(crate) context: ExecutionContext,
    pub(crate) fingerprint: Option<String>,
    pub(crate) is_resumed: bool,
    pub(crate) granted: OnceLock<Granted>,
}

tidemill_domain::getters!(StepScope, inner {
    /// The job's own database, where writers write exactly once.
    &store: Store,
    /// Name of the job.
    &job: str,
    /// Name of the step; `<step>:<key>` for a partition.
    &step: str,
    /// The execution of the job.
    execution: ExecutionId,
    /// The execution of the step.
    step_execution: StepExecutionId,
    /// Whether this run continues an earlier one.
    is_resumed: bool,
    /// The parameters of the job.
    &parameters: JobParameters,
    /// The context of the step at its start. Of a partition: including the values of its partitioner.
    &context: ExecutionContext,
    /// The context of the job at the start of the step.
    &job_context: ExecutionContext,
});

impl StepScope {
    pub(crate) fn new(parts: StepScopeParts) -> Self {
        Self { inner: Arc::new(parts) }
    }

    /// The parts, for the scope of a partition of this step.
    pub(crate) fn parts(&self) -> StepScopeParts {
        (*self.inner).clone()
    }

    /// Name of the step in the definition, without the key of a partition: the label of metrics.
    pub(crate) fn defined_step(&self) -> &str {
        worker_of(&self.inner.step)
    }

    pub(crate) fn instance(&self) -> InstanceId {
        self.inner.instance
    }

    pub(crate) fn fingerprint(&self) -> Option<&str> {
        self.inner.fingerprint.as_deref()
    }

    /// What a pool granted to the step, or to the divided step of this partition; none without a pool.
    pub fn granted(&self) -> Option<&Granted> {
        self.inner.granted.get()
    }

    /// Sets the grant, once per run of a step.
    pub(crate) fn grant(&self, granted: Granted) {
        self.inner.granted.get_or_init(|| granted);
    }

    /// A parameter as text; an error if it was not given.
    pub fn text(&self, name: &str) -> Result<String, ItemError> {
        self.inner.parameters.get(name).map(|parameter| parameter.value.to_string()).ok_or_else(|| {
            ItemError::new(ErrorKind::FATAL, format!("the job parameter {name:?} was not given"))
        })
    }

    /// A text that is the same in all executions of this instance, and that no other instance has, also of another
    /// database. For keys by which a service recognises what a restart repeats.
    #[crate::boxed]
    pub async fn instance_key(&self) -> Result<String, ItemError> {
        let mut tx = self.store().read().await?;
        let first = tx.jobs().first_execution(self.instance()).await?;
        let first = first.map_or(0, |first| first.created_at.as_micros());
        Ok(format!("{}/{}/{first}", self.job(), self.instance()))
    }

    /// The final context of the same step in the previous instance of the job, for a reader of an endless source, which
    /// continues after it. `key` is the context key of the reader's position. Fails if that instance is running or can
    /// be restarted, because it would read the same items.
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
}

/// The chunk being written, and its transaction, which begins on first use.
#[derive(Debug)]
pub struct ChunkScope {
    store: Store,
    /// While this is trusted, a transaction waits for a database that is away.
    lease: Option<Arc<HeldLease>>,
    idle_limit: Option<Duration>,
    pub(super) tx: Option<Tx>,
    /// What waits for the commit of the chunk, which then writes it too, in one round trip. None if nothing may wait.
    pub(super) staged: Option<Staged>,
    /// How many items precede the first of these indices, and the items that are being written.
    pub(crate) written: (u64, Vec<usize>),
}

/// Pause before a transaction is begun again, if the database is away or busy.
const PAUSE: Duration = Duration::from_millis(250);

impl ChunkScope {
    pub(crate) fn new(store: Store, lease: Option<Arc<HeldLease>>, idle_limit: Option<Duration>) -> Self {
        Self { store, lease, idle_limit, tx: None, staged: None, written: (0, Vec::new()) }
    }

    /// For another chunk of the same step.
    pub(crate) fn another(&self) -> Self {
        Self::new(self.store.clone(), self.lease.clone(), self.idle_limit)
    }

    /// The transaction of this chunk. Do not commit it; the step does. While it is unused, a database that is away or
    /// busy is waited for, as long as this process holds the lease.
    pub async fn tx(&mut self) -> Result<&mut Tx, StoreError> {
        while self.tx.is_none() {
            let begun = match self.idle_limit {
                Some(limit) => self.store.begin_idling(limit).await,
                None => self.store.begin().await,
            };
            let may_wait = self.lease.as_ref().is_some_and(|lease| lease.is_trusted());
            match begun {
                Ok(tx) => self.tx = Some(tx),
                Err(error) if error.is_transient() && may_wait => {
                    tracing::warn!(%error, "the transaction of a chunk could not begin; will try again");
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
        let tx = self.tx.as_mut().expect("the transaction has just begun");
        if let Some(staged) = self.staged.take() {
            staged.write(tx).await?;
        }
        Ok(tx)
    }

    /// Writes the rows in the buffer of `table` in the transaction of this chunk, or lets them wait for its commit.
    pub(crate) async fn flush(&mut self, table: &mut TableWriter) -> Result<(), ItemError> {
        if let Some(staged) = &mut self.staged
            && self.tx.is_none()
            && staged.take_rows(table)
        {
            return Ok(());
        }
        table.flush(self.tx().await?).await
    }

    /// Writes events in the transaction of this chunk, or lets them wait for its commit.
    pub(crate) async fn publish(&mut self, events: Vec<NewEvent>) -> Result<(), ItemError> {
        match &mut self.staged {
            Some(staged) if self.tx.is_none() => staged.add_events(events),
            _ => drop(self.tx().await?.publish_all(&events).await?),
        }
        Ok(())
    }

    /// The numbers of the items that are being written, among all items that the step has read in this instance. They are
    /// the same when a restart or a retry writes an item again. Only for a writer that [is
    /// numbered](crate::job::ItemWriter::is_numbered).
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        let (first, indices) = &self.written;
        indices.iter().map(move |index| first + *index as u64)
    }

    pub(crate) async fn roll_back(&mut self) {
        self.staged = None;
        if let Some(tx) = self.tx.take() {
            // A lost connection has rolled back as well.
            if let Err(error) = tx.rollback().await {
                tracing::debug!(%error, "a rollback was not answered");
            }
        }
    }
}

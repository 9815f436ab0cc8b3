//! What is recorded of an execution on its way, under the fence and however long the database is away.

use crate::lease::HeldLease;
use crate::metrics;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::job::{BatchStatus, ExecutionId, ExitStatus};
use tidemill_store::job::{Launched, StepEnd, StepRequest, StepStart};
use tidemill_store::{Store, StoreError, Tx};

/// Pause before something is recorded again, after the database could not be reached.
const PAUSE: Duration = Duration::from_millis(250);

/// Why there is nothing to record: this process may not or cannot. Whoever finds the execution without an owner
/// records that it failed.
#[derive(Debug)]
pub(super) struct Lost;

/// What is recorded of an execution on its way.
pub(super) enum Entry<'a> {
    Begin,
    StartStep(&'a StepRequest<'a>),
    EndStep { end: &'a StepEnd<'a>, job_context: Option<&'a str> },
    End { status: BatchStatus, exit: &'a ExitStatus },
}

impl Entry<'_> {
    /// Whether it does no harm when it is recorded twice, because the first answer was lost.
    fn may_be_repeated(&self) -> bool {
        matches!(self, Self::EndStep { .. } | Self::End { .. })
    }
}

/// What the database says to it.
pub(super) enum Answer {
    /// Whether it was recorded; if not, the execution is no longer ours.
    Recorded(bool),
    Step(StepStart),
    /// It will not be recorded, however often it is tried; or nobody can say whether it was, and twice would be wrong.
    Impossible(StoreError),
}

/// Records for one execution.
#[derive(Clone)]
pub(super) struct Recorder {
    store: Store,
    execution: ExecutionId,
    lease: Arc<HeldLease>,
}

impl Recorder {
    pub(super) fn new(store: Store, launched: &Launched, lease: Arc<HeldLease>) -> Self {
        Self { store, execution: launched.execution, lease }
    }

    /// Records something under the fence. What cannot be recorded is lost.
    pub(super) async fn record(&self, entry: &Entry<'_>) -> Result<(), Lost> {
        match self.ask(entry).await? {
            Answer::Recorded(true) => Ok(()),
            Answer::Recorded(false) | Answer::Step(_) => Err(self.refused()),
            Answer::Impossible(error) => {
                tracing::error!(%error, "the execution could not be recorded; it is given up");
                Err(Lost)
            }
        }
    }

    /// Records the end. The lease has gone with it, so nobody needs to give it back.
    pub(super) async fn end(&self, status: BatchStatus, exit: &ExitStatus) -> Result<(), Lost> {
        self.record(&Entry::End { status, exit }).await?;
        self.lease.forget();
        Ok(())
    }

    /// Records something, however long the database is away, as long as this process may act.
    pub(super) async fn ask(&self, entry: &Entry<'_>) -> Result<Answer, Lost> {
        loop {
            if self.lease.check().is_err() {
                return Err(Lost);
            }
            let error = match self.try_once(entry).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let is_lost_answer = matches!(error, StoreError::OutcomeUnknown(_));
            if !error.is_transient() || is_lost_answer && !entry.may_be_repeated() {
                return Ok(Answer::Impossible(error));
            }
            tracing::warn!(%error, "the execution could not be recorded; will try again");
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn try_once(&self, entry: &Entry<'_>) -> Result<Answer, StoreError> {
        let (execution, lease, fence) = (self.execution, self.lease.key(), self.lease.fence());
        let mut tx = self.store.begin().await?;
        let answer = match entry {
            Entry::Begin => Answer::Recorded(tx.jobs().begin_execution(execution, lease, fence).await?),
            Entry::StartStep(request) => Answer::Step(tx.jobs().start_step(request).await?),
            Entry::EndStep { end, job_context } => {
                let is_ours = match job_context {
                    Some(text) => tx.jobs().save_job_context(execution, lease, fence, text).await?,
                    None => true,
                };
                Answer::Recorded(is_ours && tx.jobs().end_step(end).await?)
            }
            Entry::End { status, exit } => {
                let is_ended = tx.jobs().end_execution(execution, lease, fence, *status, exit).await?;
                Answer::Recorded(is_ended || is_recorded(&mut tx, execution, *status, exit).await?)
            }
        };
        tx.commit().await?;
        Ok(answer)
    }

    pub(super) fn refused(&self) -> Lost {
        metrics::fencing_rejected(self.lease.key().kind());
        Lost
    }
}

/// Whether this end is what is recorded already. With the end the lease goes, so that whoever lost the answer is
/// refused when it is recorded again.
async fn is_recorded(
    tx: &mut Tx,
    execution: ExecutionId,
    status: BatchStatus,
    exit: &ExitStatus,
) -> Result<bool, StoreError> {
    let found = tx.jobs().execution(execution).await?.map(|found| found.execution);
    Ok(found.is_some_and(|found| found.status == status && found.exit.code == exit.code))
}

//! The commit of a chunk: its writes, position, counters and fence in one transaction.

use crate::job::{
    ChunkScope, CommittedState, Delivery, LostAnswer, StepFailure, StepResources, StepScope, StepTask,
    while_away,
};
use crate::{HeldLease, locked, metrics};
use tidemill_domain::code::Code;
use tidemill_domain::job::{Counters, ExecutionContext};
use tidemill_store::job::{ChunkSave, ChunkSaved, Staged};
use tidemill_store::sqlx::Error as SqlError;
use tidemill_store::{StoreError, crash_point};

impl StepTask {
    /// `contribution` is what the chunk has counted.
    pub(crate) async fn commit(
        &mut self,
        chunk: &mut ChunkScope,
        contribution: Counters,
    ) -> Result<(), StepFailure> {
        self.save(chunk, self.counters_after(contribution)).await
    }

    /// Commits with these counters.
    pub(crate) async fn save(
        &mut self,
        chunk: &mut ChunkScope,
        counters: Counters,
    ) -> Result<(), StepFailure> {
        let text = self.text()?;
        chunk.tx().await?;
        let Some(mut tx) = chunk.tx.take() else { return Err(StepFailure::LeaseLost) };
        crash_point!("chunk_before_save");
        let save = save_of(&self.scope, &self.resources, &self.stored, &counters, &text);
        let stop_requested = match tx.jobs().save_chunk(&save, &mut self.place).await? {
            ChunkSaved::Saved { stop_requested, .. } => stop_requested,
            ChunkSaved::Fenced => return Err(self.refused()),
        };
        crash_point!("chunk_after_save");
        self.check()?;
        crash_point!("chunk_before_commit");
        self.committing(counters)?;
        match tx.commit().await {
            Ok(()) => {}
            Err(StoreError::OutcomeUnknown(error)) => {
                if !self.has_committed(&error, counters.commit).await? {
                    let text = format!("the connection broke before a chunk was committed: {error}");
                    return Err(StepFailure::failed(Code::DatabaseUnreachable, text));
                }
            }
            Err(error) => return Err(error.into()),
        }
        self.committed(text, stop_requested);
        Ok(())
    }

    /// Commits together with these rows and events, in one round trip. False if nothing was written: a transaction then shows why.
    pub(crate) async fn commit_staged(
        &mut self,
        staged: &Staged,
        contribution: Counters,
    ) -> Result<bool, StepFailure> {
        let counters = self.counters_after(contribution);
        let text = self.text()?;
        crash_point!("chunk_before_save");
        self.check()?;
        crash_point!("chunk_before_commit");
        self.committing(counters)?;
        let save = save_of(&self.scope, &self.resources, &self.stored, &counters, &text);
        let stop_requested = match self.scope.store().commit_chunk(&save, staged, &mut self.place).await {
            Ok(Some(ChunkSaved::Saved { stop_requested, .. })) => Some(stop_requested),
            Err(StoreError::OutcomeUnknown(error)) => {
                self.has_committed(&error, counters.commit).await?.then_some(false)
            }
            // A connection could not be had, or rows were refused.
            Ok(_) | Err(_) => None,
        };
        match stop_requested {
            Some(stop_requested) => self.committed(text, stop_requested),
            None => locked(&self.progress).committing = None,
        }
        Ok(stop_requested.is_some())
    }

    fn counters_after(&self, contribution: Counters) -> Counters {
        let mut counters = self.counters;
        counters += contribution;
        counters.commit += 1;
        counters
    }

    fn text(&self) -> Result<String, StepFailure> {
        let text = self.context.to_text();
        text.map_err(|error| StepFailure::failed(Code::ContextTooLarge, error.to_string()))
    }

    fn committing(&self, counters: Counters) -> Result<(), StepFailure> {
        let mut progress = locked(&self.progress);
        if progress.is_closed {
            return Err(StepFailure::LeaseLost);
        }
        progress.committing = Some((counters, self.context.clone()));
        Ok(())
    }

    fn committed(&mut self, text: String, stop_requested: bool) {
        crash_point!("chunk_after_commit");
        self.stored = text;
        self.is_stop_stored |= stop_requested;
        let mut progress = locked(&self.progress);
        if let Some((counters, context)) = progress.committing.take() {
            (progress.counters, progress.context) = (counters, context);
        }
    }

    /// Commits only the context.
    pub(crate) async fn commit_context(&mut self) -> Result<(), StepFailure> {
        let mut chunk = self.chunk(None);
        self.commit(&mut chunk, Counters::default()).await?;
        self.counters.commit += 1;
        Ok(())
    }

    /// Records the total number of items and the delivery guarantee.
    pub(crate) async fn record_plan(
        &self,
        total: Option<u64>,
        delivery: Delivery,
    ) -> Result<(), StepFailure> {
        let lease = &self.resources.lease;
        let mut chunk = self.chunk(None);
        let tx = chunk.tx().await?;
        if !tx.leases().confirm(lease.key(), lease.fence()).await? {
            return Err(self.refused());
        }
        tx.jobs().describe_step(self.scope.step_execution(), total, Some(delivery.as_str())).await?;
        if let Some(tx) = chunk.tx.take() {
            tx.commit().await?;
        }
        Ok(())
    }

    /// Whether a commit happened whose answer was lost. If it did not, it never will.
    async fn has_committed(&self, error: &SqlError, commits: u64) -> Result<bool, StepFailure> {
        tracing::warn!(%error, "the answer to a commit was lost; looking whether it happened");
        match settled_commits(&self.scope, &self.resources.lease).await? {
            Some(found) => Ok(found >= commits),
            None => Err(self.refused()),
        }
    }

    fn refused(&self) -> StepFailure {
        let execution = self.scope.execution();
        tracing::warn!(execution.id = %execution, "execution {execution} has been given to somebody else; this write was refused");
        metrics::fencing_rejections(self.resources.lease.key().kind()).increment(1);
        StepFailure::LeaseLost
    }
}

/// Of its parts, because the place of the rows is changed meanwhile. A context that has not changed is not written.
fn save_of<'a>(
    scope: &StepScope,
    resources: &'a StepResources,
    stored: &str,
    counters: &'a Counters,
    context: &'a str,
) -> ChunkSave<'a> {
    ChunkSave {
        step: scope.step_execution(),
        execution: scope.execution(),
        lease: resources.lease.key(),
        fence: resources.lease.fence(),
        counters,
        context: (context != stored).then_some(context),
    }
}

/// Counters and context of a step that was aborted. A commit that it had begun may still have happened.
pub(super) async fn after_abort(
    scope: &StepScope,
    lease: &HeldLease,
    state: CommittedState,
) -> Result<(Counters, ExecutionContext), StepFailure> {
    if let Some((counters, context)) = state.committing
        && settled_commits(scope, lease).await?.is_some_and(|found| found >= counters.commit)
    {
        return Ok((counters, context));
    }
    let mut counters = state.counters;
    counters.rollback += 1;
    Ok((counters, state.context))
}

/// How many commits of the step have happened; none follows that has begun before. `None` if the lease is lost.
async fn settled_commits(scope: &StepScope, lease: &HeldLease) -> Result<Option<u64>, StepFailure> {
    let look = || async {
        let mut tx = scope.store().begin().await?;
        let found = tx.jobs().settled_commits(scope.step_execution(), lease.key(), lease.fence()).await?;
        tx.commit().await?;
        Ok(found)
    };
    let found = while_away(lease, "could not look yet", LostAnswer::Repeat, look).await?;
    Ok(found.and_then(|found| u64::try_from(found).ok()))
}

//! The commit of a chunk: its writes, position, counters and fence in one transaction.

use crate::job::{ChunkScope, CommittedState, Delivery, LostAnswer, StepFailure, StepTask, while_away};
use crate::{locked, metrics};
use tidemill_domain::code::Code;
use tidemill_domain::job::Counters;
use tidemill_store::job::{ChunkSave, ChunkSaved};
use tidemill_store::{StoreError, crash_point};

impl StepTask {
    /// `contribution` is what the chunk has counted.
    pub(crate) async fn commit(
        &mut self,
        chunk: &mut ChunkScope,
        contribution: Counters,
    ) -> Result<(), StepFailure> {
        let mut counters = self.counters;
        counters += contribution;
        counters.commit += 1;
        self.save(chunk, counters).await
    }

    /// Commits with these counters.
    pub(crate) async fn save(
        &mut self,
        chunk: &mut ChunkScope,
        counters: Counters,
    ) -> Result<(), StepFailure> {
        let text = self
            .context
            .to_text()
            .map_err(|error| StepFailure::failed(Code::ContextTooLarge, error.to_string()))?;
        chunk.tx().await?;
        let Some(mut tx) = chunk.tx.take() else { return Err(StepFailure::LeaseLost) };
        crash_point!("chunk_before_save");
        let save = ChunkSave {
            step: self.scope.step_execution(),
            execution: self.scope.execution(),
            lease: self.resources.lease.key(),
            fence: self.resources.lease.fence(),
            counters: &counters,
            context: (text != self.stored).then_some(text.as_str()),
        };
        let (version, stop_requested) = match tx.jobs().save_chunk(&save, &mut self.place).await? {
            ChunkSaved::Saved { version, stop_requested } => (version, stop_requested),
            ChunkSaved::Fenced => return Err(self.refused()),
        };
        crash_point!("chunk_after_save");
        self.check()?;
        crash_point!("chunk_before_commit");
        locked(&self.progress).is_committing = true;
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
        *locked(&self.progress) =
            CommittedState { counters, context: self.context.clone(), is_committing: false };
        Ok(())
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

    /// Whether a transaction committed whose answer was lost. It locked the row of the step, so after that lock the
    /// result is visible.
    async fn has_committed(&self, version: i64) -> Result<bool, StepFailure> {
        let look = || async {
            let mut tx = self.scope.store().begin().await?;
            let found = tx.jobs().settled_version(self.scope.step_execution()).await?;
            tx.rollback().await?;
            Ok(found)
        };
        let lease = &self.resources.lease;
        let found = while_away(lease, "could not look yet", LostAnswer::Repeat, look).await?;
        Ok(found.is_some_and(|found| found >= version))
    }

    fn refused(&self) -> StepFailure {
        let execution = self.scope.execution();
        tracing::warn!(execution.id = %execution, "execution {execution} has been given to somebody else; this write was refused");
        metrics::fencing_rejections(self.resources.lease.key().kind()).increment(1);
        StepFailure::LeaseLost
    }
}

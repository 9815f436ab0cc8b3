//! The write of a chunk, together with its commit if all that is written can wait for that.

use super::{Buffer, ChunkLoop};
use crate::job::reject::RejectSink;
use crate::job::{Ahead, ChunkScope, ItemProcessor, ItemReader, ItemWriter, StepFailure, prepare_chunk};
use tidemill_domain::item::ItemError;
use tidemill_domain::job::chunk::Chunk;
use tidemill_domain::job::context::spring;
use tidemill_domain::job::step::OFFSET_KEY;
use tidemill_domain::job::{Counters, ExecutionContext};
use tidemill_store::job::Staged;

/// After a chunk that could not be committed in one round trip, this many are written in transactions.
const CALM: u32 = 50;

/// What a chunk commits together with its rows and events.
struct Commit<'a> {
    /// What the chunk has counted.
    counters: Counters,
    /// The reader's position after the chunk.
    position: &'a ExecutionContext,
}

impl<R, P, W> ChunkLoop<'_, R, P, W>
where
    R: ItemReader,
    P: ItemProcessor<R::Item>,
    W: ItemWriter<P::Output>,
{
    /// Whether the chunk can be committed in one round trip. The first one cannot: it finds the rows of the step.
    pub(super) fn can_commit_staged(&mut self, chunk: &Chunk<'_>, buffer: &Buffer<R, P>) -> bool {
        // It saves the position after the chunk, so it has to write all of it.
        if chunk.is_scanning() {
            return false;
        }
        let is_calm = self.calm > 0;
        self.calm = self.calm.saturating_sub(1);
        !is_calm
            && self.task.place.is_known()
            && !self.task.scope.store().is_behind_transaction_pooler()
            && buffer.scope.tx.is_none()
            // Otherwise something must be done, or called, between the write and the commit.
            && self.writer.staged_tables().is_some_and(|tables| tables <= 1)
            && self.items.is_none()
            && self.step.listeners.item.is_empty()
            && self.rejects.as_ref().is_none_or(RejectSink::is_empty)
            && !chunk.has_skips()
    }

    /// With `counted`, also commits the chunk, if all that is written can wait for that.
    pub(super) async fn write_items(
        &mut self,
        buffer: &mut Buffer<R, P>,
        indices: &[usize],
        counted: Option<Counters>,
    ) -> Result<Result<(), ItemError>, StepFailure> {
        if let Some(items) = self.items {
            buffer.scope.written = (items + self.settled, indices.to_vec());
        }
        let (ahead, scope) = (&mut buffer.ahead, &mut buffer.scope);
        let commit = counted.map(|counters| Commit { counters, position: &buffer.read.position });
        match P::pass_through(&buffer.read.items) {
            // Items that pass through are either all written, or one by one in a scan.
            Some(all) if indices.len() == all.len() => self.write_slice(all, ahead, scope, commit).await,
            Some(all) => self.write_slice(&all[indices[0]..=indices[0]], ahead, scope, commit).await,
            None => {
                let batch: Vec<P::Output> =
                    indices.iter().filter_map(|&index| buffer.outputs[index].take()).collect();
                let written = self.write_slice(&batch, ahead, scope, commit).await?;
                if written.is_err() {
                    for (&index, output) in indices.iter().zip(batch) {
                        buffer.outputs[index] = Some(output);
                    }
                }
                Ok(written)
            }
        }
    }

    async fn write_slice(
        &mut self,
        items: &[P::Output],
        ahead: &mut Ahead<P::Output>,
        scope: &mut ChunkScope,
        commit: Option<Commit<'_>>,
    ) -> Result<Result<(), ItemError>, StepFailure> {
        self.step.listeners.item.iter().for_each(|listener| listener.before_write(items));
        let mut written = Ok(());
        if !std::mem::take(&mut ahead.is_written) {
            scope.staged = commit.is_some().then(Staged::default);
            written = prepare_chunk::write(&mut self.writer, items, scope).await;
        }
        if let (Ok(()), Some(commit)) = (&written, commit)
            && let Some(staged) = scope.staged.take().filter(|staged| !staged.is_empty())
            && !self.commit_staged(&staged, commit).await?
        {
            // In a transaction it becomes clear why, and an error of the rows is an error of the write.
            self.writer.roll_back().await?;
            written = prepare_chunk::write(&mut self.writer, items, scope).await;
        }
        self.step.listeners.after_write(items, &written);
        Ok(written)
    }

    /// Commits the chunk together with what waits for it. False if nothing was written.
    async fn commit_staged(&mut self, staged: &Staged, commit: Commit<'_>) -> Result<bool, StepFailure> {
        if !staged.is_small() {
            self.calm = CALM;
            return Ok(false);
        }
        let before = self.task.context.clone();
        self.advance(commit.position);
        self.writer.update(&mut self.task.context)?;
        let committed = self.task.commit_staged(staged, commit.counters).await;
        // The chunk is not counted: its rows are not there.
        self.task.counters.rollback += u64::from(committed.is_err());
        self.is_committed = committed?;
        if !self.is_committed {
            self.task.context = before;
            self.calm = CALM;
        }
        Ok(self.is_committed)
    }

    /// Saves the reader's position in the context of the step.
    pub(super) fn advance(&mut self, position: &ExecutionContext) {
        let context = &mut self.task.context;
        context.remove(OFFSET_KEY);
        context.remove(spring::ITEMS_KEY);
        // Keys that the reader has saved before and no longer has.
        for (key, _) in self.position.iter().filter(|(key, _)| position.get(key).is_none()) {
            context.remove(key);
        }
        context.merge(position);
    }
}

//! What a chunk step does: it asks the pure algorithm what comes next, and does it.

use super::chunk_buffer::{Ahead, ChunkBuffer};
use super::chunk_source::ChunkSource;
use super::chunk_step::{Listeners, Options};
use super::prepare_chunk;
use crate::job::component::{ItemProcessor, ItemWriter};
use crate::job::reject::RejectSink;
use crate::job::scope::ChunkScope;
use crate::job::step::{StepEnd, StepFailure, StepTask};
use crate::job::stop::Urgency;
use crate::metrics;
use tidemill_domain::code::Code;
use tidemill_domain::item::{ErrorKind, ItemError, Phase};
use tidemill_domain::job::chunk::{Action, Chunk, Processed};
use tidemill_domain::job::{ExecutionContext, ExitStatus};
use tidemill_store::item::kind_of_cause;
use tracing::Instrument;

/// Where a scan keeps how many items of the chunk it has dealt with.
pub(super) const OFFSET: &str = "ChunkMonitor.OFFSET";

/// One chunk out of so many has a span of its own; a span for each would cost more than it tells.
const SPAN_EVERY: u64 = 100;

/// The kind of an error. One that says none, but comes from the database, has that of the database's answer.
pub(super) fn kind_of(error: &ItemError, phase: Phase) -> ErrorKind {
    let said = error.kind_in(phase);
    if said != phase.kind() {
        return said;
    }
    error.source().and_then(|cause| kind_of_cause(cause)).unwrap_or(said)
}

/// A chunk step at work.
pub(super) struct ChunkLoop<'a, I, O, P, W> {
    pub(super) options: &'a Options<I>,
    pub(super) listeners: &'a Listeners<I, O>,
    pub(super) processor: P,
    pub(super) writer: W,
    pub(super) rejects: Option<RejectSink<I>>,
    /// The reader's part of what the step remembers, as of the last whole chunk.
    pub(super) position: ExecutionContext,
    /// Items between the saved position and the chunk in hand, which an earlier run has settled.
    pub(super) settled: u64,
    /// Chunks so far.
    pub(super) number: u64,
    pub(super) task: &'a mut StepTask,
}

impl<I, O, P, W> ChunkLoop<'_, I, O, P, W>
where
    I: Send + Sync + 'static,
    O: Send + Sync + 'static,
    P: ItemProcessor<I, Output = O>,
    W: ItemWriter<O>,
{
    /// Chunk after chunk, until there is no more, it shall stop, or something fails.
    pub(super) async fn all(&mut self, source: &mut ChunkSource<I, O, P, W>) -> Result<StepEnd, StepFailure> {
        loop {
            if self.task.shall_stop() {
                return Ok(StepEnd::Stopped);
            }
            self.task.check()?;
            let next = tokio::select! {
                next = source.next(&mut self.processor, &mut self.writer) => next,
                () = self.task.stop.asked(Urgency::AtChunkEnd) => return Ok(StepEnd::Stopped),
                () = self.task.lost() => return Err(StepFailure::LeaseLost),
            };
            let Some(next) = next else {
                return Err(StepFailure::failed(Code::ExecutionFailed, "the reader has ended in a panic"));
            };
            let buffer = next?;
            let has_ended = buffer.has_ended;
            source.during(self.one(buffer)).await?;
            if has_ended {
                return Ok(StepEnd::Completed(ExitStatus::completed()));
            }
        }
    }

    /// One chunk, to its commit or to the end of the step.
    async fn one(&mut self, mut buffer: ChunkBuffer<I, O>) -> Result<(), StepFailure> {
        let mut chunk = Chunk::new(self.options.policy.as_ref(), self.task.counters.skips());
        buffer.tell(&mut chunk);
        self.before_chunk();
        self.number += 1;
        let span = if self.number % SPAN_EVERY == 1 {
            tracing::info_span!("chunk", chunk.number = self.number, chunk.items = buffer.items.len())
        } else {
            tracing::Span::none()
        };
        tracing::debug!(
            "chunk {} of step {} has {} items",
            self.number,
            self.task.scope.step(),
            buffer.items.len()
        );
        let done = self.drive(&mut chunk, &mut buffer).instrument(span).await;
        buffer.timer.stop(&*self.task.clock, self.task.scope.job(), self.task.scope.defined_step());
        done
    }

    async fn drive(
        &mut self,
        chunk: &mut Chunk<'_>,
        buffer: &mut ChunkBuffer<I, O>,
    ) -> Result<(), StepFailure> {
        loop {
            // A processor that never waits must not keep heartbeats and stops from being heard.
            tokio::task::coop::consume_budget().await;
            match chunk.next_action() {
                Action::Process(index) => self.process(chunk, buffer, index).await,
                Action::Announce(skip) => self.announce(skip, buffer).await?,
                Action::Write(indices) => self.write(chunk, buffer, &indices).await?,
                Action::Commit => self.commit(chunk, buffer).await?,
                Action::RollBack => self.roll_back(chunk, buffer).await?,
                Action::Done => return Ok(()),
                Action::Fail(failure) => return Err(self.failed(failure, buffer)),
            }
        }
    }

    async fn process(&mut self, chunk: &mut Chunk<'_>, buffer: &mut ChunkBuffer<I, O>, index: usize) {
        let item = &buffer.items[index];
        if P::pass_through(std::slice::from_ref(item)).is_some() {
            return chunk.processed(index, Processed::Output);
        }
        for listener in &self.listeners.item {
            listener.before_process(item);
        }
        // In the first attempt they are asked for in order, so what was done ahead is that of this item.
        let outcome = match buffer.ahead.outcomes.pop_front() {
            Some(outcome) => outcome,
            None => prepare_chunk::process(&mut self.processor, item).await,
        };
        let outcome = match outcome {
            Ok(output) => {
                for listener in &self.listeners.item {
                    listener.after_process(item, output.as_ref());
                }
                let outcome = if output.is_some() { Processed::Output } else { Processed::Filtered };
                buffer.outputs[index] = output;
                outcome
            }
            Err(error) => {
                for listener in &self.listeners.item {
                    listener.on_process_error(item, &error);
                }
                let kind = kind_of(&error, Phase::Process);
                buffer.fail(index, error);
                Processed::Failed(kind)
            }
        };
        chunk.processed(index, outcome);
    }

    async fn write(
        &mut self,
        chunk: &mut Chunk<'_>,
        buffer: &mut ChunkBuffer<I, O>,
        indices: &[usize],
    ) -> Result<(), StepFailure> {
        let has_savepoint = chunk.needs_savepoint();
        if has_savepoint {
            buffer.scope.tx().await?.savepoint().await?;
        }
        let (ahead, scope) = (&mut buffer.ahead, &mut buffer.scope);
        let written = match P::pass_through(&buffer.items) {
            // Items that pass through are either all written, or one by one in a scan.
            Some(all) if indices.len() == all.len() => self.write_slice(all, ahead, scope).await,
            Some(all) => self.write_slice(&all[indices[0]..=indices[0]], ahead, scope).await,
            None => {
                let batch: Vec<O> =
                    indices.iter().filter_map(|&index| buffer.outputs[index].take()).collect();
                let written = self.write_slice(&batch, ahead, scope).await;
                if written.is_err() {
                    for (&index, output) in indices.iter().zip(batch) {
                        buffer.outputs[index] = Some(output);
                    }
                }
                written
            }
        };
        let outcome = match written {
            Ok(()) => Ok(()),
            Err(error) => {
                let kind = kind_of(&error, Phase::Write);
                if has_savepoint && buffer.scope.has_begun() {
                    buffer.scope.tx().await?.rollback_to_savepoint().await?;
                }
                match indices {
                    [one] => buffer.fail(*one, error),
                    _ => buffer.write_error = Some(error),
                }
                Err(kind)
            }
        };
        chunk.written(outcome);
        Ok(())
    }

    async fn write_slice(
        &mut self,
        items: &[O],
        ahead: &mut Ahead<O>,
        scope: &mut ChunkScope,
    ) -> Result<(), ItemError> {
        for listener in &self.listeners.item {
            listener.before_write(items);
        }
        let written = match std::mem::take(&mut ahead.is_written) {
            true => Ok(()),
            false => prepare_chunk::write(&mut self.writer, items, scope).await,
        };
        for listener in &self.listeners.item {
            match &written {
                Ok(()) => listener.after_write(items),
                Err(error) => listener.on_write_error(items, error),
            }
        }
        written
    }

    /// Announces the skips, saves what is remembered and counted, and commits.
    async fn commit(
        &mut self,
        chunk: &mut Chunk<'_>,
        buffer: &mut ChunkBuffer<I, O>,
    ) -> Result<(), StepFailure> {
        for skip in chunk.take_skips() {
            self.announce(skip, buffer).await?;
        }
        if chunk.is_complete() {
            self.task.context.remove(OFFSET);
            replace(&mut self.task.context, &self.position, &buffer.position);
            self.position = std::mem::take(&mut buffer.position);
            self.settled = 0;
        } else {
            self.task.context.put(OFFSET, self.settled + chunk.offset() as u64);
        }
        self.writer.update(&mut self.task.context)?;
        if let Some(rejects) = &mut self.rejects {
            rejects.flush(&mut buffer.scope, &mut self.task.context).await?;
        }
        let contribution = chunk.counters();
        if let Err(failure) = self.task.commit(&mut buffer.scope, contribution).await {
            // As if the chunk had never been: its rows are not there, so they are not counted either.
            // The step ends here: what its files got with this chunk is cut off when it is opened again.
            self.task.counters.rollback += 1;
            self.writer.roll_back().await?;
            return Err(failure);
        }
        chunk.committed();
        let counted = chunk.take_counters();
        self.task.counters += counted;
        metrics::items_counted(self.task.scope.job(), self.task.scope.defined_step(), &counted);
        for listener in &self.listeners.chunk {
            listener.after_chunk(&self.task.scope, &self.task.counters);
        }
        if !chunk.is_complete() {
            self.before_chunk();
        }
        Ok(())
    }

    async fn roll_back(
        &mut self,
        chunk: &mut Chunk<'_>,
        buffer: &mut ChunkBuffer<I, O>,
    ) -> Result<(), StepFailure> {
        buffer.scope.roll_back().await;
        self.writer.roll_back().await?;
        if let Some(rejects) = &mut self.rejects {
            rejects.roll_back().await?;
        }
        let counted = chunk.take_counters();
        self.task.counters += counted;
        metrics::items_counted(self.task.scope.job(), self.task.scope.defined_step(), &counted);
        for listener in &self.listeners.chunk {
            listener.after_chunk_error(&self.task.scope, &self.task.counters);
        }
        if chunk.is_failing() {
            return Ok(());
        }
        self.before_repetition(chunk, buffer).await
    }
}

/// Puts the reader's new position in the place of its old one.
fn replace(context: &mut ExecutionContext, old: &ExecutionContext, new: &ExecutionContext) {
    for (key, _) in old.iter() {
        if new.get(key).is_none() {
            context.remove(key);
        }
    }
    context.merge(new);
}

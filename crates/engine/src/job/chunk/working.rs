//! What a chunk step does: it asks the pure algorithm what comes next, and does it.

use super::reading::{ReadChunk, Reading};
use super::{ChunkStep, Listeners, Options};
use crate::job::component::{ItemProcessor, ItemReader, ItemWriter};
use crate::job::reject::RejectSink;
use crate::job::scope::ChunkScope;
use crate::job::step::{StepEnd, StepFailure, StepTask};
use crate::job::stop::Urgency;
use crate::metrics;
use std::collections::HashMap;
use tidemill_domain::code::Code;
use tidemill_domain::item::{ErrorKind, ItemError, Phase};
use tidemill_domain::job::chunk::{Action, Chunk, Processed};
use tidemill_domain::job::{ExecutionContext, ExitStatus};
use tidemill_store::crash_point;
use tidemill_store::item::kind_of_cause;
use tokio::sync::mpsc;
use tracing::Instrument;

/// Where a scan keeps how many items of the chunk it has dealt with.
const OFFSET: &str = "ChunkMonitor.OFFSET";

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

/// Runs a chunk step to its end.
pub(super) async fn run<R, P, W>(
    step: &ChunkStep<R, P, W>,
    task: &mut StepTask,
) -> Result<StepEnd, StepFailure>
where
    R: ItemReader,
    P: ItemProcessor<R::Item>,
    W: ItemWriter<P::Output>,
{
    let mut reader = (step.parts.reader)(&task.scope)?;
    let processor = (step.parts.processor)(&task.scope)?;
    let mut writer = (step.parts.writer)(&task.scope)?;
    let mut rejects = step.options.rejects.clone();
    reader.open(&task.context).await?;
    writer.open(&task.context).await?;
    if let Some(rejects) = &mut rejects {
        rejects.open(&task.scope, &task.context).await?;
    }
    task.describe(reader.total(), Some(writer.delivery())).await?;
    // Items behind the saved position that an earlier run has settled in a scan.
    let settled = task.context.get_long(OFFSET).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    let reading = Reading {
        reader,
        completion: step.options.completion.clone(),
        policy: step.options.policy.clone(),
        listeners: step.listeners.item.clone(),
        clock: task.clock.clone(),
        leave_out: settled,
    };
    let (permit, permits) = mpsc::channel(2);
    let (send, chunks) = mpsc::channel(1);
    let reading = tokio::spawn(reading.run(permits, send));
    let mut work = Working {
        options: &step.options,
        listeners: &step.listeners,
        processor,
        writer,
        rejects,
        position: ExecutionContext::new(),
        settled,
        number: 0,
        task,
    };
    let mut ended = work.all(permit, chunks).await;
    let Working { mut writer, mut rejects, task, .. } = work;
    // A ghost must not publish what somebody else has gone on with.
    if let Err(lost) = task.check() {
        ended = Err(lost);
    }
    let is_complete = matches!(ended, Ok(StepEnd::Completed(_)));
    let mut closed = writer.close(is_complete).await;
    if let Some(rejects) = &mut rejects {
        closed = closed.and(rejects.close(is_complete).await);
    }
    // The channels are gone, so the reading task comes to its end, unless it hangs in a read.
    if let Ok(mut reader) = reading.await {
        closed = closed.and(reader.close(is_complete).await);
    }
    let ended = ended?;
    closed?;
    Ok(ended)
}

/// A chunk step at work.
pub(super) struct Working<'a, I, O, P, W> {
    pub(super) options: &'a Options<I>,
    pub(super) listeners: &'a Listeners<I, O>,
    processor: P,
    writer: W,
    pub(super) rejects: Option<RejectSink<I>>,
    /// The reader's part of what the step remembers, as of the last whole chunk.
    position: ExecutionContext,
    /// Items between the saved position and the chunk in hand, which an earlier run has settled.
    settled: u64,
    /// Chunks so far.
    number: u64,
    pub(super) task: &'a mut StepTask,
}

/// The items of one chunk, and what came out of them.
pub(super) struct InHand<I, O> {
    pub(super) items: Vec<I>,
    pub(super) read_errors: Vec<ItemError>,
    pub(super) outputs: Vec<Option<O>>,
    /// The last error of each item.
    pub(super) errors: HashMap<usize, ItemError>,
    /// The last error of writing several.
    pub(super) write_error: Option<ItemError>,
    position: ExecutionContext,
    scope: ChunkScope,
}

impl<I, O, P, W> Working<'_, I, O, P, W>
where
    I: Send + Sync + 'static,
    O: Send + Sync + 'static,
    P: ItemProcessor<I, Output = O>,
    W: ItemWriter<O>,
{
    /// Chunk after chunk, until there is no more, it shall stop, or something fails.
    async fn all(
        &mut self,
        permit: mpsc::Sender<()>,
        mut chunks: mpsc::Receiver<Result<ReadChunk<I>, ItemError>>,
    ) -> Result<StepEnd, StepFailure> {
        let _reading_ended = permit.send(()).await;
        loop {
            if self.task.shall_stop() {
                return Ok(StepEnd::Stopped);
            }
            self.task.check()?;
            let read = tokio::select! {
                read = chunks.recv() => read,
                () = self.task.stop.asked(Urgency::AtChunkEnd) => return Ok(StepEnd::Stopped),
                () = self.task.lost() => return Err(StepFailure::LeaseLost),
            };
            let Some(read) = read else {
                return Err(StepFailure::failed(Code::ExecutionFailed, "the reader has ended in a panic"));
            };
            let read = match read {
                Ok(read) => read,
                Err(error) => return Err(error.into()),
            };
            if self.options.reads_ahead {
                let _reading_ended = permit.send(()).await;
            }
            let has_ended = read.has_ended;
            self.one(read).await?;
            if has_ended {
                return Ok(StepEnd::Completed(ExitStatus::completed()));
            }
            if !self.options.reads_ahead {
                let _reading_ended = permit.send(()).await;
            }
        }
    }

    /// One chunk, to its commit or to the end of the step.
    async fn one(&mut self, read: ReadChunk<I>) -> Result<(), StepFailure> {
        let timer = metrics::ChunkTimer::start(&*self.task.clock);
        let mut chunk = Chunk::new(self.options.policy.as_ref(), self.task.counters.skips());
        let mut hand = InHand {
            items: Vec::with_capacity(read.reads.len()),
            read_errors: Vec::new(),
            outputs: Vec::new(),
            errors: HashMap::new(),
            write_error: None,
            position: read.position,
            scope: self.task.chunk(self.options.idle_limit),
        };
        for read in read.reads {
            match read {
                Ok(item) => {
                    chunk.item_read();
                    hand.items.push(item);
                }
                Err(error) => {
                    chunk.read_failed(&kind_of(&error, Phase::Read));
                    hand.read_errors.push(error);
                }
            }
        }
        hand.outputs.resize_with(hand.items.len(), || None);
        self.before_chunk();
        self.number += 1;
        let span = if self.number % SPAN_EVERY == 1 {
            tracing::info_span!("chunk", chunk.number = self.number, chunk.items = hand.items.len())
        } else {
            tracing::Span::none()
        };
        tracing::debug!(
            "chunk {} of step {} has {} items",
            self.number,
            self.task.scope.step(),
            hand.items.len()
        );
        let done = self.drive(&mut chunk, &mut hand).instrument(span).await;
        timer.stop(&*self.task.clock, self.task.scope.job(), self.task.scope.defined_step());
        done
    }

    async fn drive(&mut self, chunk: &mut Chunk<'_>, hand: &mut InHand<I, O>) -> Result<(), StepFailure> {
        loop {
            // A processor that never waits must not keep heartbeats and stops from being heard.
            tokio::task::coop::consume_budget().await;
            match chunk.next_action() {
                Action::Process(index) => self.process(chunk, hand, index).await,
                Action::Announce(skip) => self.announce(skip, hand).await?,
                Action::Write(indices) => self.write(chunk, hand, &indices).await?,
                Action::Commit => self.commit(chunk, hand).await?,
                Action::RollBack => self.roll_back(chunk, hand).await?,
                Action::Done => return Ok(()),
                Action::Fail(failure) => return Err(self.failed(failure, hand)),
            }
        }
    }

    async fn process(&mut self, chunk: &mut Chunk<'_>, hand: &mut InHand<I, O>, index: usize) {
        let item = &hand.items[index];
        if P::pass_through(std::slice::from_ref(item)).is_some() {
            return chunk.processed(index, Processed::Output);
        }
        for listener in &self.listeners.item {
            listener.before_process(item);
        }
        crash_point!("chunk_before_process");
        let outcome = self.processor.process(item).await;
        crash_point!("chunk_after_process");
        let outcome = match outcome {
            Ok(output) => {
                for listener in &self.listeners.item {
                    listener.after_process(item, output.as_ref());
                }
                let outcome = if output.is_some() { Processed::Output } else { Processed::Filtered };
                hand.outputs[index] = output;
                outcome
            }
            Err(error) => {
                for listener in &self.listeners.item {
                    listener.on_process_error(item, &error);
                }
                let kind = kind_of(&error, Phase::Process);
                hand.errors.insert(index, error);
                Processed::Failed(kind)
            }
        };
        chunk.processed(index, outcome);
    }

    async fn write(
        &mut self,
        chunk: &mut Chunk<'_>,
        hand: &mut InHand<I, O>,
        indices: &[usize],
    ) -> Result<(), StepFailure> {
        let has_savepoint = chunk.needs_savepoint();
        if has_savepoint {
            hand.scope.tx().await?.savepoint().await?;
        }
        crash_point!("chunk_before_write");
        let written = match P::pass_through(&hand.items) {
            // Items that pass through are either all written, or one by one in a scan.
            Some(all) if indices.len() == all.len() => write_slice(self, all, &mut hand.scope).await,
            Some(all) => write_slice(self, &all[indices[0]..=indices[0]], &mut hand.scope).await,
            None => {
                let batch: Vec<O> = indices.iter().filter_map(|&index| hand.outputs[index].take()).collect();
                let written = write_slice(self, &batch, &mut hand.scope).await;
                if written.is_err() {
                    for (&index, output) in indices.iter().zip(batch) {
                        hand.outputs[index] = Some(output);
                    }
                }
                written
            }
        };
        crash_point!("chunk_after_write");
        let outcome = match written {
            Ok(()) => Ok(()),
            Err(error) => {
                let kind = kind_of(&error, Phase::Write);
                if has_savepoint && hand.scope.has_begun() {
                    hand.scope.tx().await?.rollback_to_savepoint().await?;
                }
                match indices {
                    [one] => {
                        hand.errors.insert(*one, error);
                    }
                    _ => hand.write_error = Some(error),
                }
                Err(kind)
            }
        };
        chunk.written(outcome);
        Ok(())
    }

    /// Announces the skips, saves what is remembered and counted, and commits.
    async fn commit(&mut self, chunk: &mut Chunk<'_>, hand: &mut InHand<I, O>) -> Result<(), StepFailure> {
        for skip in chunk.take_skips() {
            self.announce(skip, hand).await?;
        }
        if chunk.is_complete() {
            self.task.context.remove(OFFSET);
            replace(&mut self.task.context, &self.position, &hand.position);
            self.position = std::mem::take(&mut hand.position);
            self.settled = 0;
        } else {
            self.task.context.put(OFFSET, self.settled + chunk.offset() as u64);
        }
        self.writer.update(&mut self.task.context)?;
        if let Some(rejects) = &mut self.rejects {
            rejects.flush(&mut hand.scope, &mut self.task.context).await?;
        }
        let contribution = chunk.counters();
        if let Err(failure) = self.task.commit(&mut hand.scope, contribution).await {
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

    async fn roll_back(&mut self, chunk: &mut Chunk<'_>, hand: &mut InHand<I, O>) -> Result<(), StepFailure> {
        if let Some(tx) = hand.scope.take() {
            // A connection that is gone has rolled back as well.
            if let Err(error) = tx.rollback().await {
                tracing::debug!(%error, "a rollback was not answered");
            }
        }
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
        self.before_repetition(chunk, hand).await
    }
}

async fn write_slice<I, O, P, W: ItemWriter<O>>(
    work: &mut Working<'_, I, O, P, W>,
    items: &[O],
    scope: &mut ChunkScope,
) -> Result<(), ItemError> {
    for listener in &work.listeners.item {
        listener.before_write(items);
    }
    let written = work.writer.write(items, scope).await;
    for listener in &work.listeners.item {
        match &written {
            Ok(()) => listener.after_write(items),
            Err(error) => listener.on_write_error(items, error),
        }
    }
    written
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

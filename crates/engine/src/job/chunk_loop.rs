//! A run of a chunk step: makes and opens its parts, processes, writes and commits chunks, and closes the parts. The
//! chunk machine of the domain decides what happens next.

mod write;

use crate::job::chunk_reader::ReadingTask;
use crate::job::parallel_chunks::ChunkSource;
use crate::job::reject::RejectSink;
use crate::job::scan::{PROCESS_MAX, Scan};
use crate::job::{
    ChunkBuffer, ChunkStep, ItemProcessor, ItemReader, ItemWriter, Outcome, StepFailure, StepTask, Urgency,
    kind_of, prepare_chunk,
};
use crate::{jitter_unit, metrics};
use std::pin::pin;
use tidemill_domain::code::Code;
use tidemill_domain::item::{ErrorKind, ItemError, Phase};
use tidemill_domain::job::chunk::{Action, Chunk, Processed, Skip};
use tidemill_domain::job::context::spring;
use tidemill_domain::job::step::OFFSET_KEY;
use tidemill_domain::job::{ExecutionContext, ExitStatus};
use tidemill_store::crash_point;
use tracing::Instrument;

/// Every 100th chunk has a span; one for each would be too expensive.
const SPAN_EVERY: u64 = 100;

type Buffer<R, P> =
    ChunkBuffer<<R as ItemReader>::Item, <P as ItemProcessor<<R as ItemReader>::Item>>::Output>;

pub(super) async fn run<R, P, W>(
    step: &ChunkStep<R, P, W>,
    task: &mut StepTask,
) -> Result<Outcome, StepFailure>
where
    R: ItemReader,
    P: ItemProcessor<R::Item>,
    W: ItemWriter<P::Output>,
{
    let mut reader = (step.reader)(&task.scope)?;
    let processor = (step.processor)(&task.scope)?;
    let mut writer = (step.writer)(&task.scope)?;
    let mut rejects = step.rejects.clone();
    // Opening the source may hang.
    tokio::select! {
        opened = open(&mut reader, &task.context) => opened?,
        () = task.resources.stop.asked(Urgency::AtChunkEnd) => return Ok(Outcome::stopped()),
    }
    writer.open(&task.context).await?;
    let mut lanes = step.lanes(&task.scope, &writer)?;
    for writer in lanes.iter_mut().filter_map(|lane| lane.writer.as_mut()) {
        writer.open(&task.context).await?;
    }
    if let Some(rejects) = &mut rejects {
        rejects.open(&task.scope, &task.context).await?;
    }
    task.record_plan(reader.total(), writer.delivery()).await?;
    // Items after the saved position that an earlier run has settled in a scan.
    let settled = task.context.get_long(OFFSET_KEY).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    let reading = ReadingTask {
        reader,
        completion: step.completion.clone(),
        policy: step.policy.clone(),
        listeners: step.listeners.item.clone(),
        clock: task.resources.clock.clone(),
        leave_out: settled,
    };
    let (handle, reading) = reading.spawn(task.chunk(step.idle_limit), step.reads_ahead).await;
    let mut source = ChunkSource::new(handle, lanes);
    let position = ExecutionContext::new();
    let scan = Scan::new(&step.listeners.chunk, writer.delivery());
    let items = writer.is_numbered().then(|| task.context.get_long(ITEMS_KEY).map_or(0, i64::unsigned_abs));
    let mut work = ChunkLoop {
        step,
        processor,
        writer,
        rejects,
        position,
        settled,
        items,
        number: 0,
        scan,
        calm: 0,
        is_committed: false,
        task,
    };
    let mut ended = work.all(&mut source).await;
    let ChunkLoop { mut writer, mut rejects, task, .. } = work;
    // After a takeover, the new owner continues the files: do not publish them here.
    if let Err(lost) = task.check() {
        ended = Err(lost);
    }
    let is_complete = ended.as_ref().is_ok_and(Outcome::is_completed);
    // First, so that no transaction that was begun ahead stays open.
    let mut closed = source.close(is_complete).await;
    closed = closed.and(writer.close(is_complete).await);
    if let Some(rejects) = &mut rejects {
        closed = closed.and(rejects.close(is_complete).await);
    }
    // The channels are gone, so the reading task ends, unless it hangs in a read.
    if let Ok(mut reader) = reading.await {
        closed = closed.and(reader.close(is_complete).await);
    }
    let ended = ended?;
    closed?;
    crash_point!("step_closed");
    Ok(ended)
}

/// Opens the reader where the last run ended. If that was a run of Spring Batch, reads past the items that it has read.
async fn open<R: ItemReader>(reader: &mut R, context: &ExecutionContext) -> Result<(), ItemError> {
    let Some(items) = context.get_long(spring::ITEMS_KEY) else { return reader.open(context).await };
    reader.open(&ExecutionContext::new()).await?;
    if !reader.has_fixed_order() {
        return Err(ItemError::new(
            ErrorKind::FATAL,
            format!(
                "Spring Batch began the step and read {items} items, but this reader may read them in another order; \
                 restart the execution in Spring Batch, or launch the job with other identifying parameters"
            ),
        ));
    }
    for _ in 0..items {
        tokio::task::coop::consume_budget().await;
        match reader.read().await {
            Ok(None) => break,
            Ok(Some(_)) => {}
            // An item that could not be read counts too.
            Err(error) if kind_of(&error, Phase::Read) == ErrorKind::PARSE => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The context key of the items before the saved position.
const ITEMS_KEY: &str = "tidemill.items";

struct ChunkLoop<'a, R: ItemReader, P: ItemProcessor<R::Item>, W> {
    step: &'a ChunkStep<R, P, W>,
    processor: P,
    writer: W,
    rejects: Option<RejectSink<R::Item>>,
    /// The reader's saved position, after the last whole chunk.
    position: ExecutionContext,
    /// Items between the saved position and the current chunk, which an earlier run has settled.
    settled: u64,
    /// Items before the saved position, if the writer numbers them.
    items: Option<u64>,
    number: u64,
    scan: Scan,
    /// Number of chunks that are still not to be committed together with their rows.
    calm: u32,
    /// The current chunk was committed together with its rows.
    is_committed: bool,
    task: &'a mut StepTask,
}

impl<R, P, W> ChunkLoop<'_, R, P, W>
where
    R: ItemReader,
    P: ItemProcessor<R::Item>,
    W: ItemWriter<P::Output>,
{
    async fn all(
        &mut self,
        source: &mut ChunkSource<R::Item, P::Output, P, W>,
    ) -> Result<Outcome, StepFailure> {
        loop {
            if self.task.shall_stop() {
                return Ok(Outcome::stopped());
            }
            self.task.check()?;
            let next = tokio::select! {
                next = source.next(&mut self.processor, &mut self.writer) => next,
                () = self.task.resources.stop.asked(Urgency::AtChunkEnd) => return Ok(Outcome::stopped()),
                () = self.task.resources.lease.lost() => return Err(StepFailure::LeaseLost),
            };
            let Some(next) = next else {
                return Err(StepFailure::failed(Code::ExecutionFailed, "the reader panicked"));
            };
            let buffer = next?;
            let has_ended = buffer.read.has_ended;
            source.during(self.one(buffer)).await?;
            if has_ended {
                return Ok(Outcome::completed(ExitStatus::completed()));
            }
        }
    }

    async fn one(&mut self, mut buffer: Buffer<R, P>) -> Result<(), StepFailure> {
        let mut chunk = Chunk::new(self.step.policy.as_ref(), self.task.counters.skips());
        buffer.report_reads(&mut chunk);
        self.step.listeners.before_chunk(&self.task.scope);
        self.number += 1;
        let (number, items) = (self.number, buffer.read.items.len());
        let span = match number % SPAN_EVERY {
            1 => tracing::info_span!("chunk", chunk.number = number, chunk.items = items),
            _ => tracing::Span::none(),
        };
        tracing::debug!("chunk {number} of step {} has {items} items", self.task.scope.step());
        let done = self.drive(&mut chunk, &mut buffer).instrument(span).await;
        if done.is_err() {
            self.scan.forget(self.task);
        }
        let scope = &self.task.scope;
        let took = self.task.resources.clock.monotonic().since(buffer.began);
        metrics::chunk_duration(scope.job(), scope.defined_step()).record(took);
        done
    }

    async fn drive(&mut self, chunk: &mut Chunk<'_>, buffer: &mut Buffer<R, P>) -> Result<(), StepFailure> {
        loop {
            // Yields, so that a processor that never waits does not block heartbeats and stops.
            tokio::task::coop::consume_budget().await;
            match chunk.next_action() {
                Action::Process(index) => {
                    let processed = self.process(buffer, index).await?;
                    chunk.processed(index, processed);
                }
                Action::Announce(skip) => self.announce(skip, buffer),
                Action::Write(indices) => self.write(chunk, buffer, &indices).await?,
                Action::Commit => self.commit(chunk, buffer).await?,
                Action::RollBack => self.roll_back(chunk, buffer).await?,
                Action::Done => return Ok(()),
                Action::Fail(failure) => {
                    let skip_limit = self.step.policy.as_ref().map_or(0, |policy| policy.skip_limit);
                    return Err(buffer.failure(failure, skip_limit));
                }
            }
        }
    }

    async fn process(&mut self, buffer: &mut Buffer<R, P>, index: usize) -> Result<Processed, StepFailure> {
        let item = &buffer.read.items[index];
        if P::pass_through(std::slice::from_ref(item)).is_some() {
            return Ok(Processed::Output);
        }
        self.step.listeners.item.iter().for_each(|listener| listener.before_process(item));
        // The first attempt goes in order, so the next prepared outcome belongs to this item.
        let outcome = match buffer.ahead.outcomes.pop_front() {
            Some(outcome) => outcome,
            None if self.scan.is_open() => {
                let mut processing = pin!(prepare_chunk::process(&mut self.processor, item));
                match tokio::time::timeout(PROCESS_MAX, &mut processing).await {
                    Ok(outcome) => outcome,
                    Err(_) => {
                        self.scan.settle(self.task, &mut buffer.scope).await?;
                        processing.await
                    }
                }
            }
            None => prepare_chunk::process(&mut self.processor, item).await,
        };
        self.step.listeners.after_process(item, &outcome);
        Ok(match outcome {
            Ok(output) => {
                let is_kept = output.is_some();
                buffer.outputs[index] = output;
                if is_kept { Processed::Output } else { Processed::Filtered }
            }
            Err(error) => {
                let kind = kind_of(&error, Phase::Process);
                buffer.fail(index, error);
                Processed::Failed(kind)
            }
        })
    }

    async fn write(
        &mut self,
        chunk: &mut Chunk<'_>,
        buffer: &mut Buffer<R, P>,
        indices: &[usize],
    ) -> Result<(), StepFailure> {
        let is_joined = self.scan.is_joined(chunk);
        let has_savepoint = is_joined || chunk.needs_savepoint();
        if is_joined {
            let now = self.task.resources.clock.monotonic();
            self.scan.mark(&mut buffer.scope, now).await?;
        } else if has_savepoint {
            buffer.scope.tx().await?.item_savepoint().await?;
        }
        let can_commit = !has_savepoint && self.can_commit_staged(chunk, buffer);
        let mut counted = chunk.counters();
        counted.write += indices.len() as u64;
        let mut written = self.write_items(buffer, indices, can_commit.then_some(counted)).await?;
        // In a longer transaction the item met others, as in a deadlock. Alone it may pass.
        if self.scan.is_unsaved
            && let Err(error) = &written
            && kind_of(error, Phase::Write) == ErrorKind::TRANSIENT
            && buffer.scope.tx.is_some()
        {
            buffer.scope.tx().await?.rollback_to_item_savepoint().await?;
            self.writer.roll_back().await?;
            self.scan.settle(self.task, &mut buffer.scope).await?;
            let now = self.task.resources.clock.monotonic();
            self.scan.mark(&mut buffer.scope, now).await?;
            written = self.write_items(buffer, indices, None).await?;
        }
        let Err(error) = written else {
            chunk.written(Ok(()));
            return Ok(());
        };
        let kind = kind_of(&error, Phase::Write);
        if has_savepoint && buffer.scope.tx.is_some() {
            buffer.scope.tx().await?.rollback_to_item_savepoint().await?;
        }
        match indices {
            [one] => buffer.fail(*one, error),
            _ => buffer.write_error = Some(error),
        }
        chunk.written(Err(kind));
        Ok(())
    }

    async fn commit(&mut self, chunk: &mut Chunk<'_>, buffer: &mut Buffer<R, P>) -> Result<(), StepFailure> {
        if !std::mem::take(&mut self.is_committed) {
            self.save(chunk, buffer).await?;
        }
        if chunk.is_complete() {
            self.position = std::mem::take(&mut buffer.read.position);
            if let Some(items) = &mut self.items {
                *items += self.settled + buffer.read.items.len() as u64;
            }
            self.settled = 0;
        }
        chunk.committed();
        self.count(chunk);
        for listener in &self.step.listeners.chunk {
            listener.after_chunk(&self.task.scope, &self.task.counters);
        }
        if !chunk.is_complete() {
            self.step.listeners.before_chunk(&self.task.scope);
        }
        Ok(())
    }

    /// Reports the skips, saves context and counters, and commits.
    async fn save(&mut self, chunk: &mut Chunk<'_>, buffer: &mut Buffer<R, P>) -> Result<(), StepFailure> {
        for skip in chunk.take_skips() {
            self.announce(skip, buffer);
        }
        if chunk.is_complete() {
            self.advance(&buffer.read.position);
            if let Some(items) = self.items {
                let items = items + self.settled + buffer.read.items.len() as u64;
                self.task.context.put(ITEMS_KEY, items);
            }
        } else {
            self.task.context.put(OFFSET_KEY, self.settled + chunk.offset() as u64);
        }
        self.writer.update(&mut self.task.context)?;
        if let Some(rejects) = &mut self.rejects {
            rejects.flush(&mut buffer.scope, &mut self.task.context).await?;
        }
        let is_joined = self.scan.is_joined(chunk) && !chunk.is_complete();
        if is_joined && self.scan.is_young(self.task.resources.clock.monotonic()) {
            self.scan.is_unsaved = true;
        } else if let Err(failure) = self.task.commit(&mut buffer.scope, chunk.counters()).await {
            // The chunk is not counted: its rows are not there. The next run truncates its files.
            self.task.counters.rollback += 1;
            self.writer.roll_back().await?;
            return Err(failure);
        } else {
            self.scan.end();
        }
        Ok(())
    }

    async fn roll_back(
        &mut self,
        chunk: &mut Chunk<'_>,
        buffer: &mut Buffer<R, P>,
    ) -> Result<(), StepFailure> {
        // While a scan goes on, its savepoint has undone the item.
        if !self.scan.is_open() || chunk.is_failing() || chunk.retry().is_some() {
            self.scan.settle(self.task, &mut buffer.scope).await?;
        }
        self.writer.roll_back().await?;
        if let Some(rejects) = &mut self.rejects {
            rejects.roll_back().await?;
        }
        self.count(chunk);
        for listener in &self.step.listeners.chunk {
            listener.after_chunk_error(&self.task.scope, &self.task.counters);
        }
        if chunk.is_failing() {
            return Ok(());
        }
        if let Some(retry) = chunk.retry() {
            if let Some(error) = buffer.error_of(retry.phase, retry.index) {
                self.step.listeners.retry.iter().for_each(|listener| listener.on_retry(retry.phase, error));
            }
            if let Some(backoff) = &self.step.backoff {
                tokio::select! {
                    () = tokio::time::sleep(backoff.delay(retry.attempts, jitter_unit())) => {}
                    () = self.task.resources.stop.asked(Urgency::Now) => {}
                    () = self.task.resources.lease.lost() => return Err(StepFailure::LeaseLost),
                }
            }
        }
        self.step.listeners.before_chunk(&self.task.scope);
        Ok(())
    }

    fn count(&mut self, chunk: &mut Chunk<'_>) {
        let counted = chunk.take_counters();
        self.task.counters += counted;
        metrics::items_counted(self.task.scope.job(), self.task.scope.defined_step(), &counted);
    }

    /// Reports a skip to the listeners, and adds the item to the rejects.
    fn announce(&mut self, skip: Skip, buffer: &Buffer<R, P>) {
        let Skip { phase, index, is_repeated } = skip;
        let Some(error) = buffer.error_of(phase, Some(index)) else { return };
        let item = buffer.read.items.get(index).filter(|_| phase != Phase::Read);
        let passed = || P::pass_through(std::slice::from_ref(item?)).and_then(<[_]>::first);
        let output = buffer.outputs.get(index).and_then(Option::as_ref).or_else(passed);
        self.step.listeners.skipped(phase, item, output, error);
        tracing::debug!(step = self.task.scope.step(), "an item was skipped in {}", phase.as_str());
        if let Some(rejects) = self.rejects.as_mut().filter(|_| !is_repeated) {
            rejects.add(phase, &kind_of(error, phase), error, item);
        }
    }
}

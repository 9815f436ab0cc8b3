//! A run of a chunk step: its parts are made and opened, put to work, and closed.

use super::chunk_loop::{ChunkLoop, OFFSET};
use super::chunk_reader::ReadingTask;
use super::chunk_source::{ChunkSource, ReaderHandle};
use super::chunk_step::ChunkStep;
use super::parallel_chunks::ParallelChunks;
use super::prepare_chunk::Lane;
use crate::job::component::{ItemProcessor, ItemReader, ItemWriter};
use crate::job::step::{StepEnd, StepFailure, StepTask};
use crate::job::stop::Urgency;
use tidemill_domain::item::ItemError;
use tidemill_domain::job::ExecutionContext;
use tidemill_store::url::Dialect;
use tokio::sync::mpsc;

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
    // What it reads may be far away, and not answer.
    tokio::select! {
        opened = reader.open(&task.context) => opened?,
        () = task.stop.asked(Urgency::AtChunkEnd) => return Ok(StepEnd::Stopped),
    }
    writer.open(&task.context).await?;
    let mut lanes = lanes(step, task, &writer)?;
    for writer in lanes.iter_mut().filter_map(|lane| lane.writer.as_mut()) {
        writer.open(&task.context).await?;
    }
    if let Some(rejects) = &mut rejects {
        rejects.open(&task.scope, &task.context).await?;
    }
    task.describe(reader.total(), Some(writer.delivery())).await?;
    // Items behind the saved position that an earlier run has settled in a scan.
    let settled = task.context.get_long(OFFSET).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    let reading = ReadingTask {
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
    let source = ReaderHandle {
        permit,
        chunks,
        scope: task.chunk(step.options.idle_limit),
        clock: task.clock.clone(),
        reads_ahead: step.options.reads_ahead,
    };
    source.start().await;
    let mut source = match lanes.is_empty() {
        true => ChunkSource::Reader(source),
        false => ChunkSource::ParallelChunks(Box::new(ParallelChunks::new(source, lanes))),
    };
    let mut work = ChunkLoop {
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
    let mut ended = work.all(&mut source).await;
    let ChunkLoop { mut writer, mut rejects, task, .. } = work;
    // A ghost must not publish what somebody else has gone on with.
    if let Err(lost) = task.check() {
        ended = Err(lost);
    }
    let is_complete = matches!(ended, Ok(StepEnd::Completed(_)));
    // First, so that nothing is left open that was begun ahead.
    let mut closed = source.close(is_complete).await;
    closed = closed.and(writer.close(is_complete).await);
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

/// What prepares chunks: nothing with one thread. Each has a processor of its own, and a writer where several may write
/// at the same time.
fn lanes<R, P, W>(
    step: &ChunkStep<R, P, W>,
    task: &StepTask,
    writer: &W,
) -> Result<Vec<Lane<P, W>>, ItemError>
where
    R: ItemReader,
    P: ItemProcessor<R::Item>,
    W: ItemWriter<P::Output>,
{
    let mut lanes = Vec::new();
    if step.options.threads == 1 {
        return Ok(lanes);
    }
    // SQLite has one writer: a transaction that is begun ahead would keep everybody else waiting.
    let is_concurrent = writer.is_concurrent() && task.scope.store().dialect() == Dialect::Postgres;
    for _ in 0..step.options.threads {
        let mut lane = Lane { processor: (step.parts.processor)(&task.scope)?, writer: None };
        if is_concurrent {
            lane.writer = Some((step.parts.writer)(&task.scope)?);
        }
        lanes.push(lane);
    }
    Ok(lanes)
}

//! Work done for one chunk before its turn: its items are processed and, if the writer allows it, written.
//!
//! Nothing is decided here. A processing error is kept, and counts as the first attempt at the chunk's turn. A write
//! error is dropped, because uncommitted rows of another chunk may have caused it; the chunk is written at its turn.

use crate::job::{ChunkBuffer, ChunkScope, ItemProcessor, ItemWriter};
use std::sync::Arc;
use tidemill_domain::item::ItemError;
use tidemill_store::crash_point;
use tokio::sync::Semaphore;

pub(super) struct Lane<P, W> {
    pub(super) processor: P,
    /// Only if writers may run concurrently.
    pub(super) writer: Option<W>,
}

pub(super) struct Preparation<I, O, P, W> {
    pub(super) buffer: ChunkBuffer<I, O>,
    pub(super) lane: Lane<P, W>,
    /// Why the writer can no longer be used.
    pub(super) broken: Option<ItemError>,
}

impl<I, O, P, W> Preparation<I, O, P, W>
where
    I: Send + Sync + 'static,
    O: Send + Sync + 'static,
    P: ItemProcessor<I, Output = O>,
    W: ItemWriter<O>,
{
    /// Without a gate the chunk is not written.
    pub(super) async fn run(mut self, gate: Option<Arc<Semaphore>>) -> Self {
        // Whether read errors may be skipped is known only at the chunk's turn.
        if self.buffer.read.errors.is_empty()
            && self.process().await
            && let Some(gate) = gate
        {
            self.write(gate).await;
        }
        self
    }

    /// Processes the items in order, until one fails. Returns whether all succeeded.
    async fn process(&mut self) -> bool {
        let buffer = &mut self.buffer;
        if P::pass_through(&buffer.read.items).is_some() {
            return true;
        }
        for item in &buffer.read.items {
            // Yields, so that a processor that never waits does not block heartbeats and stops.
            tokio::task::coop::consume_budget().await;
            let outcome = process(&mut self.lane.processor, item).await;
            let has_failed = outcome.is_err();
            buffer.ahead.outcomes.push_back(outcome);
            if has_failed {
                return false;
            }
        }
        true
    }

    /// Writes the outputs, once a transaction may be open.
    async fn write(&mut self, gate: Arc<Semaphore>) {
        let Some(writer) = &mut self.lane.writer else { return };
        let buffer = &mut self.buffer;
        let outcomes = std::mem::take(&mut buffer.ahead.outcomes);
        let kept: Vec<bool> = outcomes.iter().map(|outcome| matches!(outcome, Ok(Some(_)))).collect();
        let batch: Vec<O> = outcomes.into_iter().filter_map(|outcome| outcome.ok().flatten()).collect();
        let items = P::pass_through(&buffer.read.items).unwrap_or(&batch);
        let mut written = Ok(());
        if !items.is_empty() {
            buffer.ahead.permit = gate.acquire_owned().await.ok();
            written = write(writer, items, &mut buffer.scope).await;
        }
        let mut batch = batch.into_iter();
        buffer.ahead.outcomes =
            kept.iter().map(|is_kept| Ok(is_kept.then(|| batch.next()).flatten())).collect();
        buffer.ahead.is_written = true;
        if let Err(error) = written {
            tracing::debug!(%error, "a chunk could not be written ahead; it is written at its turn");
            self.release().await;
        }
    }

    /// Rolls back what was written ahead; it is written again at its turn. Outputs are kept.
    pub(super) async fn release(&mut self) {
        // Held until the transaction has ended.
        let Some(_permit) = self.buffer.ahead.permit.take() else { return };
        self.buffer.ahead.is_written = false;
        self.buffer.scope.roll_back().await;
        if let Some(writer) = &mut self.lane.writer
            && let Err(error) = writer.roll_back().await
        {
            self.broken = Some(error);
        }
    }
}

pub(super) async fn process<I, P: ItemProcessor<I>>(
    processor: &mut P,
    item: &I,
) -> Result<Option<P::Output>, ItemError> {
    crash_point!("chunk_before_process");
    let outcome = processor.process(item).await;
    crash_point!("chunk_after_process");
    outcome
}

pub(super) async fn write<O, W: ItemWriter<O>>(
    writer: &mut W,
    items: &[O],
    scope: &mut ChunkScope,
) -> Result<(), ItemError> {
    crash_point!("chunk_before_write");
    let written = writer.write(items, scope).await;
    crash_point!("chunk_after_write");
    written
}

//! The reading side of a chunk step: a task of its own, which forms chunks and may be one chunk ahead.
//!
//! It never decides about errors, because what may be skipped depends on chunks that are still being written; it
//! passes them on in their order.

use crate::job::component::{ItemPlace, ItemReader};
use crate::job::listener::ItemListener;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::item::{ItemError, Phase};
use tidemill_domain::job::ExecutionContext;
use tidemill_domain::job::fault::{FaultPolicy, read_skips_max};
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_store::crash_point;
use tokio::sync::mpsc;

/// When a chunk is complete.
pub(super) struct Completion<I> {
    pub(super) size: usize,
    pub(super) time_limit: Option<Duration>,
    pub(super) custom: Option<Arc<CustomCompletion<I>>>,
}

type CustomCompletion<I> = dyn Fn(&ChunkSoFar<'_, I>) -> bool + Send + Sync;

impl<I> Clone for Completion<I> {
    fn clone(&self) -> Self {
        Self { size: self.size, time_limit: self.time_limit, custom: self.custom.clone() }
    }
}

/// A chunk that is being read.
#[derive(Debug)]
pub struct ChunkSoFar<'a, I> {
    /// How many items it has.
    pub items: usize,
    /// The last of them.
    pub last: &'a I,
    /// How long ago its first item was read.
    pub age: Duration,
}

impl<I> Completion<I> {
    pub(super) fn of_size(size: usize) -> Self {
        Self { size, time_limit: None, custom: None }
    }

    fn is_complete(&self, items: usize, last: &I, age: impl Fn() -> Duration) -> bool {
        items >= self.size
            || self.time_limit.is_some_and(|limit| age() >= limit)
            || self.custom.as_ref().is_some_and(|custom| custom(&ChunkSoFar { items, last, age: age() }))
    }
}

/// What was read for one chunk.
pub(super) struct ReadChunk<I> {
    pub(super) items: Vec<I>,
    /// Where each of them came from, as far as the reader says so.
    pub(super) places: Vec<Option<ItemPlace>>,
    /// What could not be read, in order.
    pub(super) errors: Vec<ReadError>,
    /// The reader's position behind them.
    pub(super) position: ExecutionContext,
    /// Whether there is nothing more.
    pub(super) has_ended: bool,
}

/// A read that failed.
pub(super) struct ReadError {
    /// How many items of the chunk were read before it.
    pub(super) behind: usize,
    pub(super) error: ItemError,
}

/// What the reading task works with.
pub(super) struct ReadingTask<R: ItemReader, O> {
    pub(super) reader: R,
    pub(super) completion: Completion<R::Item>,
    pub(super) policy: Option<FaultPolicy>,
    pub(super) listeners: Vec<Arc<dyn ItemListener<R::Item, O>>>,
    pub(super) clock: Arc<dyn Clock>,
    /// Items of the first chunk that an earlier run has dealt with.
    pub(super) leave_out: u64,
}

impl<R: ItemReader, O: 'static> ReadingTask<R, O> {
    /// Reads a chunk for each permit, until there is nothing more or nobody wants it. Returns the reader, so that it
    /// can be closed.
    pub(super) async fn run(
        mut self,
        mut permits: mpsc::Receiver<()>,
        chunks: mpsc::Sender<Result<ReadChunk<R::Item>, ItemError>>,
    ) -> R {
        while permits.recv().await.is_some() {
            let chunk = tokio::select! {
                chunk = self.read_chunk() => chunk,
                () = chunks.closed() => break,
            };
            let is_last = chunk.as_ref().map_or(true, |chunk| chunk.has_ended);
            if chunks.send(chunk).await.is_err() || is_last {
                break;
            }
        }
        self.reader
    }

    async fn read_chunk(&mut self) -> Result<ReadChunk<R::Item>, ItemError> {
        let mut items = Vec::with_capacity(self.completion.size.min(10_000));
        let (mut places, mut errors, mut has_ended) = (Vec::new(), Vec::new(), false);
        let mut since: Option<Monotonic> = None;
        loop {
            // A reader that never waits must not keep heartbeats and stops from being heard.
            tokio::task::coop::consume_budget().await;
            for listener in &self.listeners {
                listener.before_read();
            }
            crash_point!("chunk_before_read");
            let read = self.reader.read().await;
            crash_point!("chunk_after_read");
            match read {
                Ok(None) => {
                    has_ended = true;
                    break;
                }
                Ok(Some(_)) if self.leave_out > 0 => self.leave_out -= 1,
                Ok(Some(item)) => {
                    for listener in &self.listeners {
                        listener.after_read(&item);
                    }
                    let clock = &self.clock;
                    let began = *since.get_or_insert_with(|| clock.monotonic());
                    let count = items.len() + 1;
                    let is_complete =
                        self.completion.is_complete(count, &item, || clock.monotonic().since(began));
                    items.push(item);
                    places.push(self.reader.place());
                    if is_complete {
                        break;
                    }
                }
                Err(_) if self.leave_out > 0 => {}
                Err(error) => {
                    for listener in &self.listeners {
                        listener.on_read_error(&error);
                    }
                    let may_be_skipped = self.may_be_skipped(&error);
                    errors.push(ReadError { behind: items.len(), error });
                    if !may_be_skipped || errors.len() >= read_skips_max(self.completion.size) {
                        break;
                    }
                }
            }
        }
        let mut position = ExecutionContext::new();
        self.reader.update(&mut position)?;
        Ok(ReadChunk { items, places, errors, position, has_ended })
    }

    fn may_be_skipped(&self, error: &ItemError) -> bool {
        let kind = super::chunk_loop::kind_of(error, Phase::Read);
        self.policy.as_ref().is_some_and(|policy| policy.skip.contains(&kind))
    }
}

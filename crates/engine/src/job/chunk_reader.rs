//! The reading task of a chunk step, which forms chunks and may be one chunk ahead.
//!
//! It passes errors on in their order and decides nothing, because what may be skipped depends on chunks still being
//! written.

use crate::job::chunk_step::Completion;
use crate::job::{ChunkBuffer, ChunkScope, ItemListener, ItemReader, ReadChunk, ReadError, kind_of};
use std::sync::Arc;
use tidemill_domain::item::{ItemError, Phase};
use tidemill_domain::job::ExecutionContext;
use tidemill_domain::job::fault::{FaultPolicy, read_skips_max};
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_store::crash_point;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

pub(super) struct ReaderHandle<I> {
    /// Each message permits one more chunk.
    permit: mpsc::Sender<()>,
    pub(super) chunks: mpsc::Receiver<Result<ReadChunk<I>, ItemError>>,
    /// Template for the scopes of chunks.
    scope: ChunkScope,
    clock: Arc<dyn Clock>,
    reads_ahead: bool,
}

impl<I> ReaderHandle<I> {
    /// Permits the next chunk, if chunks are read ahead.
    pub(super) async fn read_ahead(&self) {
        if self.reads_ahead {
            let _reading_ended = self.permit.send(()).await;
        }
    }

    /// None when the reader is gone.
    pub(super) async fn next<O>(&mut self) -> Option<Result<ChunkBuffer<I, O>, ItemError>> {
        // The permit is for this chunk, or after it for the next one.
        if !self.reads_ahead {
            let _reading_ended = self.permit.send(()).await;
        }
        let read = match self.chunks.recv().await? {
            Ok(read) => read,
            Err(error) => return Some(Err(error)),
        };
        self.read_ahead().await;
        Some(Ok(self.buffer(read)))
    }

    pub(super) fn buffer<O>(&self, read: ReadChunk<I>) -> ChunkBuffer<I, O> {
        ChunkBuffer::new(read, self.scope.another(), self.clock.monotonic())
    }
}

pub(super) struct ReadingTask<R: ItemReader, O> {
    pub(super) reader: R,
    pub(super) completion: Completion<R::Item>,
    pub(super) policy: Option<FaultPolicy>,
    pub(super) listeners: Vec<Arc<dyn ItemListener<R::Item, O>>>,
    pub(super) clock: Arc<dyn Clock>,
    /// Items of the first chunk that an earlier run has settled.
    pub(super) leave_out: u64,
}

impl<R: ItemReader, O: 'static> ReadingTask<R, O> {
    /// The task ends when the handle is dropped, and returns the reader, so that it can be closed.
    pub(super) async fn spawn(
        self,
        scope: ChunkScope,
        reads_ahead: bool,
    ) -> (ReaderHandle<R::Item>, JoinHandle<R>) {
        let (permit, permits) = mpsc::channel(2);
        let (send, chunks) = mpsc::channel(1);
        let handle = ReaderHandle { permit, chunks, scope, clock: self.clock.clone(), reads_ahead };
        let task = tokio::spawn(self.run(permits, send));
        handle.read_ahead().await;
        (handle, task)
    }

    /// Reads a chunk for each permit.
    async fn run(
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
            // Yields, so that a reader that never waits does not block heartbeats and stops.
            tokio::task::coop::consume_budget().await;
            self.listeners.iter().for_each(|listener| listener.before_read());
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
                    self.listeners.iter().for_each(|listener| listener.after_read(&item));
                    let clock = &self.clock;
                    let began = *since.get_or_insert_with(|| clock.monotonic());
                    let age = || clock.monotonic().since(began);
                    let is_complete = self.completion.is_complete(items.len() + 1, &item, age);
                    items.push(item);
                    places.push(self.reader.place());
                    if is_complete {
                        break;
                    }
                }
                Err(error) => {
                    let kind = kind_of(&error, Phase::Read);
                    let may_be_skipped =
                        self.policy.as_ref().is_some_and(|policy| policy.skip.contains(&kind));
                    // It was skipped before what follows was settled.
                    if self.leave_out > 0 && may_be_skipped {
                        continue;
                    }
                    self.listeners.iter().for_each(|listener| listener.on_read_error(&error));
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
}

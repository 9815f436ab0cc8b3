//! Where a step takes its chunks from: straight from the reader, or from lanes that prepare them.

use super::chunk_buffer::ChunkBuffer;
use super::chunk_reader::ReadChunk;
use super::parallel_chunks::ParallelChunks;
use crate::job::component::{ItemProcessor, ItemWriter};
use crate::job::scope::ChunkScope;
use crate::metrics::ChunkTimer;
use std::sync::Arc;
use tidemill_domain::item::ItemError;
use tidemill_domain::time::Clock;
use tokio::sync::mpsc;

pub(super) enum ChunkSource<I, O, P, W> {
    Reader(ReaderHandle<I>),
    ParallelChunks(Box<ParallelChunks<I, O, P, W>>),
}

/// The reading task, as the step sees it.
pub(super) struct ReaderHandle<I> {
    /// Each lets one more chunk be read.
    pub(super) permit: mpsc::Sender<()>,
    pub(super) chunks: mpsc::Receiver<Result<ReadChunk<I>, ItemError>>,
    /// What the scopes of chunks are made from.
    pub(super) scope: ChunkScope,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) reads_ahead: bool,
}

impl<I> ReaderHandle<I> {
    /// Lets the first chunk be read, if the others are read ahead.
    pub(super) async fn start(&self) {
        if self.reads_ahead {
            let _reading_ended = self.permit.send(()).await;
        }
    }

    /// The next chunk that was read; none when the reader is gone.
    pub(super) async fn next<O>(&mut self) -> Option<Result<ChunkBuffer<I, O>, ItemError>> {
        // Each permit is for the chunk behind this one, or for this one.
        if !self.reads_ahead {
            let _reading_ended = self.permit.send(()).await;
        }
        let read = match self.chunks.recv().await? {
            Ok(read) => read,
            Err(error) => return Some(Err(error)),
        };
        self.start().await;
        Some(Ok(self.buffer(read)))
    }

    pub(super) fn buffer<O>(&self, read: ReadChunk<I>) -> ChunkBuffer<I, O> {
        ChunkBuffer::new(read, self.scope.another(), ChunkTimer::start(&*self.clock))
    }
}

impl<I, O, P, W> ChunkSource<I, O, P, W>
where
    I: Send + Sync + 'static,
    O: Send + Sync + 'static,
    P: ItemProcessor<I, Output = O>,
    W: ItemWriter<O>,
{
    /// The next chunk in order; none when the reader is gone. ParallelChunks exchange processor and writer for those that know
    /// the chunk.
    pub(super) async fn next(
        &mut self,
        processor: &mut P,
        writer: &mut W,
    ) -> Option<Result<ChunkBuffer<I, O>, ItemError>> {
        match self {
            Self::Reader(reader) => reader.next().await,
            Self::ParallelChunks(lanes) => lanes.next(processor, writer).await,
        }
    }

    /// Does the work for the chunk whose turn it is.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        match self {
            Self::Reader(_) => work.await,
            Self::ParallelChunks(lanes) => lanes.during(work).await,
        }
    }

    /// Ends what is done ahead. The reader comes to its end by itself.
    pub(super) async fn close(self, is_complete: bool) -> Result<(), ItemError> {
        match self {
            Self::Reader(_) => Ok(()),
            Self::ParallelChunks(lanes) => lanes.close(is_complete).await,
        }
    }
}

//! Where a step takes its chunks from: straight from the reader, or from several threads that prepare them.

use crate::job::chunk_buffer::ChunkBuffer;
use crate::job::chunk_reader::ReaderHandle;
use crate::job::component::{ItemProcessor, ItemWriter};
use crate::job::parallel_chunks::ParallelChunks;
use tidemill_domain::item::ItemError;

pub(super) enum ChunkSource<I, O, P, W> {
    Reader(ReaderHandle<I>),
    Parallel(Box<ParallelChunks<I, O, P, W>>),
}

impl<I, O, P, W> ChunkSource<I, O, P, W>
where
    I: Send + Sync + 'static,
    O: Send + Sync + 'static,
    P: ItemProcessor<I, Output = O>,
    W: ItemWriter<O>,
{
    /// The next chunk in order; none when the reader is gone. A prepared chunk comes in exchange for processor and writer:
    /// the caller gets those that know it.
    pub(super) async fn next(
        &mut self,
        processor: &mut P,
        writer: &mut W,
    ) -> Option<Result<ChunkBuffer<I, O>, ItemError>> {
        match self {
            Self::Reader(reader) => reader.next().await,
            Self::Parallel(chunks) => chunks.next(processor, writer).await,
        }
    }

    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        match self {
            Self::Reader(_) => work.await,
            Self::Parallel(chunks) => chunks.during(work).await,
        }
    }

    /// Ends what is done ahead. The reader comes to its end by itself.
    pub(super) async fn close(self, is_complete: bool) -> Result<(), ItemError> {
        match self {
            Self::Reader(_) => Ok(()),
            Self::Parallel(chunks) => chunks.close(is_complete).await,
        }
    }
}

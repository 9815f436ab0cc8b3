//! The parts of a chunk step: reader, processor and writer. Implement these, or use the ones in [`crate::item`].
#![expect(unused_variables, reason = "most defaults do nothing")]

use crate::job::ChunkScope;
use std::fmt;
use std::sync::Arc;
use tidemill_domain::item::ItemError;
use tidemill_domain::job::ExecutionContext;

/// A part with a position that survives a restart: opened with the saved context, updated at the end of each chunk, and
/// closed at the end of the step.
pub trait ItemStream: Send + 'static {
    /// Called once before anything else. `context` is empty in a first run; in a restart it has what
    /// [`update`](Self::update) saved last.
    fn open(&mut self, context: &ExecutionContext) -> impl Future<Output = Result<(), ItemError>> + Send {
        async { Ok(()) }
    }

    /// Saves the position, which commits with the chunk. Called once per chunk: keep it cheap.
    fn update(&mut self, context: &mut ExecutionContext) -> Result<(), ItemError> {
        Ok(())
    }

    /// Called once at the end, unless process or step were killed. `is_complete` means that all work is done.
    fn close(&mut self, is_complete: bool) -> impl Future<Output = Result<(), ItemError>> + Send {
        async { Ok(()) }
    }
}

/// Reads items one by one.
pub trait ItemReader: ItemStream {
    /// The type of the items.
    type Item: Send + Sync + 'static;

    /// The next item; none at the end. After an error the next call continues after the failed item.
    fn read(&mut self) -> impl Future<Output = Result<Option<Self::Item>, ItemError>> + Send;

    /// Total number of items, if that is cheap to know: for the progress bar.
    fn total(&self) -> Option<u64> {
        None
    }

    /// Whether every run reads the same items in the same order, and Spring Batch would too, so that the number of items
    /// that it has read is a position.
    fn has_fixed_order(&self) -> bool {
        false
    }

    /// Where the last item came from, for error messages. Called for each item: keep it cheap.
    fn place(&self) -> Option<ItemPlace> {
        None
    }
}

/// Where an item came from.
///
/// ```
/// # use tidemill_engine::job::ItemPlace;
/// let place = ItemPlace { source: "orders.csv".into(), unit: "line", number: 3 };
/// assert_eq!(place.to_string(), "orders.csv line 3");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ItemPlace {
    /// The source, such as a file. Items of one source share it.
    pub source: Arc<str>,
    /// What is counted, such as lines.
    pub unit: &'static str,
    /// The number of the item in that unit.
    pub number: u64,
}

impl fmt::Display for ItemPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.source, self.unit, self.number)
    }
}

/// Turns an item into what is written; none filters it. Any `FnMut(&I) -> Result<Option<O>, ItemError>` is a processor.
pub trait ItemProcessor<I>: Send + 'static {
    /// The type of the output.
    type Output: Send + Sync + 'static;

    /// Processes one item. May be called again for the same item after a rollback.
    fn process(&mut self, item: &I) -> impl Future<Output = Result<Option<Self::Output>, ItemError>> + Send;

    /// The items themselves, if they are the output: then nothing is processed or copied.
    fn pass_through(items: &[I]) -> Option<&[Self::Output]> {
        None
    }
}

impl<I, O, F> ItemProcessor<I> for F
where
    I: Sync,
    O: Send + Sync + 'static,
    F: FnMut(&I) -> Result<Option<O>, ItemError> + Send + 'static,
{
    type Output = O;

    async fn process(&mut self, item: &I) -> Result<Option<O>, ItemError> {
        self(item)
    }
}

/// Writes items unchanged: the processor of a step that has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct PassThrough;

impl<I: Clone + Send + Sync + 'static> ItemProcessor<I> for PassThrough {
    type Output = I;

    async fn process(&mut self, item: &I) -> Result<Option<I>, ItemError> {
        Ok(Some(item.clone()))
    }

    fn pass_through(items: &[I]) -> Option<&[I]> {
        Some(items)
    }
}

tidemill_domain::words! {
    /// How often an item can be written, after a crash.
    pub enum Delivery {
        /// Once: it commits with the chunk, or is truncated on restart.
        ExactlyOnce = "exactly-once",
        /// At least once: the items of one chunk may be written twice.
        AtLeastOnce = "at-least-once",
    }
}

/// Writes the items of a chunk.
pub trait ItemWriter<O>: ItemStream {
    /// Writes all items, or fails. Writes through [`ChunkScope::tx`] commit with the chunk; a crash may repeat others.
    fn write(
        &mut self,
        items: &[O],
        chunk: &mut ChunkScope,
    ) -> impl Future<Output = Result<(), ItemError>> + Send;

    /// Undoes everything written since the last committed chunk.
    fn roll_back(&mut self) -> impl Future<Output = Result<(), ItemError>> + Send {
        async { Ok(()) }
    }

    /// Whether a step with several [threads](crate::job::ChunkStep::threads) may write chunks concurrently, each with
    /// its own writer and transaction. They still commit in order, and a chunk written ahead may be rolled back and
    /// written again. A database with a single writer writes nothing ahead.
    ///
    /// Return true only if all writes go through [`ChunkScope::tx`], [`update`](ItemStream::update) saves nothing, and
    /// writes do not depend on earlier chunks. If the step fails or is stopped while such a writer works, it is dropped
    /// without [`close`](ItemStream::close).
    fn is_concurrent(&self) -> bool {
        false
    }

    /// Whether the writer uses [`ChunkScope::numbers`].
    fn is_numbered(&self) -> bool {
        false
    }

    /// The number of tables that it writes, if it writes nothing but rows of tables and events, which may be a part of the
    /// statement that commits the chunk.
    #[doc(hidden)]
    fn staged_tables(&self) -> Option<usize> {
        None
    }

    /// The guarantee of this writer. Return [`Delivery::ExactlyOnce`] if all writes go through [`ChunkScope::tx`].
    fn delivery(&self) -> Delivery {
        Delivery::AtLeastOnce
    }
}

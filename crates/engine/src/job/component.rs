//! What a chunk step is made of: a reader, a processor and a writer. Authors implement these, or use the
//! product's own from [`crate::item`].
#![expect(unused_variables, reason = "most defaults do nothing")]

use crate::job::scope::ChunkScope;
use std::fmt;
use std::sync::Arc;
use tidemill_domain::item::ItemError;
use tidemill_domain::job::ExecutionContext;

/// Something with a position that has to survive a restart: opened with what was saved, asked for its position
/// at the end of each chunk, closed at the end of the step.
pub trait ItemStream: Send + 'static {
    /// Called once before anything else. `context` is empty in a first run, and holds what
    /// [`update`](Self::update) saved last in a restart.
    fn open(&mut self, context: &ExecutionContext) -> impl Future<Output = Result<(), ItemError>> + Send {
        async { Ok(()) }
    }

    /// Saves the position. It commits together with the chunk. Called once per chunk: keep it cheap.
    fn update(&mut self, context: &mut ExecutionContext) -> Result<(), ItemError> {
        Ok(())
    }

    /// Called once at the end, unless the process or the step was ended by force; then it is only dropped.
    /// `is_complete` when the step has done all that there was to do.
    fn close(&mut self, is_complete: bool) -> impl Future<Output = Result<(), ItemError>> + Send {
        async { Ok(()) }
    }
}

/// Reads items one by one.
pub trait ItemReader: ItemStream {
    /// What it reads.
    type Item: Send + Sync + 'static;

    /// The next item; none at the end. After an error the next call goes on behind the item that failed.
    fn read(&mut self) -> impl Future<Output = Result<Option<Self::Item>, ItemError>> + Send;

    /// How many items there are in all, where that is known without much ado: for the progress bar.
    fn total(&self) -> Option<u64> {
        None
    }

    /// Where the item came from that was read last: for the message, should it fail later. Asked for each item, so it has to
    /// be cheap.
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
    /// What it was read from, such as a file. Shared by all that came from there.
    pub source: Arc<str>,
    /// What is counted there, such as lines.
    pub unit: &'static str,
    /// Which of them.
    pub number: u64,
}

impl fmt::Display for ItemPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.source, self.unit, self.number)
    }
}

/// Turns an item into what is written; none to drop it on purpose.
///
/// Any `FnMut(&I) -> Result<Option<O>, ItemError>` is one.
pub trait ItemProcessor<I>: Send + 'static {
    /// What comes out.
    type Output: Send + Sync + 'static;

    /// Processes one item. It may be called again for the same item after a chunk was rolled back.
    fn process(&mut self, item: &I) -> impl Future<Output = Result<Option<Self::Output>, ItemError>> + Send;

    /// The items themselves, when that is what comes out: then nothing is processed or copied.
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

/// The processor of a step that has none: what is read is written.
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
    /// How often what a writer writes can arrive, after a crash.
    pub enum Delivery {
        /// Once: it commits with the chunk, or is cut back to the chunk on restart.
        ExactlyOnce = "exactly-once",
        /// At least once: the items of one chunk may arrive twice.
        AtLeastOnce = "at-least-once",
    }
}

/// Writes the items of a chunk.
pub trait ItemWriter<O>: ItemStream {
    /// Writes all of them, or fails. What is written through [`ChunkScope::tx`] commits with the chunk; what goes
    /// elsewhere may be written again after a crash.
    fn write(
        &mut self,
        items: &[O],
        chunk: &mut ChunkScope,
    ) -> impl Future<Output = Result<(), ItemError>> + Send;

    /// Forgets what was written since the last chunk that committed: this one is rolled back.
    fn roll_back(&mut self) -> impl Future<Output = Result<(), ItemError>> + Send {
        async { Ok(()) }
    }

    /// Whether a step with several [threads](crate::job::ChunkStep::threads) may write several chunks at the same time,
    /// each with a writer of its own and in a transaction of its own. They commit in order all the same, and one that is
    /// written ahead may be rolled back and written again. A database that has one writer writes nothing ahead.
    ///
    /// Say so only when all of it goes through [`ChunkScope::tx`], nothing is saved by [`update`](ItemStream::update),
    /// and what is written does not depend on what earlier chunks have written. A writer that is at work when a step
    /// fails or is stopped is dropped without [`close`](ItemStream::close).
    fn is_concurrent(&self) -> bool {
        false
    }

    /// What this writer promises. Say [`Delivery::ExactlyOnce`] when all of it goes through [`ChunkScope::tx`].
    fn delivery(&self) -> Delivery {
        Delivery::AtLeastOnce
    }
}

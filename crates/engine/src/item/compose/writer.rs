//! One writer composed of several: each gets every item, or a closure picks one for each item. And a writer of what a
//! closure makes of each item.

use crate::item::BoxWriter;
use crate::job::{ChunkScope, Delivery, ItemStream, ItemWriter};
use std::fmt::Debug;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::ExecutionContext;

/// Gives every item to each of several writers, in the order in which they were added. It is exactly once only if all
/// of them are.
///
/// ```
/// use tidemill_engine::item::{CompositeWriter, JsonLinesWriter, TextWriter};
///
/// let writer = CompositeWriter::new()
///     .and(JsonLinesWriter::<u64>::new("all", "out/all.jsonl"))
///     .and(TextWriter::new("list", "out/list.txt", |number: &u64| number.to_string()));
/// ```
pub type CompositeWriter<O> = Writers<O, ToAll>;

/// Gives each item to one of several writers, picked by a key.
///
/// Each writer gets its items of a chunk together, in order; items are cloned for that. An item whose key has no writer
/// goes to [`otherwise`](Writers::otherwise), or is an error.
///
/// ```
/// use tidemill_engine::item::{ClassifierWriter, JsonLinesWriter};
///
/// let writer = ClassifierWriter::new(|amount: &i64| *amount < 0)
///     .on(true, JsonLinesWriter::new("debits", "out/debits.jsonl"))
///     .on(false, JsonLinesWriter::new("credits", "out/credits.jsonl"));
/// ```
pub type ClassifierWriter<O, K> = Writers<O, ByKey<O, K>>;

/// Gives a writer what a closure makes of each item.
///
/// ```
/// use tidemill_engine::item::{JsonLinesWriter, MappedWriter};
///
/// let cents = MappedWriter::new(JsonLinesWriter::new("cents", "out/cents.jsonl"), |euros: &i64| Ok(euros * 100));
/// ```
pub type MappedWriter<O, F> = Writers<O, Mapped<F>>;

/// Several writers that act as one; see [`CompositeWriter`], [`ClassifierWriter`] and [`MappedWriter`].
#[must_use]
pub struct Writers<O, D> {
    parts: Vec<BoxWriter<O>>,
    deal: D,
}

/// Distributes the items of a chunk to writers, identified by index.
pub trait Deal<O>: Send + 'static {
    #[doc(hidden)]
    fn deal(&mut self, items: &[O], writers: usize) -> Result<Shares<O>, ItemError>;
}

/// The items of each writer, with their indices in the chunk; none means all items.
type Shares<O> = Vec<(usize, Option<(Vec<O>, Vec<usize>)>)>;

/// Every item goes to all writers.
pub struct ToAll;

impl<O> Deal<O> for ToAll {
    fn deal(&mut self, _: &[O], writers: usize) -> Result<Shares<O>, ItemError> {
        Ok((0..writers).map(|number| (number, None)).collect())
    }
}

impl<O: Send + Sync + 'static> CompositeWriter<O> {
    /// Starts without writers.
    pub fn new() -> Self {
        Self { parts: Vec::new(), deal: ToAll }
    }

    tidemill_domain::setters! {
        /// Adds a writer.
        pub fn and(self, writer: impl ItemWriter<O>) { self.parts.push(BoxWriter::new(writer)) }
    }
}

/// The only writer gets what a closure makes of each item.
pub struct Mapped<F>(F);

impl<O, F> Deal<O> for Mapped<F>
where
    F: FnMut(&O) -> Result<O, ItemError> + Send + 'static,
{
    fn deal(&mut self, items: &[O], _: usize) -> Result<Shares<O>, ItemError> {
        let mapped = items.iter().map(&mut self.0).collect::<Result<_, _>>()?;
        Ok(vec![(0, Some((mapped, (0..items.len()).collect())))])
    }
}

impl<O, F> MappedWriter<O, F>
where
    O: Send + Sync + 'static,
    F: FnMut(&O) -> Result<O, ItemError> + Send + 'static,
{
    /// Converts each item for `writer`.
    pub fn new(writer: impl ItemWriter<O>, map: F) -> Self {
        Self { parts: vec![BoxWriter::new(writer)], deal: Mapped(map) }
    }
}

type Classify<O, K> = Box<dyn FnMut(&O) -> Result<K, ItemError> + Send>;

/// Every item goes to the writer of its key.
pub struct ByKey<O, K> {
    classify: Classify<O, K>,
    keys: Vec<(K, usize)>,
    otherwise: Option<usize>,
}

impl<O, K> Deal<O> for ByKey<O, K>
where
    O: Clone + 'static,
    K: PartialEq + Debug + Send + 'static,
{
    fn deal(&mut self, items: &[O], _: usize) -> Result<Shares<O>, ItemError> {
        let mut groups: Shares<O> = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let key = (self.classify)(item)?;
            let found = self.keys.iter().find(|(known, _)| *known == key).map(|(_, number)| *number);
            let number = found.or(self.otherwise).ok_or_else(|| {
                ItemError::new(ErrorKind::WRITE, format!("no writer was named for items of class {key:?}"))
            })?;
            match groups.iter_mut().find(|(known, _)| *known == number) {
                Some((_, Some((group, indices)))) => {
                    group.push(item.clone());
                    indices.push(index);
                }
                _ => groups.push((number, Some((vec![item.clone()], vec![index])))),
            }
        }
        Ok(groups)
    }
}

impl<O, K> ClassifierWriter<O, K>
where
    O: Clone + Send + Sync + 'static,
    K: PartialEq + Debug + Send + 'static,
{
    /// Starts without writers; `classify` returns the key of an item.
    pub fn new(mut classify: impl FnMut(&O) -> K + Send + 'static) -> Self {
        Self::fallible(move |item| Ok(classify(item)))
    }

    /// The same with a closure that can fail.
    pub fn fallible(classify: impl FnMut(&O) -> Result<K, ItemError> + Send + 'static) -> Self {
        let deal = ByKey { classify: Box::new(classify), keys: Vec::new(), otherwise: None };
        Self { parts: Vec::new(), deal }
    }

    tidemill_domain::setters! {
        /// Adds the writer for a key.
        pub fn on(self, key: K, writer: impl ItemWriter<O>) {
            self.deal.keys.push((key, self.parts.len()));
            self.parts.push(BoxWriter::new(writer))
        }
        /// Adds the writer for all other keys.
        pub fn otherwise(self, writer: impl ItemWriter<O>) {
            self.deal.otherwise = Some(self.parts.len());
            self.parts.push(BoxWriter::new(writer))
        }
    }
}

impl<O: Sync + 'static, D: Send + 'static> ItemStream for Writers<O, D> {
    async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        for part in &mut self.parts {
            part.open(context).await?;
        }
        Ok(())
    }

    fn update(&mut self, context: &mut ExecutionContext) -> Result<(), ItemError> {
        self.parts.iter_mut().try_for_each(|part| part.update(context))
    }

    /// Closes all of them, even after an error. After an error the rest are closed as incomplete, because the step has
    /// failed and its next run needs their state.
    async fn close(&mut self, is_complete: bool) -> Result<(), ItemError> {
        let mut closed = Ok(());
        for part in &mut self.parts {
            let is_complete = is_complete && closed.is_ok();
            closed = closed.and(part.close(is_complete).await);
        }
        closed
    }
}

impl<O: Send + Sync + 'static, D: Deal<O>> ItemWriter<O> for Writers<O, D> {
    /// All or nothing: if one part fails, the others undo this chunk here, because not every error causes a rollback.
    async fn write(&mut self, items: &[O], chunk: &mut ChunkScope) -> Result<(), ItemError> {
        for (number, share) in self.deal.deal(items, self.parts.len())? {
            let Some(part) = self.parts.get_mut(number) else { continue };
            let written = match &share {
                None => part.write(items, chunk).await,
                Some((share, indices)) => {
                    // Numbers of items are those of the share.
                    let of_share = indices.iter().filter_map(|index| chunk.written.1.get(*index).copied());
                    let of_share = of_share.collect();
                    let of_chunk = std::mem::replace(&mut chunk.written.1, of_share);
                    let written = part.write(share, chunk).await;
                    chunk.written.1 = of_chunk;
                    written
                }
            };
            if written.is_err() {
                self.roll_back().await?;
                return written;
            }
        }
        Ok(())
    }

    /// Rolls all of them back, even after an error.
    async fn roll_back(&mut self) -> Result<(), ItemError> {
        let mut rolled_back = Ok(());
        for part in &mut self.parts {
            rolled_back = rolled_back.and(part.roll_back().await);
        }
        rolled_back
    }

    fn is_concurrent(&self) -> bool {
        self.parts.iter().all(ItemWriter::is_concurrent)
    }

    fn is_numbered(&self) -> bool {
        self.parts.iter().any(ItemWriter::is_numbered)
    }

    fn staged_tables(&self) -> Option<usize> {
        self.parts.iter().map(ItemWriter::staged_tables).sum()
    }

    fn delivery(&self) -> Delivery {
        let is_exact = self.parts.iter().all(|part| part.delivery() == Delivery::ExactlyOnce);
        if is_exact { Delivery::ExactlyOnce } else { Delivery::AtLeastOnce }
    }
}

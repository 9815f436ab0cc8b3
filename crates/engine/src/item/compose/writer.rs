//! One writer made of several: each gets every item, or a closure picks one for each item.

use super::parts::Parts;
use crate::job::component::{Delivery, ItemStream, ItemWriter};
use crate::job::scope::ChunkScope;
use std::fmt::Debug;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::ExecutionContext;

/// Gives every item to each of several writers, in the order in which they were added.
///
/// It promises as much as the weakest of them.
///
/// ```
/// use tidemill_engine::item::{CompositeWriter, JsonLinesWriter, TextWriter};
///
/// let writer = CompositeWriter::new()
///     .and(JsonLinesWriter::<u64>::new("all", "out/all.jsonl"))
///     .and(TextWriter::new("list", "out/list.txt", |number: &u64| number.to_string()));
/// ```
pub struct CompositeWriter<O> {
    parts: Parts<O>,
}

impl<O: Send + Sync + 'static> CompositeWriter<O> {
    /// Without writers.
    #[expect(clippy::new_without_default, reason = "a composite of nothing is no sensible default")]
    pub fn new() -> Self {
        Self { parts: Parts::new() }
    }

    /// Adds a writer.
    #[must_use]
    pub fn and(mut self, writer: impl ItemWriter<O>) -> Self {
        self.parts.add(writer);
        self
    }
}

impl<O: Send + Sync + 'static> ItemStream for CompositeWriter<O> {
    async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        self.parts.open(context).await
    }

    fn update(&mut self, context: &mut ExecutionContext) -> Result<(), ItemError> {
        self.parts.update(context)
    }

    async fn close(&mut self, is_complete: bool) -> Result<(), ItemError> {
        self.parts.close(is_complete).await
    }
}

impl<O: Send + Sync + 'static> ItemWriter<O> for CompositeWriter<O> {
    async fn write(&mut self, items: &[O], chunk: &mut ChunkScope) -> Result<(), ItemError> {
        let mut written = Ok(());
        for part in self.parts.iter_mut() {
            written = part.write(items, chunk).await;
            if written.is_err() {
                break;
            }
        }
        undo_unless_all(&mut self.parts, written).await
    }

    async fn roll_back(&mut self) -> Result<(), ItemError> {
        self.parts.roll_back().await
    }

    fn is_concurrent(&self) -> bool {
        self.parts.is_concurrent()
    }

    fn delivery(&self) -> Delivery {
        self.parts.delivery()
    }
}

/// Gives each item to one of several writers, which a closure picks by a key.
///
/// Each writer gets its items of a chunk at once, in their order; items are copied for that. An item whose
/// key has no writer goes to [`otherwise`](Self::otherwise), or is an error.
///
/// ```
/// use tidemill_engine::item::{ClassifierWriter, JsonLinesWriter};
///
/// let writer = ClassifierWriter::new(|amount: &i64| *amount < 0)
///     .on(true, JsonLinesWriter::new("debits", "out/debits.jsonl"))
///     .on(false, JsonLinesWriter::new("credits", "out/credits.jsonl"));
/// ```
pub struct ClassifierWriter<O, K> {
    classify: Box<dyn FnMut(&O) -> K + Send>,
    keys: Vec<(K, usize)>,
    otherwise: Option<usize>,
    parts: Parts<O>,
}

impl<O, K> ClassifierWriter<O, K>
where
    O: Clone + Send + Sync + 'static,
    K: PartialEq + Debug + Send + 'static,
{
    /// Without writers.
    pub fn new(classify: impl FnMut(&O) -> K + Send + 'static) -> Self {
        Self { classify: Box::new(classify), keys: Vec::new(), otherwise: None, parts: Parts::new() }
    }

    /// Adds the writer for a key.
    #[must_use]
    pub fn on(mut self, key: K, writer: impl ItemWriter<O>) -> Self {
        let number = self.parts.add(writer);
        self.keys.push((key, number));
        self
    }

    /// Adds the writer for all other keys.
    #[must_use]
    pub fn otherwise(mut self, writer: impl ItemWriter<O>) -> Self {
        self.otherwise = Some(self.parts.add(writer));
        self
    }

    fn part_of(&mut self, item: &O) -> Result<usize, ItemError> {
        let key = (self.classify)(item);
        let found = self.keys.iter().find(|(known, _)| *known == key).map(|(_, number)| *number);
        found.or(self.otherwise).ok_or_else(|| {
            ItemError::new(ErrorKind::WRITE, format!("no writer was named for items of class {key:?}"))
        })
    }
}

impl<O, K> ItemStream for ClassifierWriter<O, K>
where
    O: Clone + Send + Sync + 'static,
    K: PartialEq + Debug + Send + 'static,
{
    async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        self.parts.open(context).await
    }

    fn update(&mut self, context: &mut ExecutionContext) -> Result<(), ItemError> {
        self.parts.update(context)
    }

    async fn close(&mut self, is_complete: bool) -> Result<(), ItemError> {
        self.parts.close(is_complete).await
    }
}

impl<O, K> ItemWriter<O> for ClassifierWriter<O, K>
where
    O: Clone + Send + Sync + 'static,
    K: PartialEq + Debug + Send + 'static,
{
    async fn write(&mut self, items: &[O], chunk: &mut ChunkScope) -> Result<(), ItemError> {
        // In the order in which their first items come.
        let mut groups: Vec<(usize, Vec<O>)> = Vec::new();
        for item in items {
            let number = self.part_of(item)?;
            match groups.iter_mut().find(|(known, _)| *known == number) {
                Some((_, group)) => group.push(item.clone()),
                None => groups.push((number, vec![item.clone()])),
            }
        }
        let mut written = Ok(());
        for (number, group) in groups {
            if let Some(part) = self.parts.get_mut(number)
                && written.is_ok()
            {
                written = part.write(&group, chunk).await;
            }
        }
        undo_unless_all(&mut self.parts, written).await
    }

    async fn roll_back(&mut self) -> Result<(), ItemError> {
        self.parts.roll_back().await
    }

    fn is_concurrent(&self) -> bool {
        self.parts.is_concurrent()
    }

    fn delivery(&self) -> Delivery {
        self.parts.delivery()
    }
}

/// A write does all or nothing: where one part failed, the others take back what they have of this chunk,
/// because an error that needs no rollback is not followed by one.
async fn undo_unless_all<O: Sync + 'static>(
    parts: &mut Parts<O>,
    written: Result<(), ItemError>,
) -> Result<(), ItemError> {
    if written.is_err() {
        parts.roll_back().await?;
    }
    written
}

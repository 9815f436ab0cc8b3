//! Reading items that are already there: for tests and small jobs.

use crate::job::component::{ItemReader, ItemStream};
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::ExecutionContext;

/// Reads items from a list or another iterator.
///
/// It counts as Spring Batch's counting readers do: `<name>.read.count` grows with every call, also with one
/// that fails, and with the one that finds the end. After N items it is therefore N + 1. A restart reads that
/// many and drops them.
///
/// ```
/// use tidemill_engine::item::ItemsReader;
///
/// let reader = ItemsReader::new("numbers", 1..=5).failing_on(|number| *number == 4);
/// ```
pub struct ItemsReader<T> {
    key: String,
    items: Box<dyn Iterator<Item = Result<T, ItemError>> + Send>,
    is_at_end: bool,
    read_count: u64,
    total: Option<u64>,
}

impl<T: Send + Sync + 'static> ItemsReader<T> {
    /// Reads these items. They must be the same in a restart.
    pub fn new<I>(name: &str, items: I) -> Self
    where
        I: IntoIterator<Item = T>,
        I::IntoIter: Send + 'static,
    {
        Self::results(name, items.into_iter().map(Ok))
    }

    /// Reads these items, of which some fail.
    pub fn results<I>(name: &str, items: I) -> Self
    where
        I: IntoIterator<Item = Result<T, ItemError>>,
        I::IntoIter: Send + 'static,
    {
        let items = items.into_iter();
        let total = match items.size_hint() {
            (least, Some(most)) if least == most => Some(least as u64),
            _ => None,
        };
        let key = format!("{name}.read.count");
        Self { key, items: Box::new(items), is_at_end: false, read_count: 0, total }
    }

    /// Makes reading fail for some items, for tests. The kind of the error is [`ErrorKind::READ`].
    #[must_use]
    pub fn failing_on(mut self, mut is_failing: impl FnMut(&T) -> bool + Send + 'static) -> Self {
        self.items = Box::new(self.items.map(move |item| match item {
            Ok(item) if is_failing(&item) => {
                Err(ItemError::new(ErrorKind::READ, "the item was told to fail when it is read"))
            }
            other => other,
        }));
        self
    }

    fn next(&mut self) -> Option<Result<T, ItemError>> {
        self.read_count += 1;
        if self.is_at_end {
            return None;
        }
        let item = self.items.next();
        self.is_at_end = item.is_none();
        item
    }
}

impl<T: Send + Sync + 'static> ItemStream for ItemsReader<T> {
    async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        let saved = context.get_long(&self.key).and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
        while self.read_count < saved && !self.is_at_end {
            let _dropped = self.next();
        }
        self.read_count = saved;
        Ok(())
    }

    fn update(&mut self, context: &mut ExecutionContext) -> Result<(), ItemError> {
        context.put(&self.key, self.read_count);
        Ok(())
    }
}

impl<T: Send + Sync + 'static> ItemReader for ItemsReader<T> {
    type Item = T;

    async fn read(&mut self) -> Result<Option<T>, ItemError> {
        self.next().transpose()
    }

    fn total(&self) -> Option<u64> {
        self.total
    }
}

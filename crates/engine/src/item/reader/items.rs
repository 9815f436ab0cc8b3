//! A reader of items in memory, for tests and small jobs.

use crate::job::{ItemReader, ItemStream};
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::ExecutionContext;

/// Reads items from a list or another iterator.
///
/// It counts as Spring Batch's readers do: `<name>.read.count` grows with every call, including failed ones and the one
/// that returns the end. After N items it is N + 1. A restart skips that many.
///
/// ```
/// use tidemill_engine::item::ItemsReader;
///
/// let reader = ItemsReader::new("numbers", 1..=5).failing_on(|number| *number == 4);
/// ```
pub struct ItemsReader<T> {
    key: String,
    make: Arc<dyn Fn() -> Items<T> + Send + Sync>,
    items: Items<T>,
    is_at_end: bool,
    read_count: u64,
    total: Option<u64>,
}

type Items<T> = Box<dyn Iterator<Item = Result<T, ItemError>> + Send>;

impl<T: Send + Sync + 'static> ItemsReader<T> {
    /// Reads these items, which must be the same in a restart.
    pub fn new<I>(name: &str, items: I) -> Self
    where
        I: IntoIterator<Item = T> + Clone + Send + Sync + 'static,
        I::IntoIter: Send,
    {
        Self::results(name, move || items.clone().into_iter().map(Ok))
    }

    /// Reads what `make` returns, including errors. `make` is called now and for each run of the step.
    pub fn results<I>(name: &str, make: impl Fn() -> I + Send + Sync + 'static) -> Self
    where
        I: IntoIterator<Item = Result<T, ItemError>>,
        I::IntoIter: Send + 'static,
    {
        Self::of(format!("{name}.read.count"), Arc::new(move || Box::new(make().into_iter())))
    }

    fn of(key: String, make: Arc<dyn Fn() -> Items<T> + Send + Sync>) -> Self {
        let items = make();
        let total = match items.size_hint() {
            (least, Some(most)) if least == most => Some(least as u64),
            _ => None,
        };
        Self { key, make, items, is_at_end: false, read_count: 0, total }
    }

    /// Fails on some items with [`ErrorKind::READ`], for tests.
    #[must_use]
    pub fn failing_on(self, is_failing: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        let (make, is_failing) = (self.make, Arc::new(is_failing));
        let failing = move || -> Items<T> {
            let is_failing = is_failing.clone();
            Box::new(make().map(move |item| match item {
                Ok(item) if is_failing(&item) => {
                    Err(ItemError::new(ErrorKind::READ, "the item was told to fail when it is read"))
                }
                other => other,
            }))
        };
        Self::of(self.key, Arc::new(failing))
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

impl<T: Send + Sync + 'static> Clone for ItemsReader<T> {
    /// The clone begins with the first item.
    fn clone(&self) -> Self {
        Self::of(self.key.clone(), self.make.clone())
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

    fn has_fixed_order(&self) -> bool {
        true
    }
}

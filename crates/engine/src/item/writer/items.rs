//! A writer into memory, for tests and small jobs.

use crate::job::{ChunkScope, ItemStream, ItemWriter};
use crate::locked;
use std::sync::{Arc, Mutex, MutexGuard};
use tidemill_domain::item::ItemError;
use tidemill_domain::job::ExecutionContext;

/// Keeps items in memory. Clones share them, so a test keeps one and gives the other to the step.
#[derive(Debug)]
pub struct ItemsWriter<T> {
    kept: Arc<Mutex<KeptItems<T>>>,
}

#[derive(Debug)]
struct KeptItems<T> {
    items: Vec<T>,
    /// Number of items in completed chunks.
    settled: usize,
}

impl<T> Default for ItemsWriter<T> {
    fn default() -> Self {
        Self { kept: Arc::new(Mutex::new(KeptItems { items: Vec::new(), settled: 0 })) }
    }
}

impl<T> Clone for ItemsWriter<T> {
    fn clone(&self) -> Self {
        Self { kept: self.kept.clone() }
    }
}

impl<T: Clone> ItemsWriter<T> {
    /// Items that were written and not rolled back.
    pub fn items(&self) -> Vec<T> {
        self.kept().items.clone()
    }
}

impl<T> ItemsWriter<T> {
    fn kept(&self) -> MutexGuard<'_, KeptItems<T>> {
        locked(&self.kept)
    }
}

impl<T: Send + 'static> ItemStream for ItemsWriter<T> {
    fn update(&mut self, _: &mut ExecutionContext) -> Result<(), ItemError> {
        let mut kept = self.kept();
        kept.settled = kept.items.len();
        Ok(())
    }
}

impl<T: Clone + Send + Sync + 'static> ItemWriter<T> for ItemsWriter<T> {
    async fn write(&mut self, items: &[T], _: &mut ChunkScope) -> Result<(), ItemError> {
        self.kept().items.extend_from_slice(items);
        Ok(())
    }

    async fn roll_back(&mut self) -> Result<(), ItemError> {
        let mut kept = self.kept();
        let settled = kept.settled;
        kept.items.truncate(settled);
        Ok(())
    }
}

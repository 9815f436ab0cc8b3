//! Readers, processors and writers composed of others, or of closures.

mod boxed;
mod processor;
mod writer;

#[cfg(test)]
mod tests;

pub use boxed::{BoxProcessor, BoxReader, BoxWriter};
pub use processor::{
    AsyncProcessor, ClassifierProcessor, CompositeProcessor, ProcessorExt, ValidatingProcessor,
};
pub use writer::{ClassifierWriter, CompositeWriter, MappedWriter};

use crate::job::{ItemPlace, ItemReader, ItemStream};
use tidemill_domain::item::ItemError;
use tidemill_domain::job::ExecutionContext;

/// Methods for every reader.
pub trait ReaderExt: ItemReader + Sized {
    /// Converts each item as it is read. An error counts as a read error: it can be skipped, and reading continues
    /// after it.
    ///
    /// ```
    /// # use tidemill_engine::item::{ItemsReader, ReaderExt};
    /// let reader = ItemsReader::new("numbers", ["1", "2"]).map(|text: &str| Ok(text.parse::<i64>()?));
    /// # let _typed: Box<dyn std::any::Any> = Box::new(reader);
    /// ```
    fn map<T, F>(self, map: F) -> MappedReader<Self, F>
    where
        T: Send + Sync + 'static,
        F: FnMut(Self::Item) -> Result<T, ItemError> + Send + 'static,
    {
        MappedReader { reader: self, map }
    }
}

impl<R: ItemReader> ReaderExt for R {}

/// A reader with a conversion; made by [`ReaderExt::map`].
#[derive(Clone, Debug)]
pub struct MappedReader<R, F> {
    reader: R,
    map: F,
}

impl<R: ItemReader, F: Send + 'static> ItemStream for MappedReader<R, F> {
    async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        self.reader.open(context).await
    }

    fn update(&mut self, context: &mut ExecutionContext) -> Result<(), ItemError> {
        self.reader.update(context)
    }

    async fn close(&mut self, is_complete: bool) -> Result<(), ItemError> {
        self.reader.close(is_complete).await
    }
}

impl<R, T, F> ItemReader for MappedReader<R, F>
where
    R: ItemReader,
    T: Send + Sync + 'static,
    F: FnMut(R::Item) -> Result<T, ItemError> + Send + 'static,
{
    type Item = T;

    async fn read(&mut self) -> Result<Option<T>, ItemError> {
        match self.reader.read().await? {
            Some(item) => (self.map)(item).map(Some),
            None => Ok(None),
        }
    }

    fn total(&self) -> Option<u64> {
        self.reader.total()
    }

    fn has_fixed_order(&self) -> bool {
        self.reader.has_fixed_order()
    }

    fn place(&self) -> Option<ItemPlace> {
        self.reader.place()
    }
}

//! Type-erased readers, processors and writers, for lists and for parts that are chosen when a job is built.

use crate::BoxFuture;
use crate::job::{ChunkScope, Delivery, ItemPlace, ItemProcessor, ItemReader, ItemStream, ItemWriter};
use tidemill_domain::item::ItemError;
use tidemill_domain::job::ExecutionContext;

type ItemFuture<'a, T> = BoxFuture<'a, Result<T, ItemError>>;

/// A type-erased part of a step.
pub struct Boxed<S: ?Sized>(Box<S>);

/// Any reader of `I`.
pub type BoxReader<I> = Boxed<dyn AnyReader<I>>;

/// Any processor from `I` to `O`.
pub type BoxProcessor<I, O> = Boxed<dyn AnyProcessor<I, O>>;

/// Any writer of `O`.
pub type BoxWriter<O> = Boxed<dyn AnyWriter<O>>;

#[doc(hidden)]
pub trait AnyStream: Send {
    fn open<'a>(&'a mut self, context: &'a ExecutionContext) -> ItemFuture<'a, ()>;
    fn update(&mut self, context: &mut ExecutionContext) -> Result<(), ItemError>;
    fn close(&mut self, is_complete: bool) -> ItemFuture<'_, ()>;
}

impl<S: ItemStream> AnyStream for S {
    fn open<'a>(&'a mut self, context: &'a ExecutionContext) -> ItemFuture<'a, ()> {
        Box::pin(ItemStream::open(self, context))
    }

    fn update(&mut self, context: &mut ExecutionContext) -> Result<(), ItemError> {
        ItemStream::update(self, context)
    }

    fn close(&mut self, is_complete: bool) -> ItemFuture<'_, ()> {
        Box::pin(ItemStream::close(self, is_complete))
    }
}

impl<S: AnyStream + ?Sized + 'static> ItemStream for Boxed<S> {
    async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        self.0.open(context).await
    }

    fn update(&mut self, context: &mut ExecutionContext) -> Result<(), ItemError> {
        self.0.update(context)
    }

    async fn close(&mut self, is_complete: bool) -> Result<(), ItemError> {
        self.0.close(is_complete).await
    }
}

#[doc(hidden)]
pub trait AnyReader<I>: AnyStream {
    fn read(&mut self) -> ItemFuture<'_, Option<I>>;
    fn total(&self) -> Option<u64>;
    fn has_fixed_order(&self) -> bool;
    fn place(&self) -> Option<ItemPlace>;
}

impl<R: ItemReader> AnyReader<R::Item> for R {
    fn read(&mut self) -> ItemFuture<'_, Option<R::Item>> {
        Box::pin(ItemReader::read(self))
    }

    fn total(&self) -> Option<u64> {
        ItemReader::total(self)
    }

    fn has_fixed_order(&self) -> bool {
        ItemReader::has_fixed_order(self)
    }

    fn place(&self) -> Option<ItemPlace> {
        ItemReader::place(self)
    }
}

impl<I: Send + Sync + 'static> BoxReader<I> {
    /// Erases the type of a reader.
    pub fn new(reader: impl ItemReader<Item = I>) -> Self {
        Self(Box::new(reader))
    }
}

impl<I: Send + Sync + 'static> ItemReader for BoxReader<I> {
    type Item = I;

    async fn read(&mut self) -> Result<Option<I>, ItemError> {
        self.0.read().await
    }

    fn total(&self) -> Option<u64> {
        self.0.total()
    }

    fn has_fixed_order(&self) -> bool {
        self.0.has_fixed_order()
    }

    fn place(&self) -> Option<ItemPlace> {
        self.0.place()
    }
}

#[doc(hidden)]
pub trait AnyProcessor<I, O>: Send {
    fn process<'a>(&'a mut self, item: &'a I) -> ItemFuture<'a, Option<O>>;
}

impl<I: Sync, P: ItemProcessor<I>> AnyProcessor<I, P::Output> for P {
    fn process<'a>(&'a mut self, item: &'a I) -> ItemFuture<'a, Option<P::Output>> {
        Box::pin(ItemProcessor::process(self, item))
    }
}

impl<I: Sync + 'static, O: Send + Sync + 'static> BoxProcessor<I, O> {
    /// Erases the type of a processor.
    pub fn new(processor: impl ItemProcessor<I, Output = O>) -> Self {
        Self(Box::new(processor))
    }
}

impl<I: Sync + 'static, O: Send + Sync + 'static> ItemProcessor<I> for BoxProcessor<I, O> {
    type Output = O;

    async fn process(&mut self, item: &I) -> Result<Option<O>, ItemError> {
        self.0.process(item).await
    }
}

#[doc(hidden)]
pub trait AnyWriter<O>: AnyStream {
    fn write<'a>(&'a mut self, items: &'a [O], chunk: &'a mut ChunkScope) -> ItemFuture<'a, ()>;
    fn roll_back(&mut self) -> ItemFuture<'_, ()>;
    fn is_concurrent(&self) -> bool;
    fn is_numbered(&self) -> bool;
    fn staged_tables(&self) -> Option<usize>;
    fn delivery(&self) -> Delivery;
}

impl<O: Sync + 'static, W: ItemWriter<O>> AnyWriter<O> for W {
    fn write<'a>(&'a mut self, items: &'a [O], chunk: &'a mut ChunkScope) -> ItemFuture<'a, ()> {
        Box::pin(ItemWriter::write(self, items, chunk))
    }

    fn roll_back(&mut self) -> ItemFuture<'_, ()> {
        Box::pin(ItemWriter::roll_back(self))
    }

    fn is_concurrent(&self) -> bool {
        ItemWriter::is_concurrent(self)
    }

    fn is_numbered(&self) -> bool {
        ItemWriter::is_numbered(self)
    }

    fn staged_tables(&self) -> Option<usize> {
        ItemWriter::staged_tables(self)
    }

    fn delivery(&self) -> Delivery {
        ItemWriter::delivery(self)
    }
}

impl<O: Sync + 'static> BoxWriter<O> {
    /// Erases the type of a writer.
    pub fn new(writer: impl ItemWriter<O>) -> Self {
        Self(Box::new(writer))
    }
}

impl<O: Sync + 'static> ItemWriter<O> for BoxWriter<O> {
    async fn write(&mut self, items: &[O], chunk: &mut ChunkScope) -> Result<(), ItemError> {
        self.0.write(items, chunk).await
    }

    async fn roll_back(&mut self) -> Result<(), ItemError> {
        self.0.roll_back().await
    }

    fn is_concurrent(&self) -> bool {
        self.0.is_concurrent()
    }

    fn is_numbered(&self) -> bool {
        self.0.is_numbered()
    }

    fn staged_tables(&self) -> Option<usize> {
        self.0.staged_tables()
    }

    fn delivery(&self) -> Delivery {
        self.0.delivery()
    }
}

//! Processors and writers composed of others, or of closures.

mod boxed;
mod mapped;
mod processor;
mod writer;

#[cfg(test)]
mod tests;

pub use boxed::{BoxProcessor, BoxReader, BoxWriter};
pub use mapped::{MappedReader, ReaderExt};
pub use processor::{
    AsyncProcessor, ClassifierProcessor, CompositeProcessor, ProcessorExt, ValidatingProcessor,
};
pub use writer::{ClassifierWriter, CompositeWriter};

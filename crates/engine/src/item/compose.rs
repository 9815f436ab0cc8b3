//! Processors and writers composed of others, or of closures.

mod boxed;
mod closure;
mod mapped;
mod processor;
mod writer;

#[cfg(test)]
mod tests;

pub use boxed::{BoxProcessor, BoxReader, BoxWriter};
pub use closure::{AsyncProcessor, ValidatingProcessor};
pub use mapped::{MappedReader, ReaderExt};
pub use processor::{ClassifierProcessor, CompositeProcessor, ProcessorExt};
pub use writer::{ClassifierWriter, CompositeWriter};

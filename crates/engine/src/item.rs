//! Ready-made parts of steps: readers, processors and writers of items.
//!
//! Each reader and writer has a name, under which its position is saved for a restart. No two of one step may
//! have the same.
//!
//! Reading order: [`reader`] and [`writer`] (of files and events), `file_output` (how a file is written exactly once),
//! `roots` (where files may lie), [`compose`] (parts that are made of others).

pub mod compose;
pub mod reader;
pub mod sql;
pub mod writer;

mod encoding;
pub(crate) mod file_output;
mod roots;

pub use compose::{
    AsyncProcessor, BoxProcessor, BoxReader, BoxWriter, ClassifierProcessor, ClassifierWriter,
    CompositeProcessor, CompositeWriter, MappedReader, ProcessorExt, ReaderExt, ValidatingProcessor,
};
pub use encoding::Encoding;
pub use reader::{CsvReader, FixedWidthReader, ItemsReader, JsonLinesReader};
pub use roots::{Roots, RootsError};
pub use writer::{CsvWriter, ItemsWriter, JsonLinesWriter, OutboxWriter, TextWriter};

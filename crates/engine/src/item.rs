//! Ready-made parts of steps: readers, processors and writers of items.
//!
//! Each reader and writer saves its position under its name; names must be unique within a step.

pub mod compose;
pub mod reader;
pub mod sql;
pub mod storage;
pub mod writer;

mod compression;
mod encoding;
pub(crate) mod file_output;
mod lookup;
mod roots;
mod sorted;
mod source;

pub use compose::{
    AsyncProcessor, BoxProcessor, BoxReader, BoxWriter, ClassifierProcessor, ClassifierWriter,
    CompositeProcessor, CompositeWriter, MappedReader, MappedWriter, ProcessorExt, ReaderExt,
    ValidatingProcessor,
};
pub use compression::Compression;
pub use encoding::Encoding;
pub use lookup::Lookup;
pub use reader::{
    CsvReader, ExcelReader, FixedWidthReader, ItemsReader, JsonLinesReader, JsonReader, XmlReader,
};
pub use roots::{Roots, RootsError};
pub use sorted::SortedReader;
pub use source::{ReadAt, Source};
pub use writer::{
    Align, CsvWriter, FixedWidthWriter, ItemsWriter, JsonLinesWriter, JsonWriter, OutboxWriter,
    StatementWriter, TextWriter, XmlWriter,
};

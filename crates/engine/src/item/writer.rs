//! Writers of files and of events, and by statements.

#[doc(hidden)]
pub mod as_row;
pub mod csv;
pub mod file;
pub mod fixed_width;
pub mod items;
pub mod json_array;
pub mod lines;
pub mod outbox;
pub mod statement;
pub mod xml;

#[cfg(test)]
mod tests;

pub use self::csv::CsvWriter;
pub use file::FileWriter;
pub use fixed_width::{Align, FixedWidthWriter};
pub use items::ItemsWriter;
pub use json_array::JsonWriter;
pub use lines::{JsonLinesWriter, TextWriter};
pub use outbox::OutboxWriter;
pub use statement::StatementWriter;
pub use xml::XmlWriter;

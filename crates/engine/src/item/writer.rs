//! Writers of files.
//!
//! Reading order: [`mod@file`], the writer that all formats share; [`csv`], [`json_lines`] and [`text`], the
//! formats.

pub mod csv;
pub mod file;
pub mod items;
pub mod json_lines;
pub mod text;

#[cfg(test)]
mod tests;

pub use self::csv::CsvWriter;
pub use file::FileWriter;
pub use items::ItemsWriter;
pub use json_lines::JsonLinesWriter;
pub use text::TextWriter;

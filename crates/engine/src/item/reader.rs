//! Readers of files, and of items that are already there.
//!
//! [`mod@file`] is the reader that all text formats share, [`table`] that of others.

pub mod csv;
pub mod excel;
pub mod file;
pub mod fixed_width;
pub mod json_array;
pub mod json_lines;
pub mod table;
pub mod xml;

mod columns;
mod csv_scan;
pub(super) mod error;
mod files;
mod input;
mod items;
mod record;
mod xml_scan;

pub use self::csv::CsvReader;
pub use excel::ExcelReader;
pub use file::FileReader;
pub use files::FILES_MAX;
pub(crate) use files::matching_files;
pub use fixed_width::FixedWidthReader;
pub use items::ItemsReader;
pub use json_array::JsonReader;
pub use json_lines::JsonLinesReader;
pub use record::RECORD_BYTES_MAX;
pub use table::TableReader;
pub use xml::XmlReader;

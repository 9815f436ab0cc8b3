//! Writers of files and of events.

pub mod csv;
pub mod file;
pub mod items;
pub mod json_lines;
pub mod outbox;
pub mod text;

#[cfg(test)]
mod tests;

pub use self::csv::CsvWriter;
pub use file::FileWriter;
pub use items::ItemsWriter;
pub use json_lines::JsonLinesWriter;
pub use outbox::OutboxWriter;
pub use text::TextWriter;

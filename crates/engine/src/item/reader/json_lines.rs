//! Reading files with a JSON document in each line.

use super::file::{FileReader, Format};
use super::files::Files;
use super::record::LineScanner;
use crate::item::encoding::Encoding;
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::sync::Arc;
use tidemill_domain::item::Row;

/// Reads files with a JSON document in each line. Blank lines are passed over.
///
/// ```
/// use tidemill_engine::item::JsonLinesReader;
///
/// let reader = JsonLinesReader::<serde_json::Value>::pattern("events", "in/events-*.jsonl.gz").allow_none();
/// ```
pub type JsonLinesReader<T> = FileReader<JsonLines<T>>;

/// The format of files with a JSON document in each line.
pub struct JsonLines<T> {
    scanner: LineScanner,
    decode: Decode<T>,
    /// The names of the row before, which those of one file share.
    names: Arc<[String]>,
}

type Decode<T> = fn(&str, &mut Arc<[String]>) -> serde_json::Result<T>;

impl<T: DeserializeOwned + Send + Sync + 'static> JsonLinesReader<T> {
    /// Reads one file. The name is what its position is saved under; no other reader of the step may have it.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self::of(name, Files::One(path.into()), JsonLines::new(decode_typed))
    }

    /// Reads all files that match a pattern such as `in/*.jsonl`, sorted by name.
    pub fn pattern(name: impl Into<String>, pattern: impl Into<String>) -> Self {
        Self::of(name, Files::matching(pattern), JsonLines::new(decode_typed))
    }
}

impl JsonLinesReader<Row> {
    /// Reads one file as rows: each document is an object, whose keys are the columns.
    pub fn rows(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self::of(name, Files::One(path.into()), JsonLines::new(decode_row))
    }

    /// Reads all files that match a pattern as rows.
    pub fn rows_pattern(name: impl Into<String>, pattern: impl Into<String>) -> Self {
        Self::of(name, Files::matching(pattern), JsonLines::new(decode_row))
    }
}

fn decode_typed<T: DeserializeOwned>(text: &str, _: &mut Arc<[String]>) -> serde_json::Result<T> {
    serde_json::from_str(text)
}

fn decode_row(text: &str, names: &mut Arc<[String]>) -> serde_json::Result<Row> {
    serde_json::from_str(text).map(|object| Row::from_json(object, names))
}

impl<T> JsonLines<T> {
    fn new(decode: Decode<T>) -> Self {
        Self { scanner: LineScanner::Blank, decode, names: Arc::new([]) }
    }
}

impl<T: Send + Sync + 'static> Format for JsonLines<T> {
    type Item = T;
    type Scanner = LineScanner;

    fn refusal(&self) -> Option<String> {
        None
    }

    fn scanner(&mut self) -> &mut LineScanner {
        &mut self.scanner
    }

    fn parse(&mut self, bytes: &[u8], encoding: Encoding) -> Result<T, String> {
        (self.decode)(&encoding.decode(bytes)?, &mut self.names).map_err(|error| {
            // The library counts lines within the record, which would mislead next to the line of the file.
            let text = error.to_string();
            let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
            format!("{what} (character {})", error.column())
        })
    }
}

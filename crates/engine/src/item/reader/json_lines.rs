//! Reading files with a JSON document in each line.

use super::file::{FileReader, Format};
use super::files::Files;
use super::record::LineScanner;
use crate::item::encoding::Encoding;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::path::PathBuf;

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
    _items: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + Send + Sync + 'static> JsonLinesReader<T> {
    /// Reads one file. The name is what its position is saved under; no other reader of the step may have it.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self::of(name, Files::One(path.into()), JsonLines::new())
    }

    /// Reads all files that match a pattern such as `in/*.jsonl`, sorted by name.
    pub fn pattern(name: impl Into<String>, pattern: impl Into<String>) -> Self {
        Self::of(name, Files::matching(pattern), JsonLines::new())
    }
}

impl<T> JsonLines<T> {
    const fn new() -> Self {
        Self { scanner: LineScanner::Blank, _items: PhantomData }
    }
}

impl<T: DeserializeOwned + Send + Sync + 'static> Format for JsonLines<T> {
    type Item = T;
    type Scanner = LineScanner;

    fn refusal(&self) -> Option<String> {
        None
    }

    fn scanner(&mut self) -> &mut LineScanner {
        &mut self.scanner
    }

    fn parse(&mut self, bytes: &[u8], encoding: Encoding) -> Result<T, String> {
        serde_json::from_str(&encoding.decode(bytes)?).map_err(|error| {
            // The library counts lines within the record, which would mislead next to the line of the file.
            let text = error.to_string();
            let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
            format!("{what} (character {})", error.column())
        })
    }
}

//! Reading files with a JSON document per line.

use crate::item::Encoding;
use crate::item::reader::file::{FileReader, Format};
use crate::item::reader::record::LineScanner;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use tidemill_domain::item::Row;

/// Reads files with a JSON document per line. Blank lines are skipped.
///
/// ```
/// use tidemill_engine::item::JsonLinesReader;
///
/// let reader = JsonLinesReader::<serde_json::Value>::pattern("events", "in/events-*.jsonl.gz").allow_none();
/// ```
pub type JsonLinesReader<T> = FileReader<JsonLines, T>;

/// The JSON lines format. As a row, a document is an object, whose keys are the columns.
#[derive(Clone)]
pub struct JsonLines {
    scanner: LineScanner,
    documents: Documents,
}

impl Default for JsonLines {
    fn default() -> Self {
        Self { scanner: LineScanner::Blank, documents: Documents::default() }
    }
}

impl Format for JsonLines {
    type Scanner = LineScanner;

    fn scanner(&mut self) -> &mut LineScanner {
        &mut self.scanner
    }

    fn typed<T: DeserializeOwned>(&mut self, bytes: &[u8], encoding: Encoding) -> Result<T, String> {
        self.documents.typed(bytes, encoding)
    }

    fn row(&mut self, bytes: &[u8], encoding: Encoding) -> Result<Row, String> {
        self.documents.row(bytes, encoding)
    }
}

/// From the bytes of a JSON document to an item.
#[derive(Clone)]
pub(super) struct Documents {
    /// Column names of the previous row, which rows of one file share.
    names: Arc<[String]>,
}

impl Default for Documents {
    fn default() -> Self {
        Self { names: Arc::new([]) }
    }
}

impl Documents {
    pub(super) fn typed<T: DeserializeOwned>(&self, bytes: &[u8], encoding: Encoding) -> Result<T, String> {
        serde_json::from_str(&encoding.decode(bytes)?).map_err(|error| {
            // serde_json counts lines within the record, which would mislead next to the line of the file.
            let text = error.to_string();
            let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
            match error.line() {
                0 | 1 => format!("{what} (character {})", error.column()),
                line => format!("{what} (character {} of line {line} of the value)", error.column()),
            }
        })
    }

    pub(super) fn row(&mut self, bytes: &[u8], encoding: Encoding) -> Result<Row, String> {
        self.typed(bytes, encoding).map(|object| Row::from_json(object, &mut self.names))
    }
}

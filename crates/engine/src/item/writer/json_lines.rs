//! Writing files with a JSON document per line.

use super::file::{Beginning, FileWriter, Layout};
use serde::Serialize;
use std::path::PathBuf;
use tidemill_domain::item::{ErrorKind, ItemError, Row};

/// Writes files with a JSON document per line.
///
/// ```
/// use tidemill_engine::item::JsonLinesWriter;
///
/// let writer = JsonLinesWriter::<serde_json::Value>::new("events", "out/events.jsonl").skip_if_empty();
/// ```
pub type JsonLinesWriter<T> = FileWriter<JsonDocuments<T>>;

/// Items as JSON documents, one per line.
pub struct JsonDocuments<T> {
    add: Add<T>,
}

impl<T> Clone for JsonDocuments<T> {
    fn clone(&self) -> Self {
        Self { add: self.add }
    }
}

type Add<T> = fn(&T, &mut Vec<u8>) -> serde_json::Result<()>;

impl<T: Serialize + Send + Sync + 'static> JsonLinesWriter<T> {
    /// Writes a file. Its length is saved under `name`, which must be unique within the step.
    pub fn new(name: &str, path: impl Into<PathBuf>) -> Self {
        Self::of(name, path, JsonDocuments { add: |item, text| serde_json::to_writer(text, item) })
    }
}

impl JsonLinesWriter<Row> {
    /// Writes a file of rows, each as an object. Decimals, dates and the like are text.
    pub fn rows(name: &str, path: impl Into<PathBuf>) -> Self {
        Self::of(name, path, JsonDocuments { add: |row, text| serde_json::to_writer(text, &row.to_json()) })
    }
}

impl<T: Send + Sync + 'static> Layout for JsonDocuments<T> {
    type Item = T;

    fn add(&mut self, items: &[T], _: Beginning, text: &mut Vec<u8>) -> Result<(), ItemError> {
        for item in items {
            (self.add)(item, text).map_err(|error| ItemError::of(ErrorKind::WRITE, error))?;
            text.push(b'\n');
        }
        Ok(())
    }
}

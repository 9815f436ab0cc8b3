//! Writing files with one line per item: a JSON document, or a text that a closure makes.

use super::file::{Beginning, FileWriter, Layout};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
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
    add: AddDocument<T>,
}

impl<T> Clone for JsonDocuments<T> {
    fn clone(&self) -> Self {
        Self { add: self.add }
    }
}

pub(super) type AddDocument<T> = fn(&T, &mut Vec<u8>) -> serde_json::Result<()>;

impl<T: Serialize + Send + Sync + 'static> JsonLinesWriter<T> {
    /// Writes a file. Its length is saved under `name`, which must be unique within the step.
    pub fn new(name: &str, path: impl Into<PathBuf>) -> Self {
        Self::of(name, path, JsonDocuments { add: add_typed })
    }
}

impl JsonLinesWriter<Row> {
    /// Writes a file of rows, each as an object. Decimals, dates and the like are text.
    pub fn rows(name: &str, path: impl Into<PathBuf>) -> Self {
        Self::of(name, path, JsonDocuments { add: add_row })
    }
}

pub(super) fn add_typed<T: Serialize>(item: &T, text: &mut Vec<u8>) -> serde_json::Result<()> {
    serde_json::to_writer(text, item)
}

pub(super) fn add_row(row: &Row, text: &mut Vec<u8>) -> serde_json::Result<()> {
    serde_json::to_writer(text, &row.to_json())
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

/// Writes text files whose lines a closure makes.
///
/// ```
/// use tidemill_engine::item::TextWriter;
///
/// let writer = TextWriter::new("names", "out/names.txt", |name: &String| format!("{name:>20}"));
/// ```
pub type TextWriter<T> = FileWriter<TextLines<T>>;

/// Items as lines that a closure makes.
pub struct TextLines<T> {
    line_of: Arc<dyn Fn(&T) -> String + Send + Sync>,
}

impl<T> Clone for TextLines<T> {
    fn clone(&self) -> Self {
        Self { line_of: self.line_of.clone() }
    }
}

impl<T: Send + Sync + 'static> TextWriter<T> {
    /// Writes a file. Its length is saved under `name`, which must be unique within the step. The closure returns a
    /// line without its end.
    pub fn new(
        name: &str,
        path: impl Into<PathBuf>,
        line_of: impl Fn(&T) -> String + Send + Sync + 'static,
    ) -> Self {
        Self::of(name, path, TextLines { line_of: Arc::new(line_of) })
    }
}

impl<T: Send + Sync + 'static> Layout for TextLines<T> {
    type Item = T;

    fn add(&mut self, items: &[T], _: Beginning, text: &mut Vec<u8>) -> Result<(), ItemError> {
        for item in items {
            text.extend_from_slice((self.line_of)(item).as_bytes());
            text.push(b'\n');
        }
        Ok(())
    }
}

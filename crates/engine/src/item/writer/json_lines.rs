//! Writing files with a JSON document in each line.

use super::file::{Beginning, FileWriter, Layout};
use serde::Serialize;
use std::marker::PhantomData;
use std::path::PathBuf;
use tidemill_domain::item::{ErrorKind, ItemError};

/// Writes files with a JSON document in each line.
///
/// ```
/// use tidemill_engine::item::JsonLinesWriter;
///
/// let writer = JsonLinesWriter::<serde_json::Value>::new("events", "out/events.jsonl").skip_if_empty();
/// ```
pub type JsonLinesWriter<T> = FileWriter<JsonDocuments<T>>;

/// Items as JSON documents, one in each line.
pub struct JsonDocuments<T> {
    _items: PhantomData<fn(&T)>,
}

impl<T: Serialize + Send + Sync + 'static> JsonLinesWriter<T> {
    /// Writes a file. The name is what its length is saved under; no other writer of the step may have it.
    pub fn new(name: &str, path: impl Into<PathBuf>) -> Self {
        Self::of(name, path, JsonDocuments { _items: PhantomData })
    }
}

impl<T: Serialize + Send + Sync + 'static> Layout for JsonDocuments<T> {
    type Item = T;

    fn add(&mut self, items: &[T], _: Beginning, text: &mut Vec<u8>) -> Result<(), ItemError> {
        for item in items {
            serde_json::to_writer(&mut *text, item)
                .map_err(|error| ItemError::of(ErrorKind::WRITE, error))?;
            text.push(b'\n');
        }
        Ok(())
    }
}

//! Writing JSON files that are one array.

use super::file::{Beginning, FileWriter, Layout};
use super::lines::{AddDocument, add_row, add_typed};
use serde::Serialize;
use std::path::PathBuf;
use tidemill_domain::item::{ErrorKind, ItemError, Row};

/// Writes files that are a JSON array, with one value per line. The array is closed when the step completes.
///
/// ```
/// use tidemill_engine::item::JsonWriter;
///
/// let writer = JsonWriter::<serde_json::Value>::new("orders", "out/orders.json");
/// ```
pub type JsonWriter<T> = FileWriter<JsonValues<T>>;

/// Items as the values of an array.
pub struct JsonValues<T> {
    add: AddDocument<T>,
}

impl<T> Clone for JsonValues<T> {
    fn clone(&self) -> Self {
        Self { add: self.add }
    }
}

impl<T: Serialize + Send + Sync + 'static> JsonWriter<T> {
    /// Writes a file. Its length is saved under `name`, which must be unique within the step.
    pub fn new(name: &str, path: impl Into<PathBuf>) -> Self {
        Self::of(name, path, JsonValues { add: add_typed })
    }
}

impl JsonWriter<Row> {
    /// Writes a file of rows, each as an object. Decimals, dates and the like are text.
    pub fn rows(name: &str, path: impl Into<PathBuf>) -> Self {
        Self::of(name, path, JsonValues { add: add_row })
    }
}

impl<T: Send + Sync + 'static> Layout for JsonValues<T> {
    type Item = T;

    fn add(&mut self, items: &[T], beginning: Beginning, text: &mut Vec<u8>) -> Result<(), ItemError> {
        let mut separator: &[u8] = match beginning {
            Beginning::OfFile => {
                text.push(b'[');
                b"\n"
            }
            Beginning::OfChunk => b",\n",
        };
        for item in items {
            text.extend_from_slice(separator);
            separator = b",\n";
            (self.add)(item, text).map_err(|error| ItemError::of(ErrorKind::WRITE, error))?;
        }
        Ok(())
    }

    fn end(&self) -> &str {
        "\n]\n"
    }
}

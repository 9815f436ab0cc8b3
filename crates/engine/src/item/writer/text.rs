//! Writing text files whose lines a closure makes.

use super::file::{Beginning, FileWriter, Layout};
use std::path::PathBuf;
use std::sync::Arc;
use tidemill_domain::item::ItemError;

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

//! Writing files with fixed-width columns.

use super::as_row::{AsRow, row_itself, row_of};
use super::file::{Beginning, FileWriter, Layout};
use crate::item::Encoding;
use serde::Serialize;
use std::ops::Range;
use std::path::PathBuf;
use tidemill_domain::item::{ErrorKind, ItemError, Row};

/// Writes files with fixed-width columns, one line per item.
///
/// A value that does not fit into its column is an error, never cut off. Between columns there are blanks.
///
/// ```
/// use tidemill_domain::item::Row;
/// use tidemill_engine::item::{Align, FixedWidthWriter};
///
/// let writer = FixedWidthWriter::<Row>::rows("balances", "out/balances.txt")
///     .column("account", 0..10, Align::Left, ' ')
///     .column("balance", 10..25, Align::Right, '0');
/// ```
pub type FixedWidthWriter<T> = FileWriter<FixedLines<T>>;

/// Items as lines of fixed-width columns.
pub struct FixedLines<T> {
    columns: Vec<FixedColumn>,
    counts_bytes: bool,
    encoding: Encoding,
    as_row: AsRow<T>,
}

#[derive(Clone)]
struct FixedColumn {
    name: String,
    range: Range<usize>,
    align: Align,
    pad: char,
}

/// On which side of its column a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Align {
    /// Padded on the right.
    #[default]
    Left,
    /// Padded on the left. If it is padded with zeros, a minus comes before them.
    Right,
}

impl<T> Clone for FixedLines<T> {
    fn clone(&self) -> Self {
        let Self { counts_bytes, encoding, as_row, .. } = *self;
        Self { columns: self.columns.clone(), counts_bytes, encoding, as_row }
    }
}

impl<T: Serialize + Send + Sync + 'static> FixedWidthWriter<T> {
    /// Writes a file. Its length is saved under `name`, which must be unique within the step.
    pub fn new(name: &str, path: impl Into<PathBuf>) -> Self {
        Self::of(name, path, FixedLines::new(row_of))
    }
}

impl FixedWidthWriter<Row> {
    /// Writes a file of rows. Null is blank.
    pub fn rows(name: &str, path: impl Into<PathBuf>) -> Self {
        Self::of(name, path, FixedLines::new(row_itself))
    }
}

impl<T: Send + Sync + 'static> FixedWidthWriter<T> {
    tidemill_domain::setters! {
        /// Adds a column and its range, counted from 0, end excluded.
        pub fn column(self, name: impl Into<String>, range: Range<usize>, align: Align, pad: char) {
            self.layout.columns.push(FixedColumn { name: name.into(), range, align, pad });
            self.layout.columns.sort_by_key(|column| column.range.start)
        }
        /// Counts ranges in bytes of the file's encoding instead of characters.
        pub fn in_bytes(self) { self.layout.counts_bytes = true }
    }
}

impl<T> FixedLines<T> {
    fn new(as_row: AsRow<T>) -> Self {
        Self { columns: Vec::new(), counts_bytes: false, encoding: Encoding::default(), as_row }
    }

    fn refusal(&self) -> Option<String> {
        if self.columns.is_empty() {
            return Some("no column was named".to_owned());
        }
        let overlap = self.columns.windows(2).find(|pair| pair[0].range.end > pair[1].range.start)?;
        Some(format!("columns {:?} and {:?} overlap", overlap[0].name, overlap[1].name))
    }

    fn write_line(&self, row: &Row, line: &mut Vec<u8>) -> Result<(), String> {
        let mut end = 0;
        for column in &self.columns {
            let value = row.value(&column.name).map_err(|error| error.to_string())?.to_string();
            if value.contains(['\n', '\r']) {
                return Err(format!("column {:?} has a line end, which a line cannot contain", column.name));
            }
            let (len, unit) = match self.counts_bytes {
                true => (self.encoding.encode(value.as_bytes())?.len(), "bytes"),
                false => (value.chars().count(), "characters"),
            };
            let width = column.range.len();
            let padding = width.checked_sub(len).ok_or_else(|| {
                format!("column {:?} has {width} {unit}, but the value has {len}", column.name)
            })?;
            line.resize(line.len() + column.range.start - end, b' ');
            let padding: String = std::iter::repeat_n(column.pad, padding).collect();
            let (first, second) = match (column.align, value.strip_prefix('-')) {
                (Align::Left, _) => (value.as_str(), padding.as_str()),
                (Align::Right, Some(digits)) if column.pad == '0' => {
                    line.push(b'-');
                    (padding.as_str(), digits)
                }
                (Align::Right, _) => (padding.as_str(), value.as_str()),
            };
            line.extend_from_slice(first.as_bytes());
            line.extend_from_slice(second.as_bytes());
            end = column.range.end;
        }
        line.push(b'\n');
        Ok(())
    }
}

impl<T: Send + Sync + 'static> Layout for FixedLines<T> {
    type Item = T;

    fn add(&mut self, items: &[T], _: Beginning, text: &mut Vec<u8>) -> Result<(), ItemError> {
        if let Some(refusal) = self.refusal() {
            return Err(ItemError::fatal(refusal));
        }
        for item in items {
            let row = (self.as_row)(item)?;
            self.write_line(&row, text).map_err(|fault| ItemError::new(ErrorKind::WRITE, fault))?;
        }
        Ok(())
    }

    fn set_encoding(&mut self, encoding: Encoding) {
        self.encoding = encoding;
    }
}

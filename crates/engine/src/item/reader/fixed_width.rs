//! Reading files with fixed-width columns.

use crate::item::Encoding;
use crate::item::reader::columns::{Columns, Empty, decode_row, decode_typed};
use crate::item::reader::file::{FileReader, Format};
use crate::item::reader::record::LineScanner;
use csv::StringRecord;
use serde::de::DeserializeOwned;
use std::ops::Range;
use tidemill_domain::item::Row;

/// Reads files with fixed-width columns.
///
/// Spaces around a value are trimmed. A line that is shorter than its last column is a parse error; text after the last
/// column is ignored. Empty lines are skipped.
///
/// ```
/// use tidemill_engine::item::{Encoding, FixedWidthReader};
///
/// let reader = FixedWidthReader::<(String, i64)>::new("balances", "in/balances.txt")
///     .column("account", 0..10)
///     .column("balance", 10..25)
///     .encoding(Encoding::EucKr)
///     .in_bytes();
/// ```
pub type FixedWidthReader<T> = FileReader<FixedWidth, T>;

/// The fixed-width format.
#[derive(Clone)]
pub struct FixedWidth {
    scanner: LineScanner,
    names: Vec<String>,
    ranges: Vec<Range<usize>>,
    unit: Unit,
    columns: Columns,
    fields: StringRecord,
    empty: Empty,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Characters,
    Bytes,
}

impl FixedWidthReader<Row> {
    /// Reads blank columns as null instead of empty text.
    pub fn empty_as_null(mut self) -> Self {
        self.format.empty = Empty::Null;
        self
    }
}

impl<T> FixedWidthReader<T> {
    tidemill_domain::setters! {
        /// Adds a column and its range, counted from 0, end excluded.
        pub fn column(self, name: impl Into<String>, range: Range<usize>) {
            self.format.names.push(name.into());
            self.format.ranges.push(range);
            self.format.columns = Columns::new(self.format.names.iter())
        }
        /// Counts ranges in bytes instead of characters, as mainframe formats do: a Korean character then takes two.
        pub fn in_bytes(self) { self.format.unit = Unit::Bytes }
    }
}

impl Default for FixedWidth {
    fn default() -> Self {
        Self {
            scanner: LineScanner::Empty,
            names: Vec::new(),
            ranges: Vec::new(),
            unit: Unit::Characters,
            columns: Columns::new(Vec::<String>::new()),
            fields: StringRecord::new(),
            empty: Empty::default(),
        }
    }
}

impl FixedWidth {
    fn split(&mut self, bytes: &[u8], encoding: Encoding) -> Result<(), String> {
        self.fields.clear();
        match self.unit {
            Unit::Bytes => self.split_bytes(bytes, encoding),
            Unit::Characters => self.split_characters(&encoding.decode(bytes)?),
        }
    }

    fn split_bytes(&mut self, bytes: &[u8], encoding: Encoding) -> Result<(), String> {
        for (range, name) in self.ranges.iter().zip(&self.names) {
            let bytes =
                bytes.get(range.clone()).ok_or_else(|| too_short(name, range, bytes.len(), "bytes"))?;
            self.fields.push_field(encoding.decode(bytes)?.trim());
        }
        Ok(())
    }

    fn split_characters(&mut self, text: &str) -> Result<(), String> {
        // Where each character begins, and the end; not needed for ASCII.
        let starts: Option<Vec<usize>> = (!text.is_ascii())
            .then(|| text.char_indices().map(|(start, _)| start).chain([text.len()]).collect());
        for (range, name) in self.ranges.iter().zip(&self.names) {
            let field = match &starts {
                None => text.get(range.clone()),
                Some(starts) => match (starts.get(range.start), starts.get(range.end)) {
                    (Some(start), Some(end)) => text.get(*start..*end),
                    _ => None,
                },
            };
            let field = field.ok_or_else(|| too_short(name, range, text.chars().count(), "characters"))?;
            self.fields.push_field(field.trim());
        }
        Ok(())
    }
}

fn too_short(name: &str, range: &Range<usize>, len: usize, unit: &str) -> String {
    format!("the line has {len} {unit}, but column {name:?} ends at {}", range.end)
}

impl Format for FixedWidth {
    type Scanner = LineScanner;

    fn refusal(&self) -> Option<String> {
        if self.ranges.is_empty() {
            return Some("no column was named".to_owned());
        }
        let backwards = self.ranges.iter().zip(&self.names).find(|(range, _)| range.is_empty());
        backwards.map(|(range, name)| {
            format!(
                "column {name:?} has no characters: it begins at {} and ends at {}",
                range.start, range.end
            )
        })
    }

    fn scanner(&mut self) -> &mut LineScanner {
        &mut self.scanner
    }

    fn typed<T: DeserializeOwned>(&mut self, bytes: &[u8], encoding: Encoding) -> Result<T, String> {
        self.split(bytes, encoding)?;
        decode_typed(&self.fields, Some(&self.columns))
    }

    fn row(&mut self, bytes: &[u8], encoding: Encoding) -> Result<Row, String> {
        self.split(bytes, encoding)?;
        Ok(decode_row(&self.fields, Some(&self.columns), self.empty))
    }
}

//! Reading files with fixed-width columns.

use crate::item::Encoding;
use crate::item::reader::columns::{Columns, Fields};
use crate::item::reader::file::{FileReader, Format};
use crate::item::reader::record::LineScanner;
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
#[derive(Clone, Default)]
pub struct FixedWidth {
    scanner: LineScanner,
    columns: Vec<(String, Range<usize>)>,
    counts_bytes: bool,
    fields: Fields,
}

impl FixedWidthReader<Row> {
    tidemill_domain::setters! {
        /// Reads blank columns as null instead of empty text.
        pub fn empty_as_null(self) { self.format.fields.empty_is_null = true }
    }
}

impl<T> FixedWidthReader<T> {
    tidemill_domain::setters! {
        /// Adds a column and its range, counted from 0, end excluded.
        pub fn column(self, name: impl Into<String>, range: Range<usize>) {
            self.format.columns.push((name.into(), range));
            self.format.fields.columns = Some(Columns::new(self.format.columns.iter().map(|(name, _)| name)))
        }
        /// Counts ranges in bytes instead of characters, as mainframe formats do: a Korean character then takes two.
        pub fn in_bytes(self) { self.format.counts_bytes = true }
    }
}

impl FixedWidth {
    fn split(&mut self, bytes: &[u8], encoding: Encoding) -> Result<&Fields, String> {
        let record = &mut self.fields.record;
        record.clear();
        if self.counts_bytes {
            for (name, range) in &self.columns {
                let field = bytes.get(range.clone());
                let field = field.ok_or_else(|| too_short(name, range, bytes.len(), "bytes"))?;
                record.push_field(encoding.decode(field)?.trim());
            }
            return Ok(&self.fields);
        }
        let text = encoding.decode(bytes)?;
        // Where each character begins, and the end; not needed for ASCII.
        let starts: Option<Vec<usize>> = (!text.is_ascii())
            .then(|| text.char_indices().map(|(start, _)| start).chain([text.len()]).collect());
        for (name, range) in &self.columns {
            let field = match &starts {
                None => text.get(range.clone()),
                Some(starts) => match (starts.get(range.start), starts.get(range.end)) {
                    (Some(start), Some(end)) => text.get(*start..*end),
                    _ => None,
                },
            };
            let field = field.ok_or_else(|| too_short(name, range, text.chars().count(), "characters"))?;
            record.push_field(field.trim());
        }
        Ok(&self.fields)
    }
}

fn too_short(name: &str, range: &Range<usize>, len: usize, unit: &str) -> String {
    format!("the line has {len} {unit}, but column {name:?} ends at {}", range.end)
}

impl Format for FixedWidth {
    type Scanner = LineScanner;

    fn refusal(&self) -> Option<String> {
        if self.columns.is_empty() {
            return Some("no column was named".to_owned());
        }
        let names = || self.fields.columns.as_ref()?.refusal();
        let empty = self.columns.iter().find(|(_, range)| range.is_empty()).map(|(name, range)| {
            format!(
                "column {name:?} has no characters: it begins at {} and ends at {}",
                range.start, range.end
            )
        });
        empty.or_else(names)
    }

    fn scanner(&mut self) -> &mut LineScanner {
        &mut self.scanner
    }

    fn typed<T: DeserializeOwned>(&mut self, bytes: &[u8], encoding: Encoding) -> Result<T, String> {
        self.split(bytes, encoding)?.typed()
    }

    fn row(&mut self, bytes: &[u8], encoding: Encoding) -> Result<Row, String> {
        self.split(bytes, encoding).map(Fields::row)
    }
}

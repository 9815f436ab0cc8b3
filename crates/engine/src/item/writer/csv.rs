//! Writing delimited files.

use super::file::{Beginning, FileWriter, Layout};
use csv::{QuoteStyle, Terminator, Writer, WriterBuilder};
use serde::Serialize;
use std::path::PathBuf;
use tidemill_domain::item::{ErrorKind, ItemError, Row};

/// Writes delimited files, with a header.
///
/// Column names are the field names of the first item. To write a header even without items, name the
/// [`columns`](FileWriter::columns).
///
/// ```
/// use serde::Serialize;
/// use tidemill_engine::item::CsvWriter;
///
/// #[derive(Serialize)]
/// struct Balance {
///     account: String,
///     amount: i64,
/// }
///
/// let writer = CsvWriter::<Balance>::new("balances", "out/balances.csv").delimiter(b';').overwrite();
/// ```
pub type CsvWriter<T> = FileWriter<CsvLines<T>>;

/// Items as delimited lines.
pub struct CsvLines<T> {
    delimiter: u8,
    quote: u8,
    quote_style: QuoteStyle,
    comment: Option<u8>,
    terminator: Terminator,
    header: Header,
    add: Add<T>,
}

impl<T> Clone for CsvLines<T> {
    fn clone(&self) -> Self {
        let Self { delimiter, quote, quote_style, comment, terminator, add, .. } = *self;
        Self { delimiter, quote, quote_style, comment, terminator, header: self.header.clone(), add }
    }
}

/// Adds items, after the header if it is required.
type Add<T> = fn(&[T], NamesOfItems, &mut Lines) -> Result<(), csv::Error>;

type Lines<'a> = Writer<&'a mut Vec<u8>>;

#[derive(Clone)]
enum Header {
    OfItems,
    Given(Vec<String>),
    None,
}

/// Whether a header is taken from the items now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NamesOfItems {
    First,
    Omitted,
}

impl<T: Serialize + Send + Sync + 'static> CsvWriter<T> {
    /// Writes a file. Its length is saved under `name`, which must be unique within the step.
    pub fn new(name: &str, path: impl Into<PathBuf>) -> Self {
        Self::of(name, path, CsvLines::new(add_typed))
    }
}

impl CsvWriter<Row> {
    /// Writes a file of rows. Null is an empty field; bytes are hexadecimal.
    pub fn rows(name: &str, path: impl Into<PathBuf>) -> Self {
        Self::of(name, path, CsvLines::new(add_rows))
    }
}

impl<T: Send + Sync + 'static> CsvWriter<T> {
    tidemill_domain::setters! {
        /// Field separator; a comma by default.
        pub fn delimiter(self, delimiter: u8) { self.layout.delimiter = delimiter }
        /// Quote character; `"` by default.
        pub fn quote(self, quote: u8) { self.layout.quote = quote }
        /// Never quotes, for readers that take quotes as text.
        pub fn no_quotes(self) { self.layout.quote_style = QuoteStyle::Never }
        /// Quotes a field that begins with this character, which readers would skip as a comment.
        pub fn comment(self, mark: u8) { self.layout.comment = Some(mark) }
        /// Writes no header.
        pub fn no_headers(self) { self.layout.header = Header::None }
        /// Names the columns, in the order of the fields. The header is written even without items.
        pub fn columns(self, names: impl IntoIterator<Item = impl Into<String>>) {
            self.layout.header = Header::Given(names.into_iter().map(Into::into).collect())
        }
        /// Ends lines with CRLF.
        pub fn crlf(self) { self.layout.terminator = Terminator::CRLF }
    }
}

impl<T> CsvLines<T> {
    fn new(add: Add<T>) -> Self {
        let (terminator, quote_style) = (Terminator::Any(b'\n'), QuoteStyle::Necessary);
        let (delimiter, quote, comment, header) = (b',', b'"', None, Header::OfItems);
        Self { delimiter, quote, quote_style, comment, terminator, header, add }
    }

    fn lines<'t>(&self, names: NamesOfItems, text: &'t mut Vec<u8>) -> Lines<'t> {
        WriterBuilder::new()
            .delimiter(self.delimiter)
            .quote(self.quote)
            .quote_style(self.quote_style)
            .comment(self.comment)
            .terminator(self.terminator)
            .has_headers(names == NamesOfItems::First)
            .from_writer(text)
    }

    fn write(&self, items: &[T], beginning: Beginning, text: &mut Vec<u8>) -> Result<(), csv::Error> {
        let names = match (beginning, &self.header) {
            (Beginning::OfFile, Header::OfItems) => NamesOfItems::First,
            _ => NamesOfItems::Omitted,
        };
        let mut lines = self.lines(names, text);
        if let (Beginning::OfFile, Header::Given(names)) = (beginning, &self.header) {
            lines.write_record(names)?;
        }
        (self.add)(items, names, &mut lines)?;
        Ok(lines.flush()?)
    }
}

// The csv crate takes the names from the first item.
fn add_typed<T: Serialize>(items: &[T], _: NamesOfItems, lines: &mut Lines<'_>) -> Result<(), csv::Error> {
    items.iter().try_for_each(|item| lines.serialize(item))
}

fn add_rows(rows: &[Row], names: NamesOfItems, lines: &mut Lines<'_>) -> Result<(), csv::Error> {
    if let (NamesOfItems::First, Some(row)) = (names, rows.first()) {
        lines.write_record(row.columns().iter())?;
    }
    rows.iter().try_for_each(|row| lines.write_record(row.values().iter().map(ToString::to_string)))
}

impl<T: Send + Sync + 'static> Layout for CsvLines<T> {
    type Item = T;

    fn add(&mut self, items: &[T], beginning: Beginning, text: &mut Vec<u8>) -> Result<(), ItemError> {
        self.write(items, beginning, text).map_err(|error| ItemError::of(ErrorKind::WRITE, error))
    }

    fn header(&self, columns: &[String], text: &mut Vec<u8>) -> Result<(), ItemError> {
        let mut lines = self.lines(NamesOfItems::Omitted, text);
        lines.write_record(columns)?;
        Ok(lines.flush()?)
    }
}

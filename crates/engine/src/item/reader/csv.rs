//! Reading delimited files.

use crate::item::Encoding;
use crate::item::reader::columns::{Columns, Fields};
use crate::item::reader::csv_scan::{CsvScanner, Style};
use crate::item::reader::file::{FileReader, Format};
use csv::StringRecord;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use tidemill_domain::item::Row;

/// Reads delimited files: one record per line (quoted fields may contain line ends), fields separated by a comma or
/// another [`delimiter`](FileReader::delimiter).
///
/// The first record names the columns, which items are built from. Two columns of the same name are refused. A record with more or fewer fields than columns is a
/// parse error; so is text after a closing quote. A quote that is never closed ends the step, because it is unknown how
/// much of the file it has swallowed. Empty lines are skipped.
///
/// ```
/// use serde::Deserialize;
/// use tidemill_engine::item::{CsvReader, Encoding};
///
/// #[derive(Deserialize)]
/// struct Payment {
///     account: String,
///     amount: i64,
///     memo: Option<String>,
/// }
///
/// let reader = CsvReader::<Payment>::new("payments", "in/payments.csv")
///     .delimiter(b';')
///     .encoding(Encoding::EucKr);
/// let rows = CsvReader::rows("anything", "in/anything.csv").empty_as_null();
/// ```
pub type CsvReader<T> = FileReader<Csv, T>;

/// The format of delimited files.
#[derive(Clone, Default)]
pub struct Csv {
    scanner: CsvScanner,
    header: Header,
    fields: Fields,
}

/// How the first record is used.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Header {
    /// It names the columns.
    #[default]
    Names,
    /// It names the columns, but other names were given.
    Ignored,
    /// It is data.
    None,
}

impl CsvReader<Row> {
    tidemill_domain::setters! {
        /// Reads empty fields as null instead of empty text.
        pub fn empty_as_null(self) { self.format.fields.empty_is_null = true }
    }
}

impl<T> CsvReader<T> {
    tidemill_domain::setters! {
        /// Field separator; a comma by default. Letters and digits are not allowed.
        pub fn delimiter(self, delimiter: u8) { self.format.scanner.delimiter = delimiter }
        /// Quote character; `"` by default. None treats quotes as text.
        pub fn quote(self, quote: impl Into<Option<u8>>) { self.format.scanner.quote = quote.into() }
        /// Skips lines that begin with this character.
        pub fn comment(self, mark: u8) { self.format.scanner.comment = Some(mark) }
        /// Trims white space around fields, but not inside quotes.
        pub fn trim(self) { self.format.scanner.is_trimming = true }
        /// Treats the first record as data. Without [`columns`](Self::columns), items are built by the order of the fields,
        /// and the columns of rows are named by number, from 1.
        pub fn no_headers(self) { self.format.header = Header::None }
        /// Names the columns, and treats the first record as data. If that is a header too, call
        /// [`has_headers`](Self::has_headers) after this.
        pub fn columns(self, names: impl IntoIterator<Item = impl Into<String>>) {
            self.format.header = Header::None;
            self.format.fields.columns = Some(Columns::new(names))
        }
        /// Treats the first record as a header; it is skipped if [`columns`](Self::columns) gave names.
        pub fn has_headers(self) {
            let has_columns = self.format.fields.columns.is_some();
            self.format.header = if has_columns { Header::Ignored } else { Header::Names }
        }
    }
}

impl Csv {
    /// Splits a record into one field per column.
    fn split_by_columns(&mut self, bytes: &[u8], encoding: Encoding) -> Result<&Fields, String> {
        self.split(bytes, encoding)?;
        let fields = self.fields.record.len();
        match self.fields.columns.as_ref().map(|columns| columns.shared.len()) {
            Some(columns) if columns != fields => {
                Err(format!("the record has {fields} fields, but there are {columns} columns"))
            }
            _ => Ok(&self.fields),
        }
    }

    fn split(&mut self, bytes: &[u8], encoding: Encoding) -> Result<(), String> {
        let (scanner, fields) = (&self.scanner, &mut self.fields.record);
        if let Some(fault) = scanner.fault() {
            return Err(fault.to_owned());
        }
        fields.clear();
        match encoding {
            Encoding::Utf8 => {
                let text = std::str::from_utf8(bytes).map_err(|_| encoding.refusal())?;
                for field in &scanner.fields {
                    push(fields, &text[field.start..field.end], field.style, scanner);
                }
            }
            Encoding::EucKr => {
                for field in &scanner.fields {
                    let text = encoding.decode(&bytes[field.start..field.end])?;
                    push(fields, &text, field.style, scanner);
                }
            }
        }
        Ok(())
    }
}

/// Adds a field, trimmed if required, and with doubled quotes made one.
fn push(fields: &mut StringRecord, text: &str, style: Style, scanner: &CsvScanner) {
    match (style, scanner.quote) {
        (Style::Plain, _) if scanner.is_trimming => fields.push_field(text.trim()),
        (Style::Doubled, Some(quote)) => {
            let quote = char::from(quote);
            fields.push_field(&text.replace(&format!("{quote}{quote}"), &quote.to_string()));
        }
        _ => fields.push_field(text),
    }
}

impl Format for Csv {
    type Scanner = CsvScanner;

    fn refusal(&self) -> Option<String> {
        let names = || self.fields.columns.as_ref().filter(|_| self.header != Header::Names)?.refusal();
        self.scanner.refusal().or_else(names)
    }

    fn scanner(&mut self) -> &mut CsvScanner {
        &mut self.scanner
    }

    fn has_header(&self) -> bool {
        self.header != Header::None
    }

    fn take_header(&mut self, bytes: &[u8], encoding: Encoding) -> Result<(), String> {
        self.split(bytes, encoding)?;
        if self.header == Header::Names {
            let columns = Columns::new(&self.fields.record);
            if let Some(refusal) = columns.refusal() {
                return Err(refusal);
            }
            self.fields.columns = Some(columns);
        }
        Ok(())
    }

    fn columns(&self) -> Option<Arc<[String]>> {
        let columns = self.fields.columns.as_ref().filter(|_| self.has_header());
        columns.map(|columns| columns.shared.clone())
    }

    fn typed<T: DeserializeOwned>(&mut self, bytes: &[u8], encoding: Encoding) -> Result<T, String> {
        self.split_by_columns(bytes, encoding)?.typed()
    }

    fn row(&mut self, bytes: &[u8], encoding: Encoding) -> Result<Row, String> {
        self.split_by_columns(bytes, encoding).map(Fields::row)
    }
}

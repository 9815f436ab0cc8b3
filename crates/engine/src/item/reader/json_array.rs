//! Reading JSON files that are one array. The file is read value by value, never as a whole.

use super::json_lines::Documents;
use crate::item::Encoding;
use crate::item::reader::file::{FileReader, Format};
use crate::item::reader::record::{Inside, Rest, Scan, Scanner};
use memchr::{memchr_iter, memchr2};
use serde::de::DeserializeOwned;
use tidemill_domain::item::Row;

/// Reads files that are a JSON array. Each value of the array is an item.
///
/// A value has at most 1 MiB and 127 levels. A value that is not valid JSON is a parse error, and the next one is read. A
/// missing comma or bracket ends the step, because it is unknown where the next value begins.
///
/// ```
/// use tidemill_engine::item::JsonReader;
///
/// let reader = JsonReader::<serde_json::Value>::new("orders", "in/orders.json");
/// ```
pub type JsonReader<T> = FileReader<JsonArray, T>;

/// The format of JSON arrays. As a row, a value is an object, whose keys are the columns.
#[derive(Clone, Default)]
pub struct JsonArray {
    scanner: ArrayScanner,
    documents: Documents,
}

impl Format for JsonArray {
    type Scanner = ArrayScanner;

    fn scanner(&mut self) -> &mut ArrayScanner {
        &mut self.scanner
    }

    fn typed<T: DeserializeOwned>(&mut self, bytes: &[u8], encoding: Encoding) -> Result<T, String> {
        self.documents.typed(bytes, encoding)
    }

    fn row(&mut self, bytes: &[u8], encoding: Encoding) -> Result<Row, String> {
        self.documents.row(bytes, encoding)
    }
}

/// Finds the values of an array. Between two scans it only remembers what may come next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ArrayScanner {
    /// The bracket that opens the array.
    #[default]
    Opening,
    /// A value, or the bracket that closes the array.
    First,
    /// A value, after a comma.
    Value,
    /// A comma, or the bracket that closes the array.
    Separator,
    /// Nothing.
    Closed,
}

impl Scanner for ArrayScanner {
    fn scan(&mut self, bytes: &[u8], rest: Rest) -> Scan {
        let blank = bytes.iter().take_while(|byte| is_blank(**byte)).count();
        if blank > 0 {
            return Scan::Blank { len: blank, lines: line_ends(&bytes[..blank]) };
        }
        let next = match (*self, bytes[0]) {
            (Self::Opening, b'[') => Self::First,
            (Self::Opening, _) => return Scan::Broken("it is not a JSON array: it does not begin with ["),
            (Self::First | Self::Separator, b']') => Self::Closed,
            (Self::Separator, b',') => Self::Value,
            (Self::Separator, _) => return Scan::Broken("there is no comma between two values"),
            (Self::Closed, _) => return Scan::Broken("there is text behind the end of the array"),
            (Self::First | Self::Value, b',' | b':' | b']' | b'}') => {
                return Scan::Broken("a value is missing in the array");
            }
            (Self::First | Self::Value, _) => {
                let Some(len) = value_len(bytes, rest) else { return Scan::Open(Inside::Value) };
                *self = Self::Separator;
                return Scan::Record { len, body: len, lines: line_ends(&bytes[..len]) };
            }
        };
        *self = next;
        Scan::Blank { len: 1, lines: 0 }
    }

    /// A position within the array is always behind a value.
    fn begin(&mut self, depth: Option<u64>) {
        *self = match depth {
            None => Self::Opening,
            Some(0) => Self::Closed,
            Some(_) => Self::Separator,
        }
    }

    fn depth(&self) -> u64 {
        u64::from(!matches!(self, Self::Opening | Self::Closed))
    }

    fn can_end_with(&self, byte: u8) -> bool {
        matches!(byte, b'}' | b']' | b'"') || byte.is_ascii_alphanumeric()
    }

    fn missing_at_end(&self) -> Option<&'static str> {
        (*self != Self::Closed).then_some("the file ends before the ] that closes the array")
    }
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn line_ends(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}

/// Length of the value that begins here; none if its end is not there.
fn value_len(bytes: &[u8], rest: Rest) -> Option<usize> {
    let mut depth: usize = 0;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at)?,
            b'{' | b'[' => (at, depth) = (at + 1, depth + 1),
            b'}' | b']' if depth > 0 => (at, depth) = (at + 1, depth - 1),
            byte if depth == 0 && (is_blank(byte) || matches!(byte, b',' | b']' | b'}')) => return Some(at),
            _ => {
                at += 1;
                continue;
            }
        }
        if depth == 0 {
            return Some(at);
        }
    }
    (depth == 0 && rest == Rest::None).then_some(at)
}

fn string_end(bytes: &[u8], quote: usize) -> Option<usize> {
    let mut at = quote + 1;
    loop {
        at += memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_cut_anywhere_is_the_same_once_the_rest_is_there() {
        for value in ["{\"a\":[1,\"]}\\\"\"],\"b\":{}}", "[[],[\"{\"]]", "\"a\\\\\"", "-12.5e3", "true"] {
            let bytes = format!("{value} ,");
            for cut in 1..value.len() {
                assert_eq!(value_len(&bytes.as_bytes()[..cut], Rest::Possible), None, "{value} cut at {cut}");
            }
            assert_eq!(value_len(bytes.as_bytes(), Rest::Possible), Some(value.len()), "{value}");
        }
    }

    #[test]
    fn deep_nesting_needs_no_stack() {
        let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));

        assert_eq!(value_len(deep.as_bytes(), Rest::None), Some(deep.len()));
    }
}

//! Where a record ends, in the bytes of a file.

use memchr::memchr;

/// Longest record, in bytes, so that a broken file cannot exhaust memory.
pub const RECORD_BYTES_MAX: usize = 1024 * 1024;

/// The result of scanning the beginning of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scan {
    /// What is between records: an empty line, a comment, a separator.
    Blank {
        /// Length, including the line end.
        len: usize,
        /// Number of line ends in it.
        lines: u64,
    },
    /// A record.
    Record {
        /// Length, including the line end.
        len: usize,
        /// Length without the line end.
        body: usize,
        /// Number of lines, or of line ends if records do not end with a line.
        lines: u64,
    },
    /// The record does not end in these bytes.
    Open(Inside),
    /// The file does not have the format, so it is unknown where the next record begins.
    Broken(&'static str),
}

/// What is not closed at the end of the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inside {
    /// A line: the next record begins at the next line.
    Line,
    /// Quotes: it is unknown where the next record begins. So it is in the others.
    Quotes,
    /// A JSON value.
    Value,
    /// An XML element, comment or other markup.
    Markup,
}

impl Inside {
    /// What has to be closed.
    pub(crate) const fn what(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Quotes => "quote that opens in the record",
            Self::Value => "JSON value",
            Self::Markup => "XML element",
        }
    }
}

/// Whether more bytes can follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// The file may go on.
    Possible,
    /// The file ends here.
    None,
}

/// Finds the ends of records.
pub trait Scanner: Clone + Send + 'static {
    /// Scans the beginning of `bytes`, which is not empty. With [`Rest::None`] only quotes can be open.
    fn scan(&mut self, bytes: &[u8], rest: Rest) -> Scan;

    /// Begins a file; with a depth, at a position that was saved together with it.
    fn begin(&mut self, depth: Option<u64>) {
        let _no_state = depth;
    }

    /// Number of brackets or elements that are open around the next record.
    fn depth(&self) -> u64 {
        0
    }

    /// Whether a record can end with this byte, or the line end after it.
    fn can_end_with(&self, byte: u8) -> bool {
        byte == b'\n'
    }

    /// Why the file cannot end here.
    fn missing_at_end(&self) -> Option<&'static str> {
        None
    }
}

/// Takes each line that is not blank as a record.
#[derive(Clone, Copy, Debug, Default)]
pub enum LineScanner {
    /// Blank means empty.
    #[default]
    Empty,
    /// Blank includes white space.
    Blank,
}

impl Scanner for LineScanner {
    fn scan(&mut self, bytes: &[u8], rest: Rest) -> Scan {
        let (len, body) = match memchr(b'\n', bytes) {
            Some(end) => (end + 1, without_return(&bytes[..end])),
            None if rest == Rest::None => (bytes.len(), without_return(bytes)),
            None => return Scan::Open(Inside::Line),
        };
        let line = match self {
            Self::Empty => &bytes[..body],
            Self::Blank => bytes[..body].trim_ascii(),
        };
        if line.is_empty() { Scan::Blank { len, lines: 1 } } else { Scan::Record { len, body, lines: 1 } }
    }
}

/// Length of a line without a carriage return at its end.
pub(crate) fn without_return(line: &[u8]) -> usize {
    line.strip_suffix(b"\r").unwrap_or(line).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_with_a_line_feed_or_with_the_file() {
        let mut lines = LineScanner::Empty;

        assert_eq!(lines.scan(b"ab\r\ncd", Rest::Possible), Scan::Record { len: 4, body: 2, lines: 1 });
        assert_eq!(lines.scan(b"cd", Rest::Possible), Scan::Open(Inside::Line));
        assert_eq!(lines.scan(b"cd", Rest::None), Scan::Record { len: 2, body: 2, lines: 1 });
        assert_eq!(lines.scan(b"\r\ncd", Rest::Possible), Scan::Blank { len: 2, lines: 1 });
        assert_eq!(lines.scan(b"  \n", Rest::Possible), Scan::Record { len: 3, body: 2, lines: 1 });
        assert_eq!(LineScanner::Blank.scan(b" \t\n", Rest::Possible), Scan::Blank { len: 3, lines: 1 });
    }
}

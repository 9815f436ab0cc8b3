//! Where a record ends, in the bytes of a file. Nothing is decoded here.

use memchr::memchr;

/// Longest record, in bytes. What is longer is an error, so that a broken file cannot eat up the memory.
pub const RECORD_BYTES_MAX: usize = 1024 * 1024;

/// What stands at the beginning of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scan {
    /// Something to pass over: an empty line, a comment.
    Blank {
        /// Its bytes, with the end of the line.
        len: usize,
    },
    /// A record.
    Record {
        /// Its bytes, with the end of the line.
        len: usize,
        /// Its bytes without that.
        body: usize,
        /// How many lines it takes.
        lines: u64,
    },
    /// The end of the record is not among these bytes.
    Open(Inside),
}

/// What the bytes end in the middle of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inside {
    /// A line: the next record begins at the next line.
    Line,
    /// Quotes: nobody knows where the next record begins.
    Quotes,
}

/// Whether more bytes can follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// Perhaps.
    Possible,
    /// No: the file ends here.
    None,
}

/// Finds the ends of records.
pub trait Scanner: Clone + Send + 'static {
    /// What stands at the beginning of `bytes`, of which there is at least one. Where no bytes can follow,
    /// only quotes can be open.
    fn scan(&mut self, bytes: &[u8], rest: Rest) -> Scan;
}

/// Takes each line for a record, except for blank ones.
#[derive(Clone, Copy, Debug)]
pub enum LineScanner {
    /// Blank is a line without characters.
    Empty,
    /// Blank is also a line of nothing but white space.
    Blank,
}

impl Scanner for LineScanner {
    fn scan(&mut self, bytes: &[u8], rest: Rest) -> Scan {
        match self {
            Self::Empty => scan_line(bytes, rest, |line| line.is_empty()),
            Self::Blank => scan_line(bytes, rest, |line| line.trim_ascii().is_empty()),
        }
    }
}

fn scan_line(bytes: &[u8], rest: Rest, is_blank: impl Fn(&[u8]) -> bool) -> Scan {
    let (len, body) = match memchr(b'\n', bytes) {
        Some(end) => (end + 1, without_return(&bytes[..end])),
        None if rest == Rest::None => (bytes.len(), without_return(bytes)),
        None => return Scan::Open(Inside::Line),
    };
    if is_blank(&bytes[..body]) { Scan::Blank { len } } else { Scan::Record { len, body, lines: 1 } }
}

/// How many bytes of a line are left without a carriage return at its end.
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
        assert_eq!(lines.scan(b"\r\ncd", Rest::Possible), Scan::Blank { len: 2 });
        assert_eq!(lines.scan(b"  \n", Rest::Possible), Scan::Record { len: 3, body: 2, lines: 1 });
        assert_eq!(LineScanner::Blank.scan(b" \t\n", Rest::Possible), Scan::Blank { len: 3 });
    }
}

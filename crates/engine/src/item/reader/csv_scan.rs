//! Finds the fields of a delimited record in one pass over its bytes.
//!
//! A field is quoted when it begins with the quote; inside, two quotes mean one, and delimiters and line ends are text.
//! A quote in the middle of a field is text too. Text after a closing quote is an error: it nearly always means that a
//! quote was not doubled.

use super::record::{Inside, Rest, Scan, Scanner, without_return};
use memchr::{memchr, memchr_iter, memchr2};

/// Finds fields. Those of the last record are kept until the next scan.
#[derive(Clone, Debug)]
pub struct CsvScanner {
    pub(crate) delimiter: u8,
    pub(crate) quote: Option<u8>,
    pub(crate) comment: Option<u8>,
    pub(crate) is_trimming: bool,
    pub(crate) fields: Vec<Field>,
    has_text_after_quote: bool,
}

/// Offsets within the record, and how the field is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Field {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) style: Style,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    Plain,
    /// In quotes, which are outside of the range.
    Quoted,
    Doubled,
}

enum End {
    Field(usize),
    Record(usize),
    Open(Inside),
}

impl Scanner for CsvScanner {
    fn scan(&mut self, bytes: &[u8], rest: Rest) -> Scan {
        self.fields.clear();
        self.has_text_after_quote = false;
        if let Some(blank) = self.blank(bytes, rest) {
            return blank;
        }
        let mut start = 0;
        let len = loop {
            match self.field(bytes, start, rest) {
                End::Field(next) => start = next,
                End::Record(len) => break len,
                End::Open(inside) => return Scan::Open(inside),
            }
        };
        let record = &bytes[..len];
        let body = record.strip_suffix(b"\n").map_or(len, without_return);
        // Only quotes can make a record longer than its line.
        let is_one_line = self.fields.iter().all(|field| field.style == Style::Plain);
        let lines = if is_one_line { 1 } else { 1 + memchr_iter(b'\n', &record[..body]).count() as u64 };
        Scan::Record { len, body, lines }
    }
}

impl Default for CsvScanner {
    fn default() -> Self {
        Self {
            delimiter: b',',
            quote: Some(b'"'),
            comment: None,
            is_trimming: false,
            fields: Vec::new(),
            has_text_after_quote: false,
        }
    }
}

impl CsvScanner {
    /// Why these special characters cannot work.
    pub(crate) fn refusal(&self) -> Option<String> {
        let special = [Some(self.delimiter), self.quote, self.comment];
        let chosen: Vec<u8> = special.into_iter().flatten().collect();
        // Letters and digits can be the second byte of a Korean character, other bytes part of any.
        let unfit =
            |byte: &&u8| !byte.is_ascii() || byte.is_ascii_alphanumeric() || matches!(**byte, b'\r' | b'\n');
        if let Some(byte) = chosen.iter().find(unfit) {
            let character = byte.escape_ascii();
            return Some(format!("'{character}' cannot be a delimiter, a quote or the mark of a comment"));
        }
        let is_repeated = (1..chosen.len()).any(|index| chosen[..index].contains(&chosen[index]));
        is_repeated.then(|| "delimiter, quote and the mark of comments must differ".to_owned())
    }

    pub(crate) fn fault(&self) -> Option<&'static str> {
        let fault = "there is text behind a closing quote; a quote inside a quoted field has to be doubled";
        self.has_text_after_quote.then_some(fault)
    }

    fn blank(&self, bytes: &[u8], rest: Rest) -> Option<Scan> {
        match bytes {
            [b'\n', ..] => Some(Scan::Blank { len: 1, lines: 1 }),
            [b'\r', b'\n', ..] => Some(Scan::Blank { len: 2, lines: 1 }),
            [b'\r'] if rest == Rest::None => Some(Scan::Blank { len: 1, lines: 1 }),
            [b'\r'] => Some(Scan::Open(Inside::Line)),
            [first, ..] if Some(*first) == self.comment => Some(match memchr(b'\n', bytes) {
                Some(end) => Scan::Blank { len: end + 1, lines: 1 },
                None if rest == Rest::None => Scan::Blank { len: bytes.len(), lines: 1 },
                None => Scan::Open(Inside::Line),
            }),
            _ => None,
        }
    }

    fn field(&mut self, bytes: &[u8], start: usize, rest: Rest) -> End {
        let first = self.past_spaces(bytes, start);
        match bytes.get(first) {
            Some(byte) if Some(*byte) == self.quote => self.quoted(bytes, first + 1, *byte, rest),
            _ => self.plain(bytes, start, rest),
        }
    }

    fn plain(&mut self, bytes: &[u8], start: usize, rest: Rest) -> End {
        let (end, after) = match memchr2(self.delimiter, b'\n', &bytes[start..]).map(|found| start + found) {
            Some(end) if bytes[end] == b'\n' => {
                (start + without_return(&bytes[start..end]), End::Record(end + 1))
            }
            Some(end) => (end, End::Field(end + 1)),
            None if rest == Rest::None => (start + without_return(&bytes[start..]), End::Record(bytes.len())),
            None => return End::Open(Inside::Line),
        };
        self.fields.push(Field { start, end, style: Style::Plain });
        after
    }

    fn quoted(&mut self, bytes: &[u8], start: usize, quote: u8, rest: Rest) -> End {
        let mut style = Style::Quoted;
        let mut from = start;
        let end = loop {
            let Some(found) = memchr(quote, &bytes[from..]).map(|found| from + found) else {
                return End::Open(Inside::Quotes);
            };
            match bytes.get(found + 1) {
                Some(next) if *next == quote => {
                    style = Style::Doubled;
                    from = found + 2;
                }
                // A second quote may be in the bytes that were not read yet.
                None if rest == Rest::Possible => return End::Open(Inside::Quotes),
                _ => break found,
            }
        };
        self.fields.push(Field { start, end, style });
        self.after_quote(bytes, end + 1, rest)
    }

    fn after_quote(&mut self, bytes: &[u8], closed: usize, rest: Rest) -> End {
        let next = self.past_spaces(bytes, closed);
        match &bytes[next..] {
            [byte, ..] if *byte == self.delimiter => End::Field(next + 1),
            [b'\n', ..] => End::Record(next + 1),
            [b'\r', b'\n', ..] => End::Record(next + 2),
            [] | [b'\r'] if rest == Rest::None => End::Record(bytes.len()),
            [] | [b'\r'] => End::Open(Inside::Line),
            _ => {
                self.has_text_after_quote = true;
                match memchr2(self.delimiter, b'\n', &bytes[next..]).map(|found| next + found) {
                    Some(end) if bytes[end] == b'\n' => End::Record(end + 1),
                    Some(end) => End::Field(end + 1),
                    None if rest == Rest::None => End::Record(bytes.len()),
                    None => End::Open(Inside::Line),
                }
            }
        }
    }

    /// The first position from `start` on that is not trimmed.
    fn past_spaces(&self, bytes: &[u8], start: usize) -> usize {
        if !self.is_trimming {
            return start;
        }
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t') && *byte != self.delimiter;
        start + bytes[start..].iter().take_while(|byte| is_space(byte)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(scanner: &mut CsvScanner, bytes: &str) -> (Scan, Vec<(String, Style)>) {
        let scan = scanner.scan(bytes.as_bytes(), Rest::None);
        let fields = scanner.fields.iter();
        (scan, fields.map(|field| (bytes[field.start..field.end].to_owned(), field.style)).collect())
    }

    #[test]
    fn quotes_keep_delimiters_and_line_ends_inside_a_field() {
        let (scan, fields) = texts(&mut CsvScanner::default(), "1,\"a,\r\nb\",\"say \"\"x\"\"\",\r\nnext");

        assert_eq!(scan, Scan::Record { len: 24, body: 22, lines: 2 });
        let expected = [
            ("1", Style::Plain),
            ("a,\r\nb", Style::Quoted),
            ("say \"\"x\"\"", Style::Doubled),
            ("", Style::Plain),
        ];
        assert_eq!(fields, expected.map(|(text, style)| (text.to_owned(), style)));
    }

    #[test]
    fn a_record_that_is_cut_anywhere_is_the_same_once_the_rest_is_there() {
        let bytes = "a,\"b\"\"\r\nc\" ,\"\"\r\n".as_bytes();
        let mut scanner = CsvScanner { is_trimming: true, ..CsvScanner::default() };
        let whole = scanner.scan(bytes, Rest::Possible);
        let fields = scanner.fields.to_vec();

        for cut in 1..bytes.len() {
            let part = scanner.scan(&bytes[..cut], Rest::Possible);
            assert!(matches!(part, Scan::Open(_)), "cut at {cut}: {part:?}");
        }

        assert_eq!(whole, Scan::Record { len: bytes.len(), body: bytes.len() - 2, lines: 2 });
        assert_eq!(fields.len(), 3);
    }

    #[test]
    fn text_behind_a_closing_quote_is_a_fault_and_ends_with_its_line() {
        let mut scanner = CsvScanner::default();

        let scan = scanner.scan(b"\"5\" pipe\",x\nnext\n", Rest::None);

        assert_eq!(scan, Scan::Record { len: 12, body: 11, lines: 1 });
        assert!(scanner.fault().is_some());
        scanner.scan(b"5\" pipe,x\n", Rest::None);
        assert_eq!(scanner.fault(), None, "a quote in the middle of a plain field is text");
    }

    #[test]
    fn a_quote_that_stays_open_is_told_from_a_line_that_does() {
        let mut scanner = CsvScanner::default();

        assert_eq!(scanner.scan(b"a,\"b\n", Rest::None), Scan::Open(Inside::Quotes));
        assert_eq!(scanner.scan(b"a,b", Rest::Possible), Scan::Open(Inside::Line));
    }

    #[test]
    fn letters_and_repeated_characters_are_refused() {
        let with = |delimiter, quote| CsvScanner { delimiter, quote, ..CsvScanner::default() }.refusal();

        assert_eq!(with(b';', Some(b'\'')), None);
        assert!(with(b'a', None).is_some() && with(0xa1, None).is_some() && with(b'\n', None).is_some());
        assert!(with(b'"', Some(b'"')).is_some());
    }
}

//! One open file: its unpacked bytes, cut into records, and the position of the next record.
//!
//! Positions count unpacked bytes, which do not depend on how the file was packed. A plain file is seeked; a packed one has
//! to be unpacked again up to the position.

use crate::item::compression::Unpacked;
use crate::item::reader::error::InputError;
use crate::item::reader::record::{Inside, RECORD_BYTES_MAX, Rest, Scan, Scanner};
use crate::item::{Compression, Encoding, Roots, Source, storage};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use tidemill_domain::item::{ErrorKind, ItemError};

const BUFFER_BYTES: usize = 256 * 1024;

/// How much of a record that is too long is shown.
const SHOWN_BYTES: usize = 256;

const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

pub(crate) struct Input {
    path: String,
    version: Option<String>,
    source: Unpacked,
    buffer: Vec<u8>,
    /// Start of the next record and end of the read bytes, within the buffer.
    start: usize,
    end: usize,
    /// Start of the next record, within the file.
    position: u64,
    /// Line of the next record, from 1.
    line: u64,
    rest: Rest,
}

/// How a file is opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opening {
    pub(crate) encoding: Encoding,
    /// None means by its first bytes, or else its name.
    pub(crate) compression: Option<Compression>,
    /// Folders that it must be in.
    pub(crate) roots: Option<Roots>,
    /// Lines before the header or the first record.
    pub(crate) skip_lines: u64,
}

/// Start of the next record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) position: u64,
    pub(crate) line: u64,
    /// As the scanner counts it.
    pub(crate) depth: u64,
}

/// A record in the buffer, valid until the next is cut.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    range: Range<usize>,
    pub(crate) line: u64,
}

impl Input {
    /// Opens a file, and skips a UTF-8 byte order mark and the first lines.
    pub(crate) fn open(path: &Path, opening: &Opening) -> Result<Self, InputError> {
        let shown = path.display().to_string();
        let cannot_open = |source| InputError::Open { path: shown.clone(), source };
        let mut file = Source::open(path, opening.roots.as_ref())?;
        let version = file.version().map(str::to_owned);
        let found = Compression::of_file(&mut file).map_err(cannot_open)?;
        let compression = opening.compression.unwrap_or_else(|| match found {
            Compression::None => Compression::of_name(path),
            found => found,
        });
        let source = Unpacked::new(file, compression).map_err(cannot_open)?;
        let buffer = vec![0; BUFFER_BYTES];
        let mut input = Self {
            path: shown,
            version,
            source,
            buffer,
            start: 0,
            end: 0,
            position: 0,
            line: 1,
            rest: Rest::Possible,
        };
        input.fill()?;
        match &input.buffer[..input.end] {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => return Err(InputError::Utf16 { path: input.path }),
            bytes if opening.encoding == Encoding::Utf8 && bytes.starts_with(&BYTE_ORDER_MARK) => {
                input.pass(BYTE_ORDER_MARK.len(), 0);
            }
            _ => {}
        }
        for _ in 0..opening.skip_lines {
            input.drop_line()?;
        }
        Ok(input)
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The version of an object.
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    pub(crate) fn place(&self, scanner: &impl Scanner) -> Place {
        Place { position: self.position, line: self.line, depth: scanner.depth() }
    }

    /// Goes to where an earlier run stopped, which must not be before the current position.
    pub(crate) fn go_to(&mut self, place: Place, scanner: &mut impl Scanner) -> Result<(), InputError> {
        let Some(behind) = place.position.checked_sub(self.position) else {
            return Err(InputError::Changed { path: self.path.clone(), position: place.position });
        };
        if behind == 0 {
            self.line = place.line;
            return Ok(());
        }
        scanner.begin(Some(place.depth));
        // One byte less, because that byte must end a record.
        match &mut self.source {
            Unpacked::Plain(file) if behind > (self.end - self.start) as u64 => {
                let before = SeekFrom::Start(place.position - 1);
                file.seek(before).map_err(|source| cannot_read(&self.path, source))?;
                (self.start, self.end, self.rest) = (0, 0, Rest::Possible);
                self.position = place.position - 1;
            }
            _ => self.drop_before(place.position)?,
        }
        self.fill()?;
        let Some(before) = self.bytes_left().first().copied() else {
            return Err(InputError::Shrunk { path: self.path.clone(), position: place.position });
        };
        self.pass(1, 0);
        self.line = place.line;
        if !scanner.can_end_with(before) && !self.is_at_end()? {
            return Err(InputError::Changed { path: self.path.clone(), position: place.position });
        }
        Ok(())
    }

    pub(crate) fn is_at_end(&mut self) -> Result<bool, InputError> {
        self.fill()?;
        Ok(self.start == self.end)
    }

    /// Cuts off the next record; none at the end. After the error of a record that is too long, the next call goes on.
    pub(crate) fn cut(&mut self, scanner: &mut impl Scanner) -> Result<Option<Cut>, ItemError> {
        loop {
            if self.start == self.end {
                self.fill().map_err(ItemError::fatal)?;
                if self.start == self.end {
                    let Some(reason) = scanner.missing_at_end() else { return Ok(None) };
                    return Err(self.broken(reason));
                }
            }
            match scanner.scan(&self.buffer[self.start..self.end], self.rest) {
                Scan::Blank { len, lines } => self.pass(len, lines),
                Scan::Record { len, body, lines } => {
                    let cut = Cut { range: self.start..self.start + body, line: self.line };
                    self.pass(len, lines);
                    if body > RECORD_BYTES_MAX {
                        return Err(self.too_long(&cut));
                    }
                    return Ok(Some(cut));
                }
                Scan::Open(inside) => self.extend(inside)?,
                Scan::Broken(reason) => return Err(self.broken(reason)),
            }
        }
    }

    pub(crate) fn bytes(&self, cut: &Cut) -> &[u8] {
        &self.buffer[cut.range.clone()]
    }

    pub(crate) fn place_of(&self, cut: &Cut) -> String {
        format!("{} line {}", self.path, cut.line)
    }

    /// Reads more, because the record does not end in the buffer.
    fn extend(&mut self, inside: Inside) -> Result<(), ItemError> {
        let is_too_long = self.end - self.start > RECORD_BYTES_MAX;
        if inside != Inside::Line && (is_too_long || self.rest == Rest::None) {
            let (what, path) = (inside.what(), self.path.clone());
            let error = InputError::NotClosed { what, path, line: self.line, max: RECORD_BYTES_MAX };
            return Err(ItemError::fatal(error));
        }
        if !is_too_long {
            return self.fill_more().map_err(ItemError::fatal);
        }
        let cut = Cut { range: self.start..self.end, line: self.line };
        let error = self.too_long(&cut);
        self.drop_line().map_err(ItemError::fatal)?;
        Err(error)
    }

    fn broken(&self, reason: &'static str) -> ItemError {
        ItemError::fatal(InputError::Broken { path: self.path.clone(), line: self.line, reason })
    }

    fn too_long(&self, cut: &Cut) -> ItemError {
        let bytes = self.bytes(cut);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]);
        let message = format!("the record is longer than {RECORD_BYTES_MAX} bytes");
        ItemError::new(ErrorKind::PARSE, message).at(self.place_of(cut), format!("{shown}…"))
    }

    fn drop_line(&mut self) -> Result<(), InputError> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', self.bytes_left()) {
                self.pass(end + 1, 1);
                return Ok(());
            }
            self.pass(self.end - self.start, 0);
            if self.is_at_end()? {
                return Ok(());
            }
        }
    }

    /// Drops all but one byte before a position.
    fn drop_before(&mut self, position: u64) -> Result<(), InputError> {
        while self.position + 1 < position {
            if self.is_at_end()? {
                return Err(InputError::Shrunk { path: self.path.clone(), position });
            }
            let wanted = usize::try_from(position - 1 - self.position).unwrap_or(usize::MAX);
            self.pass(wanted.min(self.end - self.start), 0);
        }
        Ok(())
    }

    fn bytes_left(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn pass(&mut self, len: usize, lines: u64) {
        self.start += len;
        self.position += len as u64;
        self.line += lines;
    }

    fn fill(&mut self) -> Result<(), InputError> {
        if self.start == self.end { self.fill_more() } else { Ok(()) }
    }

    /// Reads until the buffer is full or the file ends; makes room first, and grows the buffer if there is none.
    fn fill_more(&mut self) -> Result<(), InputError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let room = &mut self.buffer[self.end..];
        let wanted = room.len();
        let got = read_full(&mut self.source, room).map_err(|source| cannot_read(&self.path, source))?;
        self.end += got;
        if got < wanted {
            self.rest = Rest::None;
        }
        Ok(())
    }
}

fn cannot_read(path: &str, source: io::Error) -> InputError {
    match storage::url(Path::new(path)) {
        Some(_) => InputError::ReadObject { path: path.to_owned(), source },
        None => InputError::Read { path: path.to_owned(), source },
    }
}

fn read_full(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match from.read(&mut buffer[done..]) {
            Ok(0) => break,
            Ok(got) => done += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::reader::record::LineScanner;

    #[test]
    fn a_record_that_is_too_long_does_not_eat_up_the_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.txt");
        std::fs::write(&path, format!("{}\nnext\n", "x".repeat(8 * RECORD_BYTES_MAX))).unwrap();
        let mut input = Input::open(&path, &Opening::default()).unwrap();

        let too_long = input.cut(&mut LineScanner::Empty).unwrap_err();
        let next = input.cut(&mut LineScanner::Empty).unwrap().unwrap();

        let origin = too_long.origin().unwrap();
        assert!(origin.raw.len() < 2 * SHOWN_BYTES && origin.place.ends_with("line 1"));
        assert_eq!((input.bytes(&next), input.place_of(&next).ends_with("line 2")), (&b"next"[..], true));
        assert!(input.buffer.len() <= 2 * RECORD_BYTES_MAX, "{} bytes", input.buffer.len());
    }
}

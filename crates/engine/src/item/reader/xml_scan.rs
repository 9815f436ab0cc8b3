//! Finds the elements of an XML file that are records. Outside of them only the number of open elements is kept.

use super::record::{Inside, Rest, Scan, Scanner};
use memchr::memchr_iter;
use quick_xml::errors::{Error, IllFormedError};
use quick_xml::events::Event;
use quick_xml::name::QName;
use quick_xml::reader::Reader;

/// Finds records by the name of their element, at any depth.
#[derive(Clone, Debug, Default)]
pub struct XmlScanner {
    /// With a prefix, or without to accept any.
    pub(crate) record: String,
    depth: u64,
    has_root: bool,
}

impl XmlScanner {
    fn is_record(&self, name: QName<'_>) -> bool {
        let record = self.record.as_bytes();
        name.into_inner() == record || name.local_name().into_inner() == record
    }

    /// The next event, and how many bytes it takes.
    fn event(&self, bytes: &[u8]) -> Result<(Found, usize), Error> {
        let mut reader = Reader::from_reader(bytes);
        let config = reader.config_mut();
        config.allow_unmatched_ends = true;
        config.allow_dangling_amp = true;
        let found = match reader.read_event()? {
            Event::Start(tag) if self.is_record(tag.name()) => {
                reader.read_to_end(tag.name())?;
                Found::Record
            }
            Event::Empty(tag) if self.is_record(tag.name()) => Found::Record,
            Event::Start(_) => Found::Start,
            Event::Empty(_) => Found::Empty,
            Event::End(_) => Found::End,
            Event::Text(text) if text.trim_ascii().is_empty() => Found::Other,
            Event::Text(_) | Event::CData(_) | Event::GeneralRef(_) => Found::Text,
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) | Event::Eof => {
                Found::Other
            }
        };
        let len = usize::try_from(reader.buffer_position()).unwrap_or(bytes.len());
        Ok((found, len.clamp(1, bytes.len())))
    }
}

enum Found {
    Record,
    Start,
    Empty,
    End,
    Text,
    /// Blanks, comments and the like.
    Other,
}

impl Scanner for XmlScanner {
    fn scan(&mut self, bytes: &[u8], _: Rest) -> Scan {
        let (found, len) = match self.event(bytes) {
            Ok(found) => found,
            // The rest is not there yet; or never will be, which the caller finds out.
            Err(Error::Syntax(_) | Error::IllFormed(IllFormedError::MissingEndTag(_))) => {
                return Scan::Open(Inside::Markup);
            }
            Err(Error::IllFormed(IllFormedError::MismatchedEndTag { .. })) => {
                return Scan::Broken("an end tag does not match its start tag");
            }
            Err(_) => return Scan::Broken("it is not well-formed XML"),
        };
        let lines = memchr_iter(b'\n', &bytes[..len]).count() as u64;
        let is_outside = self.depth == 0;
        match found {
            Found::Record | Found::Start | Found::Empty if is_outside && self.has_root => {
                return Scan::Broken("there is an element behind the end of the root element");
            }
            Found::Text if is_outside => return Scan::Broken("there is text outside of the root element"),
            Found::End if is_outside => return Scan::Broken("there is an end tag without a start tag"),
            Found::Record => {
                self.has_root = true;
                return Scan::Record { len, body: len, lines };
            }
            Found::Start => (self.has_root, self.depth) = (true, self.depth + 1),
            Found::Empty => self.has_root = true,
            Found::End => self.depth -= 1,
            Found::Text | Found::Other => {}
        }
        Scan::Blank { len, lines }
    }

    fn begin(&mut self, depth: Option<u64>) {
        (self.has_root, self.depth) = (depth.is_some(), depth.unwrap_or(0));
    }

    fn depth(&self) -> u64 {
        self.depth
    }

    fn can_end_with(&self, byte: u8) -> bool {
        byte == b'>'
    }

    fn missing_at_end(&self) -> Option<&'static str> {
        match (self.has_root, self.depth) {
            (false, _) => Some("there is no element"),
            (true, 0) => None,
            (true, _) => Some("the file ends before the end tag of its root element"),
        }
    }
}

//! The bytes of a Parquet file, for its library. The header of each page is checked before the library allocates what it
//! declares.

use crate::size::{has_room, unpacked_max};
use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use tidemill_engine::item::Source;

/// The footer's length and four letters.
const TAIL: u64 = 8;

pub(crate) struct Chunks(pub(crate) Source);

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.0.size().unwrap_or(0)
    }
}

impl ChunkReader for Chunks {
    type T = PageHeader;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let mut source = self.0.clone();
        source.seek(SeekFrom::Start(start))?;
        // Everything but the end of the file is read in this way only if it is the header of a page.
        let is_checked = self.len().saturating_sub(start) <= TAIL;
        Ok(PageHeader { source: BufReader::new(source), is_checked })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.len()) {
            return Err(ParquetError::EOF(format!(
                "{length} bytes from {start} are declared, which it does not have"
            )));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|error| ParquetError::General(error.to_string()))?;
        let mut source = self.0.clone();
        source.seek(SeekFrom::Start(start))?;
        if source.take(length as u64).read_to_end(&mut bytes)? < length {
            return Err(ParquetError::EOF("it became shorter while it was read".to_owned()));
        }
        Ok(bytes.into())
    }
}

/// Fails in the first read if the sizes of the page are impossible.
pub(crate) struct PageHeader {
    source: BufReader<Source>,
    is_checked: bool,
}

impl Read for PageHeader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !std::mem::replace(&mut self.is_checked, true)
            && is_impossible(self.source.fill_buf()?) == Some(true)
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a page declares more than it can become",
            ));
        }
        self.source.read(buffer)
    }
}

/// What the library finds malformed itself is nothing.
fn is_impossible(header: &[u8]) -> Option<bool> {
    let mut fields = Fields { bytes: header, last: 0 };
    let sizes = [fields.number(1)?, fields.number(2)?, fields.number(3)?];
    let [_, unpacked, packed] = sizes.map(|number| u64::try_from(number).ok());
    let (unpacked, packed) = (unpacked?, usize::try_from(packed?).ok()?);
    Some(
        unpacked > unpacked_max(packed) || !has_room(unpacked) || fields.dictionary_values() > Some(unpacked),
    )
}

/// The fields of a struct in Thrift's compact protocol.
struct Fields<'a> {
    bytes: &'a [u8],
    last: u8,
}

impl Fields<'_> {
    const INT: u8 = 5;
    const STRUCT: u8 = 12;

    /// The number and the type of the next field.
    fn next(&mut self) -> Option<(u8, u8)> {
        let (&head, rest) = self.bytes.split_first()?;
        let step = head >> 4;
        // A large step has its own number, which no header of a page needs.
        if step == 0 {
            return None;
        }
        (self.bytes, self.last) = (rest, self.last.checked_add(step)?);
        Some((self.last, head & 15))
    }

    fn int(&mut self) -> Option<i64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed());
            }
        }
        None
    }

    fn number(&mut self, field: u8) -> Option<i64> {
        (self.next()? == (field, Self::INT)).then(|| self.int())?
    }

    /// The number of values, if it is the page of a dictionary. Each has at least one byte.
    fn dictionary_values(&mut self) -> Option<u64> {
        let mut field = self.next()?;
        // The checksum.
        if field == (4, Self::INT) {
            self.int()?;
            field = self.next()?;
        }
        if field != (7, Self::STRUCT) {
            return None;
        }
        self.last = 0;
        u64::try_from(self.number(1)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a dictionary, with a checksum: unpacked, packed, values.
    fn header(numbers: [i32; 3]) -> Vec<u8> {
        let zigzag = |number: i32| {
            let (mut rest, mut bytes) = (((number << 1) ^ (number >> 31)).cast_unsigned(), Vec::new());
            while rest >= 0x80 {
                bytes.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
                rest >>= 7;
            }
            bytes.push(u8::try_from(rest).unwrap());
            bytes
        };
        let [unpacked, packed, values] = numbers.map(zigzag);
        let field = |head: u8, number: Vec<u8>| [vec![head], number].concat();
        [
            field(0x15, zigzag(2)),
            field(0x15, unpacked),
            field(0x15, packed),
            field(0x15, zigzag(-9)),
            field(0x3c, vec![]),
            field(0x15, values),
        ]
        .concat()
    }

    #[test]
    fn a_page_that_can_be_is_let_through_and_one_that_cannot_is_not() {
        assert_eq!(is_impossible(&header([4000, 1000, 500])), Some(false));
        assert_eq!(is_impossible(&header([64 << 20, 10, 500])), Some(false));
        assert_eq!(is_impossible(&header([i32::MAX, 1000, 500])), Some(true));
        assert_eq!(is_impossible(&header([4000, 1000, 4001])), Some(true));
        assert_eq!(is_impossible(&header([-1, 1000, 1])), None);
        let cut = header([i32::MAX, 1000, 500]);
        assert_eq!(is_impossible(&cut[..5]), None);
        assert_eq!(is_impossible(b"PAR1"), None);
    }
}

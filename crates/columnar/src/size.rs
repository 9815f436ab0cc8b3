//! Whether sizes that a file declares are possible, before anything of that size is allocated: a failed allocation would end
//! the process, with all of its jobs.

use arrow_schema::ArrowError;
use std::io::Read;

/// What a few bytes may become: a page or a block of one value that is repeated.
const ALWAYS: u64 = 64 << 20;

/// How many bytes one packed byte can become. No more with lz4 or snappy; with gzip and zstd only in data that is all the
/// same.
const RATIO: u64 = 255;

/// The maximum of a frame of zstd: each of its blocks is 128 KiB from 4 bytes or more.
const ZSTD_RATIO: u64 = 32 << 10;

/// The most bytes that a page or a block of so many bytes can become.
pub(crate) fn unpacked_max(packed: usize) -> u64 {
    (packed as u64).saturating_mul(RATIO).saturating_add(ALWAYS)
}

/// Whether these bytes of zstd can become so many. Most frames have their own size.
pub(crate) fn is_zstd_of(packed: &[u8], unpacked: u64) -> bool {
    let max = (packed.len() as u64).saturating_mul(ZSTD_RATIO).saturating_add(ZSTD_RATIO);
    unpacked <= max
        && match zstd::zstd_safe::get_frame_content_size(packed) {
            Ok(size) => size.is_none_or(|size| size == unpacked),
            Err(_) => false,
        }
}

/// Whether so many bytes can be had now.
pub(crate) fn has_room(bytes: u64) -> bool {
    bytes <= ALWAYS
        || usize::try_from(bytes).is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok())
}

/// Exactly so many bytes, after those that are there.
pub(crate) fn append(source: impl Read, count: u64, bytes: &mut Vec<u8>) -> Result<(), ArrowError> {
    let missing = || damaged("it has less than it declares");
    bytes
        .try_reserve_exact(usize::try_from(count).map_err(|_| missing())?)
        .map_err(|error| damaged(&error.to_string()))?;
    match source.take(count).read_to_end(bytes)? as u64 {
        got if got == count => Ok(()),
        _ => Err(missing()),
    }
}

pub(crate) fn damaged(text: &str) -> ArrowError {
    ArrowError::ParseError(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_zstd_becomes_what_it_says() {
        let text = vec![7; 1 << 20];
        let packed = zstd::bulk::compress(&text, 1).unwrap();

        assert!(is_zstd_of(&packed, 1 << 20), "{} bytes", packed.len());
        assert!(!is_zstd_of(&packed, (1 << 20) + 1));
        assert!(!is_zstd_of(b"no frame", 8));
    }

    #[test]
    fn a_frame_of_zstd_without_a_size_becomes_at_most_so_much() {
        let mut stream = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        std::io::Write::write_all(&mut stream, &[7; 1 << 20]).unwrap();
        let packed = stream.finish().unwrap();

        assert!(is_zstd_of(&packed, 1 << 20));
        assert!(!is_zstd_of(&packed, 1 << 40));
    }

    #[test]
    fn more_than_there_is_cannot_be_had() {
        assert!(has_room(1 << 20));
        assert!(!has_room(1 << 62));
        assert!(append(&b"abc"[..], 4, &mut Vec::new()).is_err());
        assert!(append(&b"abc"[..], u64::MAX, &mut Vec::new()).is_err());
    }
}

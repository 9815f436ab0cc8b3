//! Packed files: gzip and zstd.
//!
//! A writer packs each chunk as a whole gzip member or zstd frame. So the file can be truncated to any committed chunk and
//! continued, and it is valid at every commit: the standard programs unpack all members one after the other.

use super::Source;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// How many bytes tell how a file is packed.
const MAGIC_BYTES: usize = ZSTD_MAGIC.len();

tidemill_domain::words! {
    /// How a file is packed.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum Compression {
        /// Not packed.
        #[default]
        None = "none",
        /// Gzip, as of `.gz` files.
        Gzip = "gzip",
        /// Zstandard, as of `.zst` files.
        Zstd = "zstd",
    }
}

impl Compression {
    /// By the ending of a name: `.gz` or `.zst`.
    ///
    /// ```
    /// # use tidemill_engine::item::Compression;
    /// assert_eq!(Compression::of_name("in/a.csv.GZ".as_ref()), Compression::Gzip);
    /// assert_eq!(Compression::of_name("in/a.csv".as_ref()), Compression::None);
    /// ```
    pub fn of_name(path: &Path) -> Self {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        match ending.as_deref() {
            Some("gz") => Self::Gzip,
            Some("zst") => Self::Zstd,
            _ => Self::None,
        }
    }

    /// By the first bytes of a file, which is then at its beginning again.
    pub(crate) fn of_file(file: &mut Source) -> io::Result<Self> {
        let mut start = Vec::with_capacity(MAGIC_BYTES);
        file.by_ref().take(MAGIC_BYTES as u64).read_to_end(&mut start)?;
        file.rewind()?;
        Ok(Self::of_start(&start))
    }

    fn of_start(bytes: &[u8]) -> Self {
        match bytes {
            _ if bytes.starts_with(&GZIP_MAGIC) => Self::Gzip,
            _ if bytes.starts_with(&ZSTD_MAGIC) => Self::Zstd,
            _ => Self::None,
        }
    }

    /// Packs bytes as a whole member or frame.
    pub(crate) fn pack(self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::None => Ok(bytes.to_vec()),
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(bytes)?;
                encoder.finish()
            }
            Self::Zstd => {
                let mut encoder = zstd::Encoder::new(Vec::new(), zstd::DEFAULT_COMPRESSION_LEVEL)?;
                encoder.include_checksum(true)?;
                encoder.write_all(bytes)?;
                encoder.finish()
            }
        }
    }
}

/// The unpacked bytes of a file. Only a file that is not packed can be seeked.
pub(crate) enum Unpacked {
    Plain(Source),
    Gzip(Box<MultiGzDecoder<Source>>),
    Zstd(Box<zstd::Decoder<'static, io::BufReader<Source>>>),
}

impl Unpacked {
    pub(crate) fn new(file: Source, compression: Compression) -> io::Result<Self> {
        Ok(match compression {
            Compression::None => Self::Plain(file),
            Compression::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(file))),
            Compression::Zstd => Self::Zstd(Box::new(zstd::Decoder::new(file)?)),
        })
    }
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_file_is_known_by_its_first_bytes() {
        for compression in Compression::ALL {
            let packed = compression.pack(b"id,name\n").unwrap();

            assert_eq!(Compression::of_start(&packed[..MAGIC_BYTES]), compression);
        }
        assert_eq!(Compression::of_start(b""), Compression::None);
    }
}

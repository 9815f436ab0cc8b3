//! The bytes of an input file, wherever it is stored.

use super::reader::error::InputError;
use super::{Roots, RootsError, storage};
use crate::system;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use tidemill_domain::item::ItemError;

/// Bytes that can be read from any position.
pub trait ReadAt: Send + Sync + 'static {
    /// Number of bytes.
    fn size(&self) -> io::Result<u64>;

    /// A text that changes when the bytes do; none if that is not known, as of a local file.
    fn version(&self) -> Option<&str> {
        None
    }

    /// Reads bytes at an offset; 0 at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Tells from how many places reads will go on at the same time.
    fn expect_places(&self, places: usize) {
        let _not_read_ahead = places;
    }
}

impl ReadAt for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        system::read_at(self, buffer, offset)
    }
}

/// An open input file. Clones read independently of each other.
#[derive(Clone)]
pub struct Source {
    bytes: Arc<dyn ReadAt>,
    position: u64,
}

impl Source {
    /// Reads these bytes from their beginning.
    pub fn new(bytes: impl ReadAt) -> Self {
        Self { bytes: Arc::new(bytes), position: 0 }
    }

    /// Number of bytes.
    pub fn size(&self) -> io::Result<u64> {
        self.bytes.size()
    }

    /// The version of an object, which changes when it is replaced; none for a local file.
    pub fn version(&self) -> Option<&str> {
        self.bytes.version()
    }

    /// Tells from how many places the clones will read at the same time, so that an object is not read ahead in vain.
    pub fn expect_places(&self, places: usize) {
        self.bytes.expect_places(places);
    }

    /// Opens a file, which must be in the roots if there are any. May block.
    pub fn at(path: &Path, roots: Option<&Roots>) -> Result<Self, ItemError> {
        Self::open(path, roots).map_err(InputError::ending)
    }

    pub(crate) fn open(path: &Path, roots: Option<&Roots>) -> Result<Self, InputError> {
        let cannot_open = |source| InputError::Open { path: path.display().to_string(), source };
        let real = roots.map(|roots| roots.existing(path)).transpose().map_err(|error| match error {
            RootsError::Unresolved { source, .. } => cannot_open(source),
            outside => InputError::Outside(outside),
        })?;
        if let Some(url) = storage::url(path) {
            return storage::installed().and_then(|storage| storage.open(url)).map_err(cannot_open);
        }
        let file = File::open(real.as_deref().unwrap_or(path)).map_err(cannot_open)?;
        if file.metadata().map_err(cannot_open)?.is_dir() {
            return Err(cannot_open(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        Ok(Self::new(file))
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.bytes.read_at(buffer, self.position)?;
        self.position += got as u64;
        Ok(got)
    }
}

impl Seek for Source {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let found = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(offset) => self.size()?.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = found.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

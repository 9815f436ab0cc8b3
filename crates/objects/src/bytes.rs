//! Parts of an object, read in blocks. The last blocks stay in memory, because readers of columns go back and forth.

use crate::wait::wait;
use ::bytes::Bytes;
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tidemill_engine::item::ReadAt;

const BLOCK_BYTES: u64 = 2 * 1024 * 1024;

/// A block of a reader that reads from many places.
const BLOCK_BYTES_MIN: u64 = 64 * 1024;

const BLOCKS_KEPT: usize = 12;

pub(crate) struct ObjectBytes {
    store: Arc<dyn ObjectStore>,
    path: Path,
    size: u64,
    /// The object must stay the same while it is read.
    version: Option<String>,
    blocks: Mutex<Blocks>,
}

struct Blocks {
    bytes: u64,
    max: usize,
    /// The last one was used last.
    kept: Vec<(u64, Bytes)>,
}

impl ObjectBytes {
    pub(crate) fn new(
        store: Arc<dyn ObjectStore>,
        path: Path,
        (size, version): (u64, Option<String>),
    ) -> Self {
        let blocks = Blocks { bytes: BLOCK_BYTES, max: BLOCKS_KEPT, kept: Vec::new() };
        Self { store, path, size, version, blocks: Mutex::new(blocks) }
    }

    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The block that has the byte at an offset, from that byte on.
    fn block(&self, offset: u64) -> io::Result<Bytes> {
        let mut blocks = self.blocks();
        let start = offset - offset % blocks.bytes;
        let bytes = match blocks.kept.iter().position(|(known, _)| *known == start) {
            Some(index) => blocks.kept.remove(index).1,
            None => {
                let range = start..self.size.min(start + blocks.bytes);
                let options = GetOptions::new().with_range(Some(range)).with_if_match(self.version.clone());
                let (store, path) = (self.store.clone(), self.path.clone());
                wait(async move { store.get_opts(&path, options).await?.bytes().await })?
            }
        };
        blocks.kept.push((start, bytes.clone()));
        if blocks.kept.len() > blocks.max {
            blocks.kept.remove(0);
        }
        let from = usize::try_from(offset - start).map_err(io::Error::other)?;
        Ok(bytes.slice(from.min(bytes.len())..))
    }
}

impl ReadAt for ObjectBytes {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset >= self.size || buffer.is_empty() {
            return Ok(0);
        }
        let rest = self.block(offset)?;
        if rest.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    /// Each place has a block of its own. A small object is kept as a whole anyway.
    fn expect_places(&self, places: usize) {
        let kept_bytes = BLOCKS_KEPT as u64 * BLOCK_BYTES;
        if places > BLOCKS_KEPT && self.size > kept_bytes {
            let bytes = (kept_bytes / places as u64).clamp(BLOCK_BYTES_MIN, BLOCK_BYTES);
            *self.blocks() = Blocks { bytes, max: places + 1, kept: Vec::new() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;
    use object_store::{ObjectStoreExt, PutPayload};

    #[test]
    fn each_of_many_columns_has_a_block_of_its_own() {
        let (store, path) = (Arc::new(InMemory::new()), Path::from("in"));
        let content: Vec<u8> = (0..30_u32 * 1024 * 1024 / 4).flat_map(u32::to_le_bytes).collect();
        let (size, payload) = (content.len() as u64, PutPayload::from(content.clone()));
        let (place, key) = (store.clone(), path.clone());
        wait(async move { place.put(&key, payload).await }).unwrap();
        let object = ObjectBytes::new(store, path, (size, None));

        object.expect_places(100);
        for step in 0..3 {
            for column in 0..100 {
                let (mut buffer, offset) = ([0; 1000], column * 300_000 + step * 1000);
                let got = object.read_at(&mut buffer, offset).unwrap();
                let from = usize::try_from(offset).unwrap();
                assert_eq!(buffer[..got], content[from..from + got]);
            }
        }

        let blocks = object.blocks();
        let is_kept = |place: u64| {
            blocks.kept.iter().any(|(start, bytes)| (*start..start + bytes.len() as u64).contains(&place))
        };
        assert!((0..100).all(|column| is_kept(column * 300_000 + 2000)));
        let kept: usize = blocks.kept.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(blocks.kept.len() <= 101 && kept <= 26 * 1024 * 1024, "{kept}");
    }
}

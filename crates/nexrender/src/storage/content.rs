//! Reads, hashes and copies files.

use super::errno::io_trouble;
use crate::blocking_pool::Pulse;
use rustix::fs::{Advice, fadvise};
use sha2::{Digest, Sha256};
use std::fmt::Display;
use std::fs::File;
use std::io::{Read, Write};
use tidemill_domain::render::Trouble;
use tidemill_engine::render::storage::Content;

const BLOCK_BYTES: usize = 1 << 20;

/// Sync after this many bytes: one sync at the end of a large file would show no progress.
const SYNC_BYTES: u64 = 64 << 20;

/// From the current position.
pub(super) fn hash(file: &File, what: impl Display, pulse: &Pulse) -> Result<Content, Trouble> {
    pass(file, what, pulse, |_, _| Ok(()))
}

/// Copies and syncs; returns what was written.
pub(super) fn copy(
    from: &File,
    to: &File,
    from_name: impl Display,
    to_name: impl Display,
    pulse: &Pulse,
) -> Result<Content, Trouble> {
    let cannot_write = |error: &std::io::Error| io_trouble(&to_name, error);
    let mut synced = 0;
    let content = pass(from, from_name, pulse, |block, before| {
        let mut target = to;
        target.write_all(block).map_err(|error| cannot_write(&error))?;
        if before - synced >= SYNC_BYTES {
            to.sync_data().map_err(|error| cannot_write(&error))?;
            synced = before;
        }
        Ok(())
    })?;
    to.sync_all().map_err(|error| cannot_write(&error))?;
    Ok(content)
}

/// Makes the next read come from the disk, as far as the system supports it. Failing is fine.
pub(super) fn forget_cached(file: &File) {
    let _heeded = fadvise(file, 0, None, Advice::DontNeed);
}

fn pass(
    mut file: &File,
    what: impl Display,
    pulse: &Pulse,
    mut take: impl FnMut(&[u8], u64) -> Result<(), Trouble>,
) -> Result<Content, Trouble> {
    let mut block = vec![0; BLOCK_BYTES];
    let mut digest = Sha256::new();
    let mut bytes = 0;
    loop {
        pulse.beat()?;
        let read = match file.read(&mut block) {
            Ok(0) => break,
            Ok(read) => &block[..read],
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(io_trouble(what, &error)),
        };
        digest.update(read);
        take(read, bytes)?;
        bytes += read.len() as u64;
    }
    Ok(Content { bytes, sha256: digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect() })
}

//! Copies a node's file next to its final place, durably, and hashes files.

use super::folder::{Folder, io_trouble};
use super::place::{StagedFile, descend};
use super::system;
use super::{ReadBack, StorageOptions};
use crate::blocking_pool::Pulse;
use sha2::{Digest, Sha256};
use std::fmt::Display;
use std::fs::File;
use std::io::{Read, Seek, Write};
use tidemill_domain::render::output::Output;
use tidemill_domain::render::{Failure, LocalPath, Trouble};
use tidemill_engine::render::storage::Content;

const BLOCK_BYTES: usize = 1 << 20;

/// Sync after this many bytes: one sync at the end of a large file would show no progress.
const SYNC_BYTES: u64 = 64 << 20;

pub(super) fn copy_beside(
    options: &StorageOptions,
    staged: &LocalPath,
    output: &Output,
    pulse: &Pulse,
) -> Result<Content, Trouble> {
    let gone = || Trouble::new(Failure::OutputInvalid, &format!("{staged} is not there"));
    let (staging, name) = descend(&options.staging, staged)?.ok_or_else(gone)?;
    let source = staging.read(&name)?.ok_or_else(gone)?;
    let seen = see(&source, staged)?;
    let folder = options.output.open()?.enter_or_make(&output.folder)?;
    folder.remove(&output.part)?;
    leave_room(&folder, seen.bytes, options.free_bytes_min)?;
    let part = folder.create(&output.part)?;
    let part_path = folder.path_of(&output.part)?;
    let copied = copy(&source, &part, staged, &part_path, pulse).and_then(|content| {
        if see(&source, staged)? != seen || content.bytes != seen.bytes {
            let message = format!("{staged} was written to while it was copied");
            return Err(Trouble::new(Failure::OutputInvalid, &message));
        }
        let written = see(&part, &part_path)?.bytes;
        if written != content.bytes {
            let message = format!("{part_path} has {written} bytes of {}", content.bytes);
            return Err(Trouble::new(Failure::NasFailed, &message));
        }
        if options.read_back == ReadBack::On {
            read_back(&part, &content, &part_path, pulse)?;
        }
        folder.sync()?;
        Ok(content)
    });
    // After we gave up, another worker may be writing the same part.
    if copied.is_err() && !pulse.is_given_up() {
        // The sweep removes it later.
        let _removed = folder.remove(&output.part);
    }
    copied
}

fn see(file: &File, path: &LocalPath) -> Result<StagedFile, Trouble> {
    system::see(file).map(|found| StagedFile::of(&found)).map_err(|error| io_trouble(path, &error))
}

fn read_back(mut part: &File, content: &Content, path: &LocalPath, pulse: &Pulse) -> Result<(), Trouble> {
    system::forget_cache(part);
    part.rewind().map_err(|error| io_trouble(path, &error))?;
    if hash(part, path, pulse)? != *content {
        let message = format!("{path} reads differently from what was written");
        return Err(Trouble::new(Failure::NasFailed, &message));
    }
    Ok(())
}

pub(super) fn leave_room(folder: &Folder, bytes: u64, free_bytes_min: u64) -> Result<(), Trouble> {
    if let Some(free) = folder.free_bytes()?
        && free < bytes.saturating_add(free_bytes_min)
    {
        let path = folder.path();
        let message =
            format!("{path} has {free} bytes free, and {bytes} and {free_bytes_min} to spare are needed");
        return Err(Trouble::new(Failure::NasUnwritable, &message));
    }
    Ok(())
}

/// From the current position.
pub(super) fn hash(file: &File, what: impl Display, pulse: &Pulse) -> Result<Content, Trouble> {
    pass(file, what, pulse, |_, _| Ok(()))
}

/// Copies and syncs; returns what was written.
fn copy(
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

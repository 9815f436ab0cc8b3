//! Copies a node's file next to its final place, durably.

use super::content::{copy, forget_cached, hash};
use super::errno::{io_trouble, trouble};
use super::folder::Folder;
use super::staged::{StagedFile, descend};
use super::{ReadBack, StorageOptions};
use crate::blocking_pool::Pulse;
use rustix::fs::fstat;
use std::fs::File;
use std::io::Seek;
use tidemill_domain::render::output::Output;
use tidemill_domain::render::{Failure, LocalPath, Trouble};
use tidemill_engine::render::storage::Content;

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
        check_copy(&source, seen, &part, &content, staged, &part_path)?;
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
    fstat(file).map(|found| StagedFile::of(&found)).map_err(|errno| trouble(path, errno))
}

/// Fails if the file changed during the copy.
fn check_copy(
    source: &File,
    before: StagedFile,
    part: &File,
    content: &Content,
    staged: &LocalPath,
    part_path: &LocalPath,
) -> Result<(), Trouble> {
    if see(source, staged)? != before || content.bytes != before.bytes {
        let message = format!("{staged} was written to while it was copied");
        return Err(Trouble::new(Failure::OutputInvalid, &message));
    }
    let written = see(part, part_path)?.bytes;
    if written != content.bytes {
        let message = format!("{part_path} has {written} bytes of {}", content.bytes);
        return Err(Trouble::new(Failure::NasFailed, &message));
    }
    Ok(())
}

fn read_back(mut part: &File, content: &Content, path: &LocalPath, pulse: &Pulse) -> Result<(), Trouble> {
    forget_cached(part);
    part.rewind().map_err(|error| io_trouble(path, &error))?;
    if hash(part, path, pulse)? != *content {
        let message = format!("{path} reads differently from what was written");
        return Err(Trouble::new(Failure::NasFailed, &message));
    }
    Ok(())
}

fn leave_room(folder: &Folder, bytes: u64, free_bytes_min: u64) -> Result<(), Trouble> {
    let room = folder.room()?;
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    // Some file systems do not report their size.
    if room.f_blocks > 0 && free < bytes.saturating_add(free_bytes_min) {
        let message =
            format!("the NAS has {free} bytes free, and {bytes} and {free_bytes_min} to spare are needed");
        return Err(Trouble::new(Failure::NasFailed, &message));
    }
    Ok(())
}

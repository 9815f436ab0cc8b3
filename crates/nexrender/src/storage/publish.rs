//! Gives a part its final name. An existing file of that name is never replaced; it may be moved aside.

use super::copy::hash;
use super::folder::{Folder, io_trouble};
use crate::blocking_pool::Pulse;
use std::io::ErrorKind;
use tidemill_domain::render::output::Output;
use tidemill_domain::render::{Failure, LocalPath, Trouble};
use tidemill_engine::render::storage::Content;

pub(super) fn publish(
    folder: &Folder,
    output: &Output,
    content: &Content,
    pulse: &Pulse,
) -> Result<LocalPath, Trouble> {
    let path = folder.path_of(&output.name)?;
    let before = match &output.kept {
        Some(_) => published(folder, output, pulse)?.filter(|before| before != content),
        None => None,
    };
    if before.is_none() && is_published(folder, output, content, pulse)? {
        return tidy(folder, output, path);
    }
    let part_path = folder.path_of(&output.part)?;
    // The part may have been swept, or belong to a worker that started over: then copy again.
    let not_ours = |why| Trouble::new(Failure::NasFailed, &format!("{part_path}: {why}"));
    let part = folder.read_part(&output.part)?.ok_or_else(|| not_ours("the part is gone"))?;
    if hash(&part, &part_path, pulse)? != *content {
        return Err(not_ours("the part is not what was copied"));
    }
    // Another worker may have written it without syncing.
    part.sync_all().map_err(|error| io_trouble(&part_path, &error))?;
    pulse.beat()?;
    if let (Some(kept), Some(_)) = (&output.kept, before) {
        let kept_path = folder.path_of(kept)?;
        folder.opened.rename_new(&output.name, kept).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                Trouble::new(Failure::OutputConflict, &format!("{kept_path} is there already"))
            }
            _ => io_trouble(kept_path, &error),
        })?;
    }
    match folder.opened.give_name(part, &output.part, &output.name) {
        Ok(()) => tidy(folder, output, path),
        Err(error)
            if error.kind() == ErrorKind::AlreadyExists && is_published(folder, output, content, pulse)? =>
        {
            tidy(folder, output, path)
        }
        Err(error) => Err(io_trouble(path, &error)),
    }
}

/// The content of the file with the final name; `None` if it is missing.
pub(super) fn published(folder: &Folder, output: &Output, pulse: &Pulse) -> Result<Option<Content>, Trouble> {
    let path = folder.path_of(&output.name)?;
    let conflict = |why: &str| Trouble::new(Failure::OutputConflict, &format!("{path}: {why}"));
    let found = folder.read(&output.name).map_err(|trouble| match trouble.failure {
        Failure::OutputInvalid => conflict("it is there and not a regular file"),
        _ => trouble,
    })?;
    found.map(|file| hash(&file, &path, pulse)).transpose()
}

/// Whether the final name already has this content; other content is a conflict.
fn is_published(folder: &Folder, output: &Output, content: &Content, pulse: &Pulse) -> Result<bool, Trouble> {
    match published(folder, output, pulse)? {
        None => Ok(false),
        Some(found) if found == *content => Ok(true),
        Some(found) => {
            let path = folder.path_of(&output.name)?;
            let message = format!(
                "{path} has {} bytes with the SHA-256 {}, and the render {} bytes with {}",
                found.bytes, found.sha256, content.bytes, content.sha256
            );
            Err(Trouble::new(Failure::OutputConflict, &message))
        }
    }
}

/// Removes the part's own name and syncs.
fn tidy(folder: &Folder, output: &Output, path: LocalPath) -> Result<LocalPath, Trouble> {
    folder.remove(&output.part)?;
    folder.sync()?;
    Ok(path)
}

//! Gives a part its final name. An existing file of that name is never replaced; it may be moved aside.

use super::copy::hash;
use super::folder::{Folder, cannot_link, io_trouble, trouble};
use crate::blocking_pool::Pulse;
use rustix::fs::{AtFlags, CWD, RenameFlags, fstat, linkat, renameat, renameat_with, statat};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsRawFd;
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
    let part = folder.read(&output.part)?.ok_or_else(|| not_ours("the part is gone"))?;
    if hash(&part, &part_path, pulse)? != *content {
        return Err(not_ours("the part is not what was copied"));
    }
    // Another worker may have written it without syncing.
    part.sync_all().map_err(|error| io_trouble(&part_path, &error))?;
    pulse.beat()?;
    if let (Some(kept), Some(_)) = (&output.kept, before) {
        let kept_path = folder.path_of(kept)?;
        rename_new(folder, &output.name, kept).map_err(|errno| match errno {
            Errno::EXIST => Trouble::new(Failure::OutputConflict, &format!("{kept_path} is there already")),
            errno => trouble(kept_path, errno),
        })?;
    }
    match give_name(folder, output, &part) {
        Ok(()) => tidy(folder, output, path),
        Err(Errno::EXIST) if is_published(folder, output, content, pulse)? => tidy(folder, output, path),
        Err(errno) => Err(trouble(path, errno)),
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

/// `EXIST` if another file has the name.
fn give_name(folder: &Folder, output: &Output, part: &File) -> Result<(), Errno> {
    // Link the open file, not its name: a worker that lost its lease may have put another file there.
    let open = format!("/proc/self/fd/{}", part.as_raw_fd());
    match linkat(CWD, open, &folder.fd, &output.name, AtFlags::SYMLINK_FOLLOW) {
        Err(errno) if cannot_link(errno) => rename(folder, output, part),
        linked => linked,
    }
}

/// For file systems without hard links. It uses names, so it checks that the part is still the open file.
fn rename(folder: &Folder, output: &Output, open: &File) -> Result<(), Errno> {
    let (ours, found) = (fstat(open)?, statat(&folder.fd, &output.part, AtFlags::SYMLINK_NOFOLLOW)?);
    if (ours.st_dev, ours.st_ino) != (found.st_dev, found.st_ino) {
        return Err(Errno::STALE);
    }
    rename_new(folder, &output.part, &output.name)
}

/// `EXIST` if another file has the new name.
fn rename_new(folder: &Folder, old: &str, new: &str) -> Result<(), Errno> {
    let fd = &folder.fd;
    match renameat_with(fd, old, fd, new, RenameFlags::NOREPLACE) {
        // Not every network supports this. The name contains the render's number, and only the lease's owner is here.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            match statat(fd, new, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(Errno::EXIST),
                Err(Errno::NOENT) => renameat(fd, old, fd, new),
                Err(errno) => Err(errno),
            }
        }
        renamed => renamed,
    }
}

/// Removes the part's own name and syncs.
fn tidy(folder: &Folder, output: &Output, path: LocalPath) -> Result<LocalPath, Trouble> {
    folder.remove(&output.part)?;
    folder.sync()?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_without_second_names_is_renamed_and_replaces_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Folder::open(&LocalPath::parse(scratch.path().to_str().unwrap()).unwrap()).unwrap();
        let output = Output {
            folder: "-".into(),
            name: "a_1.mp4".into(),
            part: ".a_1.mp4.rq-1-1.part".into(),
            kept: None,
            key: "-/a_1.mp4".into(),
        };
        let at = |name: &str| scratch.path().join(name);
        fs::write(at(&output.part), "new").unwrap();
        fs::write(at(&output.name), "old").unwrap();
        let (part, other) = (File::open(at(&output.part)).unwrap(), File::open(at(&output.name)).unwrap());

        let refused = rename(&folder, &output, &part);
        let kept = fs::read_to_string(at(&output.name)).unwrap();
        fs::remove_file(at(&output.name)).unwrap();
        let exchanged = rename(&folder, &output, &other);
        let renamed = rename(&folder, &output, &part);

        assert_eq!((refused, kept.as_str()), (Err(Errno::EXIST), "old"));
        assert_eq!((exchanged, renamed), (Err(Errno::STALE), Ok(())));
        assert_eq!(fs::read_to_string(at(&output.name)).unwrap(), "new");
        assert!(!at(&output.part).exists());
    }
}

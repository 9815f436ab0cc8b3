//! An open folder, and errors of file systems. All operations are relative to the folder and follow no links, so it
//! cannot be swapped in between.

use super::system::{OpenFolder, Seen, class, is_missing};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind};
use tidemill_domain::render::{Failure, LocalPath, Trouble};

#[derive(Debug)]
pub(super) struct Folder {
    pub(super) opened: OpenFolder,
    path: LocalPath,
}

impl Folder {
    /// The configured path itself may be a link.
    pub(super) fn open(path: &LocalPath) -> io::Result<Self> {
        Ok(Self { opened: OpenFolder::open(&path.to_string())?, path: path.clone() })
    }

    pub(super) fn path(&self) -> &LocalPath {
        &self.path
    }

    /// For messages and for other programs.
    pub(super) fn path_of(&self, name: &str) -> Result<LocalPath, Trouble> {
        self.path.join(name).map_err(|bad| Trouble::refused(bad.code(), &bad.to_string()))
    }

    /// An existing subfolder, not a link; `None` if it is missing.
    pub(super) fn enter(&self, name: &str) -> Result<Option<Self>, Trouble> {
        let path = self.path_of(name)?;
        match self.opened.enter(name) {
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                let message = format!("{path} is a link, or no folder: nothing is written through it");
                Err(Trouble::new(Failure::NasRefused, &message))
            }
            opened => Ok(found(&path, opened)?.map(|opened| Self { opened, path })),
        }
    }

    /// The same, creating it if it is missing.
    pub(super) fn enter_or_make(&self, name: &str) -> Result<Self, Trouble> {
        let path = self.path_of(name)?;
        match self.opened.make(name) {
            Ok(()) => self.sync()?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io_trouble(path, &error)),
        }
        // It was removed in between, and may be again.
        self.enter(name)?.ok_or_else(|| io_trouble(path, &ErrorKind::NotFound.into()))
    }

    /// `None` if it is missing. Anything but a regular file is rejected before opening it could hang.
    pub(super) fn read(&self, name: &str) -> Result<Option<File>, Trouble> {
        self.regular(name, OpenFolder::read)
    }

    /// The same, to sync and name it.
    pub(super) fn read_part(&self, name: &str) -> Result<Option<File>, Trouble> {
        self.regular(name, OpenFolder::read_part)
    }

    fn regular(
        &self,
        name: &str,
        open: impl Fn(&OpenFolder, &str) -> io::Result<Option<File>>,
    ) -> Result<Option<File>, Trouble> {
        let path = self.path_of(name)?;
        let no_file = || Trouble::new(Failure::OutputInvalid, &format!("{path} is not a regular file"));
        let opened = found(&path, open(&self.opened, name))?;
        opened.map(|file| file.ok_or_else(no_file)).transpose()
    }

    /// Fails if it exists.
    pub(super) fn create(&self, name: &str) -> Result<File, Trouble> {
        let path = self.path_of(name)?;
        self.opened.create(name).map_err(|error| io_trouble(path, &error))
    }

    /// Removes a file or a link; a missing one is fine.
    pub(super) fn remove(&self, name: &str) -> Result<(), Trouble> {
        let path = self.path_of(name)?;
        found(&path, self.opened.remove(name)).map(drop)
    }

    /// `None` if it is missing.
    pub(super) fn stat_of(&self, name: &str) -> Result<Option<Seen>, Trouble> {
        let path = self.path_of(name)?;
        found(&path, self.opened.see(name))
    }

    /// `None` if it is not known.
    pub(super) fn free_bytes(&self) -> Result<Option<u64>, Trouble> {
        self.opened.free_bytes().map_err(|error| io_trouble(&self.path, &error))
    }

    /// Only UTF-8 names; ours are.
    pub(super) fn names(&self) -> Result<Vec<String>, Trouble> {
        self.opened.names().map_err(|error| io_trouble(&self.path, &error))
    }

    /// Makes its names durable, where the file system can.
    pub(super) fn sync(&self) -> Result<(), Trouble> {
        self.opened.sync().map_err(|error| io_trouble(&self.path, &error))
    }
}

/// `None` if it is missing.
fn found<T>(path: &LocalPath, result: io::Result<T>) -> Result<Option<T>, Trouble> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(io_trouble(path, &error)),
    }
}

pub(crate) fn io_trouble(what: impl Display, error: &io::Error) -> Trouble {
    Trouble::new(class(error), &format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `..` would be another folder, and `.` is always there.
    #[test]
    fn names_with_a_meaning_are_no_files() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("a"), "").unwrap();
        let path = LocalPath::parse(temp.path().to_str().unwrap()).unwrap();
        let folder = Folder::open(&path).unwrap();
        for name in [".", "..", "../a", "b/c"] {
            assert!(folder.stat_of(name).is_err(), "{name}");
            assert!(folder.read(name).is_err(), "{name}");
            assert!(folder.remove(name).is_err(), "{name}");
        }
        assert!(folder.stat_of("a").unwrap().is_some());
    }

    #[test]
    fn people_learn_what_and_why() {
        let trouble = io_trouble("/mnt/nas/a.mp4", &rustix::io::Errno::NOSPC.into());

        assert!(trouble.message.starts_with("/mnt/nas/a.mp4: "), "{}", trouble.message);
        assert!(trouble.message.contains("No space left on device"), "{}", trouble.message);
    }
}

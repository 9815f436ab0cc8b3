//! An open folder. All operations are relative to it and follow no links, so it cannot be swapped in between.

use super::errno::{cannot_sync, trouble};
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, StatVfs, fstat, fstatvfs, fsync, mkdirat, openat,
    statat, unlinkat,
};
use rustix::io::Errno;
use std::fs::File;
use tidemill_domain::render::{Failure, LocalPath, Trouble};

#[derive(Debug)]
pub(super) struct Folder {
    pub(super) fd: OwnedFd,
    path: LocalPath,
}

impl Folder {
    /// The configured path itself may be a link.
    pub(super) fn open(path: &LocalPath) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, path.to_string(), flags, Mode::empty())?;
        Ok(Self { fd, path: path.clone() })
    }

    /// For messages and for other programs.
    pub(super) fn path_of(&self, name: &str) -> Result<LocalPath, Trouble> {
        self.path.join(name).map_err(|bad| Trouble::refused(bad.code(), &bad.to_string()))
    }

    /// An existing subfolder, not a link; `None` if it is missing.
    pub(super) fn enter(&self, name: &str) -> Result<Option<Self>, Trouble> {
        let path = self.path_of(name)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => Ok(Some(Self { fd, path })),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let message = format!("{path} is a link, or no folder: nothing is written through it");
                Err(Trouble::new(Failure::NasRefused, &message))
            }
            Err(errno) => Err(trouble(path, errno)),
        }
    }

    /// The same, creating it if it is missing.
    pub(super) fn enter_or_make(&self, name: &str) -> Result<Self, Trouble> {
        let path = self.path_of(name)?;
        match mkdirat(&self.fd, name, Mode::from_raw_mode(0o775)) {
            Ok(()) => self.sync()?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(trouble(path, errno)),
        }
        // It was removed in between, and may be again.
        self.enter(name)?.ok_or_else(|| trouble(path, Errno::NOENT))
    }

    /// `None` if it is missing. Anything but a regular file is rejected before opening it could hang.
    pub(super) fn read(&self, name: &str) -> Result<Option<File>, Trouble> {
        let path = self.path_of(name)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            // A link, or a socket or device that nothing serves.
            Err(Errno::LOOP | Errno::NXIO) => return Err(no_file(&path)),
            Err(errno) => return Err(trouble(path, errno)),
        };
        match fstat(&fd) {
            Ok(found) if is_file(&found) => Ok(Some(File::from(fd))),
            Ok(_) => Err(no_file(&path)),
            Err(errno) => Err(trouble(path, errno)),
        }
    }

    /// Fails if it exists.
    pub(super) fn create(&self, name: &str) -> Result<File, Trouble> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = self.path_of(name)?;
        let fd = openat(&self.fd, name, flags, Mode::from_raw_mode(0o664))
            .map_err(|errno| trouble(path, errno))?;
        Ok(File::from(fd))
    }

    /// Removes a file or a link; a missing one is fine.
    pub(super) fn remove(&self, name: &str) -> Result<(), Trouble> {
        let path = self.path_of(name)?;
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(trouble(path, errno)),
        }
    }

    /// `None` if it is missing.
    pub(super) fn stat_of(&self, name: &str) -> Result<Option<Stat>, Trouble> {
        let path = self.path_of(name)?;
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(trouble(path, errno)),
        }
    }

    pub(super) fn stat(&self) -> Result<Stat, Trouble> {
        fstat(&self.fd).map_err(|errno| trouble(&self.path, errno))
    }

    pub(super) fn room(&self) -> Result<StatVfs, Trouble> {
        fstatvfs(&self.fd).map_err(|errno| trouble(&self.path, errno))
    }

    /// Only UTF-8 names; ours are.
    pub(super) fn names(&self) -> Result<Vec<String>, Trouble> {
        let failed = |errno| trouble(&self.path, errno);
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(failed)? {
            if let Ok(name) = entry.map_err(failed)?.file_name().to_str()
                && !matches!(name, "." | "..")
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Makes its names durable, where the file system can.
    pub(super) fn sync(&self) -> Result<(), Trouble> {
        match fsync(&self.fd) {
            Ok(()) => Ok(()),
            Err(errno) if cannot_sync(errno) => Ok(()),
            Err(errno) => Err(trouble(&self.path, errno)),
        }
    }
}

pub(super) fn is_file(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
}

fn no_file(path: &LocalPath) -> Trouble {
    Trouble::new(Failure::OutputInvalid, &format!("{path} is not a regular file"))
}

//! An open folder, and errors of file systems. All operations are relative to the folder and follow no links, so it
//! cannot be swapped in between.

use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, StatVfs, fstat, fstatvfs, fsync, mkdirat, openat,
    statat, unlinkat,
};
use rustix::io::Errno;
use std::fmt::Display;
use std::fs::File;
use std::io;
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

    /// `None` if it is missing.
    fn find<T>(&self, name: &str, find: impl FnOnce() -> Result<T, Errno>) -> Result<Option<T>, Trouble> {
        let path = self.path_of(name)?;
        match find() {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(trouble(path, errno)),
        }
    }

    /// An existing subfolder, not a link; `None` if it is missing.
    pub(super) fn enter(&self, name: &str) -> Result<Option<Self>, Trouble> {
        let path = self.path_of(name)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&self.fd, name, flags, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let message = format!("{path} is a link, or no folder: nothing is written through it");
                Err(Trouble::new(Failure::NasRefused, &message))
            }
            opened => Ok(self.find(name, || opened)?.map(|fd| Self { fd, path })),
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
        let no_file = || Trouble::new(Failure::OutputInvalid, &format!("{path} is not a regular file"));
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match openat(&self.fd, name, flags, Mode::empty()) {
            // A link, or a socket or device that nothing serves.
            Err(Errno::LOOP | Errno::NXIO) => return Err(no_file()),
            opened => opened,
        };
        let Some(fd) = self.find(name, || opened)? else { return Ok(None) };
        match fstat(&fd) {
            Ok(found) if is_file(&found) => Ok(Some(File::from(fd))),
            Ok(_) => Err(no_file()),
            Err(errno) => Err(trouble(path, errno)),
        }
    }

    /// Fails if it exists.
    pub(super) fn create(&self, name: &str) -> Result<File, Trouble> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = self.path_of(name)?;
        let created = openat(&self.fd, name, flags, Mode::from_raw_mode(0o664));
        created.map(File::from).map_err(|errno| trouble(path, errno))
    }

    /// Removes a file or a link; a missing one is fine.
    pub(super) fn remove(&self, name: &str) -> Result<(), Trouble> {
        self.find(name, || unlinkat(&self.fd, name, AtFlags::empty())).map(drop)
    }

    /// `None` if it is missing.
    pub(super) fn stat_of(&self, name: &str) -> Result<Option<Stat>, Trouble> {
        self.find(name, || statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW))
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
            Err(errno) if !cannot_sync(errno) => Err(trouble(&self.path, errno)),
            _ => Ok(()),
        }
    }
}

pub(super) fn is_file(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
}

pub(crate) fn trouble(what: impl Display, errno: Errno) -> Trouble {
    Trouble::new(class(errno), &format!("{what}: {errno}"))
}

/// The same for errors of the standard library.
pub(crate) fn io_trouble(what: impl Display, error: &io::Error) -> Trouble {
    match Errno::from_io_error(error) {
        Some(errno) => trouble(what, errno),
        None => Trouble::new(Failure::NasFailed, &format!("{what}: {error}")),
    }
}

/// A NAS that takes no file at all stops every render. Errors that last are refusals; all others may pass and are retried. A file that Windows has open is busy, not
/// denied.
fn class(errno: Errno) -> Failure {
    match errno {
        Errno::NOSPC | Errno::DQUOT | Errno::ROFS | Errno::IO => Failure::NasUnwritable,
        Errno::ACCESS
        | Errno::PERM
        | Errno::NAMETOOLONG
        | Errno::ILSEQ
        | Errno::FBIG
        | Errno::LOOP
        | Errno::NOTDIR
        | Errno::ISDIR => Failure::NasRefused,
        // STALE, NOTCONN, HOSTDOWN, TIMEDOUT, BUSY and other network errors.
        _ => Failure::NasFailed,
    }
}

/// Whether this file system never syncs folders: CIFS and some others.
fn cannot_sync(errno: Errno) -> bool {
    errno == Errno::INVAL || errno == Errno::NOTSUP || errno == Errno::OPNOTSUPP || errno == Errno::NOSYS
}

/// Whether this file system has no hard links.
pub(super) fn cannot_link(errno: Errno) -> bool {
    // NOENT: there is no /proc to name the open file by.
    cannot_sync(errno) || matches!(errno, Errno::PERM | Errno::MLINK | Errno::XDEV | Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_is_told_from_what_will_not() {
        for passing in [
            Errno::STALE,
            Errno::NOTCONN,
            Errno::HOSTDOWN,
            Errno::HOSTUNREACH,
            Errno::TIMEDOUT,
            Errno::BUSY,
            Errno::AGAIN,
            Errno::NOMEM,
        ] {
            assert_eq!(trouble("x", passing).failure, Failure::NasFailed, "{passing}");
        }
        for whole in [Errno::NOSPC, Errno::DQUOT, Errno::ROFS, Errno::IO] {
            assert_eq!(trouble("x", whole).failure, Failure::NasUnwritable, "{whole}");
        }
        for lasting in [Errno::ACCESS, Errno::PERM, Errno::NAMETOOLONG, Errno::NOTDIR] {
            let error = io::Error::from(lasting);
            assert_eq!(io_trouble("x", &error).failure, Failure::NasRefused, "{lasting}");
        }
    }

    #[test]
    fn people_learn_what_and_why() {
        let trouble = trouble("/mnt/nas/a.mp4", Errno::NOSPC);

        assert!(trouble.message.starts_with("/mnt/nas/a.mp4: "), "{}", trouble.message);
        assert!(trouble.message.contains("No space left on device"), "{}", trouble.message);
    }

    #[test]
    fn errors_without_a_number_may_pass() {
        assert_eq!(io_trouble("x", &io::Error::other("odd")).failure, Failure::NasFailed);
    }
}

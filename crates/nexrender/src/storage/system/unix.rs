//! All operations are relative to the open folder, so it cannot be swapped in between.

use super::Seen;
use rustix::fd::OwnedFd;
use rustix::fs::{
    Advice, AtFlags, CWD, Dir, FallocateFlags, FileType, Mode, OFlags, RenameFlags, Stat, fadvise, fallocate,
    fstat, fstatvfs, fsync, linkat, mkdirat, openat, renameat, renameat_with, stat, statat, unlinkat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use tidemill_domain::render::Failure;

#[derive(Debug)]
pub(in crate::storage) struct OpenFolder(OwnedFd);

impl OpenFolder {
    /// The path itself may be a link.
    pub(in crate::storage) fn open(path: &str) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(openat(CWD, path, flags, Mode::empty())?))
    }

    /// `NotADirectory` for a link, too.
    pub(in crate::storage) fn enter(&self, name: &str) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&self.0, name, flags, Mode::empty()) {
            Err(Errno::LOOP) => Err(Errno::NOTDIR.into()),
            opened => Ok(Self(opened?)),
        }
    }

    pub(in crate::storage) fn make(&self, name: &str) -> io::Result<()> {
        Ok(mkdirat(&self.0, name, Mode::from_raw_mode(0o775))?)
    }

    /// `None` if it is not a regular file. Does not wait for the other end of a pipe.
    pub(in crate::storage) fn read(&self, name: &str) -> io::Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match openat(&self.0, name, flags, Mode::empty()) {
            // A link, or a socket or device that nothing serves.
            Err(Errno::LOOP | Errno::NXIO) => return Ok(None),
            opened => opened?,
        };
        Ok(is_file(&fstat(&fd)?).then(|| File::from(fd)))
    }

    /// To sync and name it.
    pub(in crate::storage) fn read_part(&self, name: &str) -> io::Result<Option<File>> {
        self.read(name)
    }

    pub(in crate::storage) fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.0, name, flags, Mode::from_raw_mode(0o664))?.into())
    }

    pub(in crate::storage) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    pub(in crate::storage) fn see(&self, name: &str) -> io::Result<Seen> {
        Ok(seen(&statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// What [`mounted`] returns for the file system that it is on.
    pub(in crate::storage) fn device(&self) -> io::Result<u64> {
        Ok(fstat(&self.0)?.st_dev)
    }

    /// `None` if the file system does not say it.
    pub(in crate::storage) fn free_bytes(&self) -> io::Result<Option<u64>> {
        let room = fstatvfs(&self.0)?;
        Ok((room.f_blocks > 0).then(|| room.f_bavail.saturating_mul(room.f_frsize)))
    }

    /// Only UTF-8 names.
    pub(in crate::storage) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            if let Ok(name) = entry?.file_name().to_str()
                && !matches!(name, "." | "..")
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    pub(in crate::storage) fn sync(&self) -> io::Result<()> {
        match fsync(&self.0) {
            Err(errno) if !cannot_sync(errno) => Err(errno.into()),
            _ => Ok(()),
        }
    }

    /// `AlreadyExists` if another file has the name. The part may keep its own name.
    pub(in crate::storage) fn give_name(&self, open: File, part: &str, name: &str) -> io::Result<()> {
        // Link the open file, not its name: a worker that lost its lease may have put another file there.
        let path = format!("/proc/self/fd/{}", open.as_raw_fd());
        match linkat(CWD, path, &self.0, name, AtFlags::SYMLINK_FOLLOW) {
            Err(errno) if cannot_link(errno) => self.rename(&open, part, name),
            linked => Ok(linked?),
        }
    }

    /// For file systems without hard links. It uses names, so it checks that the part is still the open file.
    fn rename(&self, open: &File, part: &str, name: &str) -> io::Result<()> {
        let (ours, found) = (fstat(open)?, statat(&self.0, part, AtFlags::SYMLINK_NOFOLLOW)?);
        if (ours.st_dev, ours.st_ino) != (found.st_dev, found.st_ino) {
            return Err(Errno::STALE.into());
        }
        self.rename_new(part, name)
    }

    /// `AlreadyExists` if another file has the new name.
    pub(in crate::storage) fn rename_new(&self, old: &str, new: &str) -> io::Result<()> {
        let fd = &self.0;
        match renameat_with(fd, old, fd, new, RenameFlags::NOREPLACE) {
            // Not every network supports this. The name contains the render's number, and only the lease's owner is here.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                match statat(fd, new, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(_) => Err(Errno::EXIST.into()),
                    Err(Errno::NOENT) => Ok(renameat(fd, old, fd, new)?),
                    Err(errno) => Err(errno.into()),
                }
            }
            renamed => Ok(renamed?),
        }
    }
}

pub(in crate::storage) fn see(file: &File) -> io::Result<Seen> {
    Ok(seen(&fstat(file)?))
}

fn seen(found: &Stat) -> Seen {
    Seen {
        is_file: is_file(found),
        bytes: u64::try_from(found.st_size).unwrap_or_default(),
        touched: (found.st_mtime, found.st_mtime_nsec.try_into().unwrap_or_default()),
        number: found.st_ino,
    }
}

fn is_file(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
}

/// The file system that is mounted at a folder; `None` if none is.
pub(in crate::storage) fn mounted(folder: &str) -> io::Result<Option<u64>> {
    let (there, above) = (stat(folder)?.st_dev, stat(format!("{folder}/.."))?.st_dev);
    Ok((there != above).then_some(there))
}

/// Space for a file, which a quota may refuse. Not every file system can reserve.
pub(in crate::storage) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    Ok(fallocate(file, FallocateFlags::empty(), 0, bytes)?)
}

/// The next read comes from the disk, as far as the system supports it.
pub(in crate::storage) fn forget_cache(file: &File) {
    // Failing is fine.
    let _heeded = fadvise(file, 0, None, Advice::DontNeed);
}

/// A NAS that takes no file at all stops every render. Errors that last are refusals; all others may pass and are retried.
/// A file that Windows has open is busy, not denied.
pub(in crate::storage) fn class(error: &io::Error) -> Failure {
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::DQUOT | Errno::ROFS | Errno::IO) => Failure::NasUnwritable,
        Some(
            Errno::ACCESS
            | Errno::PERM
            | Errno::NAMETOOLONG
            | Errno::ILSEQ
            | Errno::FBIG
            | Errno::LOOP
            | Errno::NOTDIR
            | Errno::ISDIR,
        ) => Failure::NasRefused,
        // STALE, NOTCONN, HOSTDOWN, TIMEDOUT, BUSY and other network errors.
        _ => Failure::NasFailed,
    }
}

pub(in crate::storage) fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Whether this file system never syncs folders: CIFS and some others.
fn cannot_sync(errno: Errno) -> bool {
    errno == Errno::INVAL || errno == Errno::NOTSUP || errno == Errno::OPNOTSUPP || errno == Errno::NOSYS
}

/// Whether this file system has no hard links.
fn cannot_link(errno: Errno) -> bool {
    // NOENT: there is no /proc to name the open file by.
    cannot_sync(errno) || matches!(errno, Errno::PERM | Errno::MLINK | Errno::XDEV | Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_without_second_names_is_renamed_and_replaces_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = OpenFolder::open(scratch.path().to_str().unwrap()).unwrap();
        let (name, part) = ("a_1.mp4", ".a_1.mp4.rq-1-1.part");
        let at = |name: &str| scratch.path().join(name);
        fs::write(at(part), "new").unwrap();
        fs::write(at(name), "old").unwrap();
        let (ours, other) = (File::open(at(part)).unwrap(), File::open(at(name)).unwrap());
        let errno = |done: io::Result<()>| done.map_err(|error| Errno::from_io_error(&error).unwrap());

        let refused = errno(folder.rename(&ours, part, name));
        let kept = fs::read_to_string(at(name)).unwrap();
        fs::remove_file(at(name)).unwrap();
        let exchanged = errno(folder.rename(&other, part, name));
        let renamed = errno(folder.rename(&ours, part, name));

        assert_eq!((refused, kept.as_str()), (Err(Errno::EXIST), "old"));
        assert_eq!((exchanged, renamed), (Err(Errno::STALE), Ok(())));
        assert_eq!(fs::read_to_string(at(name)).unwrap(), "new");
        assert!(!at(part).exists());
    }

    #[test]
    fn what_may_pass_is_told_from_what_will_not() {
        let check = |errno: Errno, failure| assert_eq!(class(&errno.into()), failure, "{errno}");

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
            check(passing, Failure::NasFailed);
        }
        for whole in [Errno::NOSPC, Errno::DQUOT, Errno::ROFS, Errno::IO] {
            check(whole, Failure::NasUnwritable);
        }
        for lasting in [Errno::ACCESS, Errno::PERM, Errno::NAMETOOLONG, Errno::NOTDIR] {
            check(lasting, Failure::NasRefused);
        }
        assert_eq!(class(&io::Error::other("odd")), Failure::NasFailed);
    }
}

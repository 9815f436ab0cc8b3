//! Windows opens by path. A folder that is held open cannot be renamed or removed, and an open file that others may only read
//! keeps its name, so neither can be swapped in between.

use super::Seen;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::windows::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf, Prefix};
use tidemill_domain::render::Failure;

const FILE_SHARE_READ: u32 = 1;
const FILE_SHARE_WRITE: u32 = 2;
/// Opens a link itself.
const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
/// Without it, folders cannot be opened.
const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x0200_0000;

/// From 1601, where the times of files begin, to 1970, in units of 100 nanoseconds.
const TICKS_TO_1970: i64 = 116_444_736_000_000_000;
const TICKS_PER_SECOND: i64 = 10_000_000;

const ERROR_INVALID_FUNCTION: i32 = 1;
const ERROR_FILE_NOT_FOUND: i32 = 2;
const ERROR_PATH_NOT_FOUND: i32 = 3;
const ERROR_ACCESS_DENIED: i32 = 5;
const ERROR_CRC: i32 = 23;
const ERROR_NOT_SUPPORTED: i32 = 50;
const ERROR_INVALID_PARAMETER: i32 = 87;
const ERROR_IO_DEVICE: i32 = 1117;
const ERROR_TOO_MANY_LINKS: i32 = 1142;

#[derive(Debug)]
pub(in crate::storage) struct OpenFolder {
    path: PathBuf,
    _held: File,
}

impl OpenFolder {
    /// The path itself may be a link.
    pub(in crate::storage) fn open(path: &str) -> io::Result<Self> {
        Self::hold(path.into(), FILE_FLAG_BACKUP_SEMANTICS)
    }

    fn hold(path: PathBuf, flags: u32) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let held = options
            .read(true)
            .share_mode(FILE_SHARE_READ | FILE_SHARE_WRITE)
            .custom_flags(flags)
            .open(&path)?;
        if !held.metadata()?.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        Ok(Self { path, _held: held })
    }

    /// `NotADirectory` for a link, too.
    pub(in crate::storage) fn enter(&self, name: &str) -> io::Result<Self> {
        Self::hold(self.path.join(name), FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT)
    }

    pub(in crate::storage) fn make(&self, name: &str) -> io::Result<()> {
        fs::create_dir(self.path.join(name))
    }

    /// `None` if it is not a regular file. Nobody else can write to it while it is open, so one that a node still writes is
    /// busy.
    pub(in crate::storage) fn read(&self, name: &str) -> io::Result<Option<File>> {
        self.open_file(name, OpenOptions::new().read(true))
    }

    /// To sync and name it.
    pub(in crate::storage) fn read_part(&self, name: &str) -> io::Result<Option<File>> {
        // Only what is open for writing can be synced.
        self.open_file(name, OpenOptions::new().read(true).write(true))
    }

    fn open_file(&self, name: &str, options: &mut OpenOptions) -> io::Result<Option<File>> {
        let path = self.path.join(name);
        // Opening a folder would be denied.
        if !fs::symlink_metadata(&path)?.is_file() {
            return Ok(None);
        }
        let flags = FILE_FLAG_OPEN_REPARSE_POINT;
        let file = options.share_mode(FILE_SHARE_READ).custom_flags(flags).open(path)?;
        Ok(file.metadata()?.is_file().then_some(file))
    }

    pub(in crate::storage) fn create(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open(self.path.join(name))
    }

    pub(in crate::storage) fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    pub(in crate::storage) fn see(&self, name: &str) -> io::Result<Seen> {
        Ok(seen(&fs::symlink_metadata(self.path.join(name))?))
    }

    /// What [`mounted`] returns for the drive or share that it is on.
    pub(in crate::storage) fn device(&self) -> io::Result<PathBuf> {
        device(&self.path)
    }

    /// The standard library does not tell it. A full disk shows when it is written to.
    pub(in crate::storage) fn free_bytes(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Only UTF-8 names.
    pub(in crate::storage) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    /// Windows has no such operation for folders.
    pub(in crate::storage) fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// `AlreadyExists` if another file has the name. The part may keep its own name.
    pub(in crate::storage) fn give_name(&self, open: File, part: &str, name: &str) -> io::Result<()> {
        match fs::hard_link(self.path.join(part), self.path.join(name)) {
            Err(error) if cannot_link(&error) => {}
            linked => return linked,
        }
        let ours = see(&open)?;
        // An open file cannot be renamed, and once it is closed another worker may replace it.
        drop(open);
        if self.see(part)? != ours {
            return Err(io::Error::other("the part has changed before it got its name"));
        }
        self.rename_to_free(part, name)
    }

    /// `AlreadyExists` if another file has the new name.
    pub(in crate::storage) fn rename_new(&self, old: &str, new: &str) -> io::Result<()> {
        match fs::hard_link(self.path.join(old), self.path.join(new)) {
            Ok(()) => self.remove(old),
            Err(error) if cannot_link(&error) => self.rename_to_free(old, new),
            Err(error) => Err(error),
        }
    }

    /// Without hard links. The name contains the render's number, and only the lease's owner is here, so nobody takes the name
    /// after the look.
    fn rename_to_free(&self, old: &str, new: &str) -> io::Result<()> {
        let new = self.path.join(new);
        match fs::symlink_metadata(&new) {
            Ok(_) => Err(ErrorKind::AlreadyExists.into()),
            Err(error) if is_missing(&error) => fs::rename(self.path.join(old), new),
            Err(error) => Err(error),
        }
    }
}

pub(in crate::storage) fn see(file: &File) -> io::Result<Seen> {
    Ok(seen(&file.metadata()?))
}

fn seen(found: &Metadata) -> Seen {
    let ticks = i64::try_from(found.last_write_time()).unwrap_or_default().saturating_sub(TICKS_TO_1970);
    let nanos = ticks.rem_euclid(TICKS_PER_SECOND) * 100;
    Seen {
        is_file: found.is_file(),
        bytes: found.file_size(),
        touched: (ticks.div_euclid(TICKS_PER_SECOND), nanos),
        number: found.creation_time(),
    }
}

/// Whether a file or folder is missing. An unreachable server or share is an error.
pub(in crate::storage) fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(ERROR_FILE_NOT_FOUND | ERROR_PATH_NOT_FOUND))
}

/// The share or drive that a folder leads to; `None` if it is the local drive of the folder above it.
pub(in crate::storage) fn mounted(folder: &str) -> io::Result<Option<PathBuf>> {
    let there = device(Path::new(folder))?;
    let is_share = matches!(
        there.components().next(),
        Some(Component::Prefix(prefix)) if matches!(prefix.kind(), Prefix::UNC(..) | Prefix::VerbatimUNC(..))
    );
    match Path::new(folder).parent() {
        Some(above) if !is_share && there == device(above)? => Ok(None),
        _ => Ok(Some(there)),
    }
}

/// In small letters, because Windows does not tell `\\NAS\x` from `\\nas\x`.
fn device(path: &Path) -> io::Result<PathBuf> {
    let real = fs::canonicalize(path)?;
    let prefix = real.components().find(|part| matches!(part, Component::Prefix(_)));
    Ok(prefix.map(|prefix| prefix.as_os_str().to_ascii_lowercase().into()).unwrap_or_default())
}

/// Space for a file, which a quota may refuse. Not every file system can reserve.
pub(in crate::storage) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)
}

/// Windows offers no such thing for an open file.
pub(in crate::storage) fn forget_cache(_file: &File) {}

/// A NAS that takes no file at all stops every render. Errors that last are refusals; all others may pass and are retried,
/// among them a file that another program has open, and a denied one: it may be about to be deleted.
pub(in crate::storage) fn class(error: &io::Error) -> Failure {
    match (error.kind(), error.raw_os_error()) {
        (ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem, _)
        | (_, Some(ERROR_CRC | ERROR_IO_DEVICE)) => Failure::NasUnwritable,
        (
            ErrorKind::InvalidFilename
            | ErrorKind::FileTooLarge
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory,
            _,
        ) => Failure::NasRefused,
        _ => Failure::NasFailed,
    }
}

/// Whether this file system has no hard links.
fn cannot_link(error: &io::Error) -> bool {
    const NO_LINKS: [i32; 5] = [
        ERROR_INVALID_FUNCTION,
        ERROR_ACCESS_DENIED,
        ERROR_NOT_SUPPORTED,
        ERROR_INVALID_PARAMETER,
        ERROR_TOO_MANY_LINKS,
    ];
    error.raw_os_error().is_some_and(|number| NO_LINKS.contains(&number))
}

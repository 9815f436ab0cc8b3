//! A file as a sink. Several relays may append to one file, even ones that no longer should: there is no lock, because
//! a frozen process would keep it.
//!
//! - A batch is one `write` to a file opened for appending: on a local file system, writes of several processes do not mix.
//!   It is delivered once it is synced.
//! - A killed writer, or a full disk, can leave part of a line. The next writer starts a new line. If the part appeared
//!   between its check and its write, it overwrites the last byte of the part with the line break: the part is worthless,
//!   and its own first record must be complete.
//! - Events are business data: a new file can be read only by its owner. Only regular files are written to, because others
//!   cannot be synced and read back.
//! - Before each batch it checks that the path still leads to the open file, so that logs can be rotated by renaming. If the
//!   file was removed meanwhile, nothing was delivered.

use crate::outbox::sink::batch::Batch;
use crate::outbox::{Publisher, Publishing, SinkError, SinkOptions};
use crate::system::identity;
use rustix::fs::{Access, OFlags, access, fcntl_getfl, fcntl_setfl};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::outbox::Record;
use tokio::sync::Mutex;

#[derive(Debug)]
pub struct FileSink {
    options: SinkOptions,
    path: PathBuf,
    open: Arc<Mutex<Option<File>>>,
}

impl FileSink {
    /// Creates the file when the first record comes. The name of the sink has the absolute path.
    pub fn new(path: impl Into<PathBuf>, options: SinkOptions) -> Self {
        let path = path.into();
        let path = std::path::absolute(&path).unwrap_or(path);
        Self { options, path, open: Arc::default() }
    }
}

/// Whether the file could be written to or created now, without writing.
pub(super) fn check(path: &Path) -> Result<(), SinkError> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(&path);
    let (place, allowed) = if path.exists() {
        (path.as_path(), access(&path, Access::READ_OK | Access::WRITE_OK))
    } else {
        // The dot makes it fail unless it is a folder.
        (folder, access(folder.join("."), Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK))
    };
    allowed.map_err(|error| SinkError::NotWritable {
        path: path.display().to_string(),
        why: format!("{}: {}", place.display(), io::Error::from(error)),
    })
}

impl Publisher for FileSink {
    fn name(&self) -> String {
        format!("file:{}", self.path.display())
    }

    fn publish<'a>(&'a self, records: &'a [Record]) -> Publishing<'a> {
        let batch = Batch::new(records, &self.options);
        let (open, path) = (self.open.clone(), self.path.clone());
        Box::pin(async move {
            // Locked here and not in the thread: a cancelled call has written nothing, and writes nothing later.
            let mut open = open.lock_owned().await;
            let written = tokio::task::spawn_blocking(move || {
                let (written, why) = match append(&mut open, &path, &batch) {
                    Ok(written) if written == batch.lines().len() => (written, None),
                    Ok(written) => (written, Some("only a part could be written".to_owned())),
                    Err(error) => (0, Some(error.to_string())),
                };
                if why.is_some() {
                    // The next attempt opens it again.
                    *open = None;
                }
                batch.outcomes(written, why.map(|why| format!("{}: {why}", path.display())))
            });
            super::outcomes_of(written.await, records)
        })
    }
}

/// How often, a millisecond apart, a part of a line must look the same before it counts as left: on a busy machine a writer
/// pauses in the middle of its call.
const UNCHANGED_MAX: u32 = 50;

/// Returns how many bytes of the lines are durable.
fn append(open: &mut Option<File>, path: &Path, batch: &Batch) -> io::Result<usize> {
    if batch.lines().is_empty() {
        return Ok(0);
    }
    let mut file = match open.take() {
        Some(file) if is_at(&file, path)? => file,
        _ => create(path)?,
    };
    let is_fresh = is_fresh(&file, file.metadata()?.len())?;
    let bytes = if is_fresh { batch.lines() } else { batch.lines_on_a_fresh_line() };
    let written = write(&file, bytes)?;
    if is_fresh {
        let start = file.stream_position()?.saturating_sub(written as u64);
        set_apart(&file, start)?;
    }
    file.sync_data()?;
    if file.metadata()?.nlink() == 0 {
        return Err(io::Error::other("the file was removed while it was written to"));
    }
    *open = Some(file);
    Ok(if is_fresh { written } else { written.saturating_sub(1) })
}

/// Whether the file is empty or ends with a complete line.
fn is_fresh(file: &File, mut len: u64) -> io::Result<bool> {
    let mut unchanged = 0;
    while len > 0 && byte_at(file, len - 1)? != Some(b'\n') {
        if unchanged == UNCHANGED_MAX {
            return Ok(false);
        }
        // The length grows while another writer is in the middle of its call, but not after a part that was left.
        std::thread::sleep(Duration::from_millis(1));
        let before = std::mem::replace(&mut len, file.metadata()?.len());
        unchanged = if len == before { unchanged + 1 } else { 0 };
    }
    Ok(true)
}

/// One call, so that writes of other processes do not mix.
fn write(mut file: &File, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match file.write(bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Makes sure that a line begins at `start`.
fn set_apart(file: &File, start: u64) -> io::Result<()> {
    let Some(before) = start.checked_sub(1) else { return Ok(()) };
    if byte_at(file, before)? == Some(b'\n') {
        return Ok(());
    }
    // With O_APPEND, Linux ignores the position.
    let flags = fcntl_getfl(file)?;
    fcntl_setfl(file, flags.difference(OFlags::APPEND))?;
    let written = file.write_all_at(b"\n", before);
    fcntl_setfl(file, flags)?;
    written
}

fn byte_at(file: &File, place: u64) -> io::Result<Option<u8>> {
    let mut byte = [0];
    let read = file.read_at(&mut byte, place)?;
    Ok((read == 1).then_some(byte[0]))
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(there) => Ok(identity(&there) == identity(&file.metadata()?)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn create(path: &Path) -> io::Result<File> {
    // Checked before opening: opening a pipe would wait for a reader.
    if !may_be_made(path) {
        return Err(io::Error::other("this is not a regular file"));
    }
    let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    crate::item::file_output::sync_folder(path)?;
    Ok(file)
}

/// Whether there is a regular file, or nothing yet.
pub(super) fn may_be_made(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |there| there.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_between_the_look_and_the_write_is_set_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        fs::write(&path, "whole\n{\"torn").unwrap();
        let file = create(&path).unwrap();

        write(&file, b"first\n").unwrap();
        set_apart(&file, 12).unwrap();
        write(&file, b"second\n").unwrap();
        set_apart(&file, 18).unwrap();

        assert_eq!(fs::read_to_string(&path).unwrap(), "whole\n{\"tor\nfirst\nsecond\n");
    }
}

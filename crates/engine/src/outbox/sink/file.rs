//! A file as a sink. Several relays may append to one file, also such as no longer should: there is no lock, because one
//! that was stopped would keep it.
//!
//! - A batch is one `write` to a file that was opened for appending: on a local file system those of several writers
//!   follow each other whole. It counts as delivered once it is synced.
//! - A writer that is killed, or a disk that is full, can leave a part of a line. Whoever comes next starts on a fresh
//!   line. If the part came between its look and its write, it turns the last byte of the part into the line break: the
//!   part is worth nothing, and its own first record must be whole before those behind it are.
//! - What events say is business data: a file that is made here can be read by its owner only. Nothing but a regular file
//!   is written to: what cannot be synced and read back is not delivered.
//! - Before each batch it is seen whether the path still leads to the open file, so that logs can be rotated by renaming.
//!   A file that was removed meanwhile has taken nothing.

use super::super::publisher::{Publisher, Publishing};
use super::batch::Batch;
use super::{SinkError, SinkOptions};
use rustix::fs::{Access, OFlags, access, fcntl_getfl, fcntl_setfl};
use std::fs::{self, File, Metadata, OpenOptions};
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
    /// Appends to the file at this path, which is made when the first record comes. Its name has the whole path, so that
    /// people who look from elsewhere know which file is meant.
    pub fn new(path: impl Into<PathBuf>, options: SinkOptions) -> Self {
        let path = path.into();
        let path = std::path::absolute(&path).unwrap_or(path);
        Self { options, path, open: Arc::default() }
    }
}

/// Whether the file could be written to now, or be made, as far as that can be told without doing it.
pub(super) fn check(path: &Path) -> Result<(), SinkError> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(&path);
    let (place, allowed) = if path.exists() {
        (path.as_path(), access(&path, Access::READ_OK | Access::WRITE_OK))
    } else {
        // With the dot only a folder will do.
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
            // Waited for here and not in the thread: who gives up waiting has written nothing, and writes nothing later.
            let mut open = open.lock_owned().await;
            let written = tokio::task::spawn_blocking(move || {
                let (written, why) = match append(&mut open, &path, &batch) {
                    Ok(written) if written == batch.lines().len() => (written, None),
                    Ok(written) => (written, Some("only a part could be written".to_owned())),
                    Err(error) => (0, Some(error.to_string())),
                };
                if why.is_some() {
                    // Whatever is wrong with it, the next attempt begins anew.
                    *open = None;
                }
                batch.outcomes(written, why.map(|why| format!("{}: {why}", path.display())))
            });
            super::outcomes_of(written.await, records)
        })
    }
}

/// Appends a batch; how many bytes of its lines are safely there.
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

/// Whether a file of this length ends with a whole line, or is empty.
fn is_fresh(file: &File, mut len: u64) -> io::Result<bool> {
    while len > 0 && byte_at(file, len - 1)? != Some(b'\n') {
        // The length grows while another writer is in the middle of its call; that of a part that was left does not.
        std::thread::sleep(Duration::from_millis(1));
        let before = std::mem::replace(&mut len, file.metadata()?.len());
        if len == before {
            return Ok(false);
        }
    }
    Ok(true)
}

/// One call, so that nothing of another writer comes between.
fn write(mut file: &File, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match file.write(bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Makes sure that what begins at `start` begins a line.
fn set_apart(file: &File, start: u64) -> io::Result<()> {
    let Some(before) = start.checked_sub(1) else { return Ok(()) };
    if byte_at(file, before)? == Some(b'\n') {
        return Ok(());
    }
    // Linux appends whatever is written to a file for appending, wherever it was told to go.
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

pub(super) fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn create(path: &Path) -> io::Result<File> {
    // Looked at before it is opened: a pipe without a reader would keep us waiting for one.
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

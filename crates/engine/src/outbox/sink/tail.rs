//! Reads what was added to the file of a sink, even while relays write, and when the file is rotated.

use crate::outbox::verify::Destination;
use crate::outbox::{ReadBack, VerifyError};
use crate::system::{identity, read_at};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use tidemill_domain::outbox::verify::{Lane, Place};
use tidemill_domain::outbox::{Published, line};

const AT_ONCE: usize = 1024 * 1024;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TailEntry {
    Published(Published),
    /// Not a record, or part of one.
    Torn,
    /// A record of another outbox.
    Foreign,
}

/// The files of one sink, the oldest first; the last may still grow.
#[derive(Debug, Default)]
pub struct Tail {
    paths: Vec<PathBuf>,
    parts: Vec<Part>,
    /// Paths that have not existed so far.
    missing: Vec<PathBuf>,
}

#[derive(Debug)]
struct Part {
    path: PathBuf,
    file: File,
    identity: (u64, u64),
    /// Start of the first unread line.
    offset: u64,
    lines: u64,
    end: u64,
}

impl Tail {
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self { missing: paths.clone(), paths, parts: Vec::new() }
    }

    fn read_all(&mut self, found: &mut dyn FnMut(Lane, Place, TailEntry)) -> io::Result<()> {
        for path in &self.paths {
            let Some(file) = open(path)? else { continue };
            self.missing.retain(|missing| missing != path);
            // A renamed file may still grow, because its writer had checked before.
            let identity = identity(&file.metadata()?);
            if !self.parts.iter().any(|part| part.identity == identity) {
                let path = path.clone();
                self.parts.push(Part { path, file, identity, offset: 0, lines: 0, end: 0 });
            }
        }
        for (n, part) in self.parts.iter_mut().enumerate() {
            // Files are read in sequence, so there is one lane.
            part.read(|line, what| found(Lane::default(), Place { file: n, line }, what))?;
        }
        Ok(())
    }
}

impl ReadBack for Tail {
    /// A line without a line break is not complete, and left for the next call.
    fn read(
        &mut self,
        _: &[Destination],
        found: &mut dyn FnMut(Lane, Place, TailEntry),
    ) -> Result<(), VerifyError> {
        self.read_all(found).map_err(VerifyError::File)
    }

    /// Where a file ends in the middle of a line: a write is in progress, or was interrupted.
    fn unfinished(&self) -> Vec<Place> {
        let parts = self.parts.iter().enumerate().filter(|(_, part)| part.end > part.offset);
        parts.map(|(file, part)| Place { file, line: part.lines + 1 }).collect()
    }

    fn missing(&self) -> Option<&Path> {
        self.missing.first().map(PathBuf::as_path)
    }

    fn name(&self, place: Place) -> String {
        let path = self.parts.get(place.file).map(|part| part.path.display().to_string());
        format!("{}:{}", path.unwrap_or_default(), place.line)
    }
}

fn open(path: &Path) -> io::Result<Option<File>> {
    // Opening a pipe would wait for a writer.
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
        Ok(there) if !there.is_file() => Err(io::Error::other("this is not a file")),
        Ok(_) => File::open(path).map(Some),
    }
}

impl Part {
    fn read(&mut self, mut found: impl FnMut(u64, TailEntry)) -> io::Result<()> {
        let end = self.file.metadata()?.len();
        if end < self.offset {
            // The file was truncated.
            (self.offset, self.lines) = (0, 0);
        }
        self.end = end;
        let mut bytes = Vec::new();
        let mut at = self.offset;
        while at < end {
            let known = bytes.len();
            let most = usize::try_from(end - at).unwrap_or(AT_ONCE).min(AT_ONCE);
            bytes.resize(known + most, 0);
            let read = read_at(&self.file, &mut bytes[known..], at)?;
            bytes.truncate(known + read);
            if read == 0 {
                break;
            }
            at += read as u64;
            let mut start = 0;
            for place in memchr::memchr_iter(b'\n', &bytes[known..]) {
                self.lines += 1;
                self.tell(&bytes[start..known + place], &mut found);
                start = known + place + 1;
            }
            self.offset += start as u64;
            bytes.drain(..start);
        }
        Ok(())
    }

    fn tell(&self, text: &[u8], found: &mut impl FnMut(u64, TailEntry)) {
        if text.is_empty() {
            return;
        }
        match line::read(text) {
            Some(published) => found(self.lines, TailEntry::Published(published)),
            None => {
                found(self.lines, TailEntry::Torn);
                if let Some(published) = line::read_behind(text) {
                    found(self.lines, TailEntry::Published(published));
                }
            }
        }
    }
}

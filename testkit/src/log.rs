//! The log file of a private server, looked at from where its latest run began.

use crate::error::ServerError;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Enough of a log to see why a server gave up.
const TAIL_LINES: usize = 30;

/// A log file and the length that it had when the current run began.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    start: usize,
}

impl Log {
    /// Sends what `command` will print to the end of the file at `path`.
    pub(crate) fn attach(path: &Path, command: &mut Command) -> Result<Self, ServerError> {
        let failed = |error| ServerError::caused(format!("cannot write {}", path.display()), error);
        let file: File = OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
        let start = file.metadata().map_err(failed)?.len();
        command.stdin(Stdio::null()).stdout(file.try_clone().map_err(failed)?).stderr(file);
        Ok(Self { path: path.to_owned(), start: usize::try_from(start).unwrap_or(usize::MAX) })
    }

    /// What this run has logged so far.
    pub(crate) fn text(&self) -> String {
        let bytes = fs::read(&self.path).unwrap_or_default();
        String::from_utf8_lossy(bytes.get(self.start..).unwrap_or_default()).into_owned()
    }

    /// The last lines of [`Self::text`].
    pub(crate) fn tail(&self) -> String {
        let text = self.text();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

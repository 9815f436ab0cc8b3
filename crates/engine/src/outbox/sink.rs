//! Sinks without a network: a file, and standard output. Both get one line per record.

mod batch;

#[cfg(unix)]
pub mod file;
pub mod stdout;
pub mod tail;

#[cfg(unix)]
pub use file::FileSink;
pub use stdout::StdoutSink;

use super::{Outcome, Publisher};
use crate::SystemClock;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use tidemill_domain::code::Code;
use tidemill_domain::outbox::Record;
use tidemill_domain::time::Clock;
use tokio::task::JoinError;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SinkAddress {
    File(PathBuf),
    Stdout,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SinkError {
    #[error("there is no sink {0:?}")]
    Unknown(String),
    #[error("the sink file: has no path")]
    NoPath,
    /// Writes there are not durable, or cannot be read back.
    #[error("{0} is not a regular file")]
    NotAFile(String),
    #[error("{path} cannot be written to: {why}")]
    NotWritable { path: String, why: String },
    /// Several writers cannot share a file there.
    #[error("{0} is a file, and Windows offers none as a sink")]
    NotOffered(String),
    #[error("what went to the sink {0} cannot be read back")]
    Unreadable(String),
}

impl SinkError {
    pub fn code(&self) -> Code {
        Code::BadSink
    }

    pub fn fix(&self) -> String {
        match self {
            Self::Unknown(_) | Self::NoPath => {
                "use kafka, file:PATH, such as file:/var/spool/events.jsonl, or stdout".into()
            }
            Self::NotAFile(_) => {
                "name a regular file, or one that is not there yet; for another program, use stdout and a pipe".into()
            }
            Self::NotWritable { .. } => {
                "make the folder, or name a file in another one; the user of this program has to be allowed to write there".into()
            }
            Self::NotOffered(_) => "use kafka or stdout, or run this relay on Linux".into(),
            Self::Unreadable(_) => "name the file that the records are in: file:PATH".into(),
        }
    }
}

impl FromStr for SinkAddress {
    type Err = SinkError;

    fn from_str(text: &str) -> Result<Self, SinkError> {
        match text.split_once(':') {
            Some(("file", "")) => Err(SinkError::NoPath),
            Some(("file", path)) => Ok(Self::File(path.into())),
            None if text == "stdout" => Ok(Self::Stdout),
            _ => Err(SinkError::Unknown(text.chars().take(100).collect())),
        }
    }
}

impl fmt::Display for SinkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Stdout => f.write_str("stdout"),
        }
    }
}

#[derive(Clone, Debug)]
pub struct SinkOptions {
    /// Sets the time of publication.
    pub clock: Arc<dyn Clock>,
    /// Longest line, if readers have a limit.
    pub max_record_bytes: Option<usize>,
}

impl Default for SinkOptions {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock::new()), max_record_bytes: None }
    }
}

/// Opens nothing yet: a file that cannot be written now may be writable when the first record comes.
pub fn open(text: &str, options: SinkOptions) -> Result<Arc<dyn Publisher>, SinkError> {
    Ok(match text.parse()? {
        #[cfg(windows)]
        SinkAddress::File(path) => return Err(SinkError::NotOffered(path.display().to_string())),
        #[cfg(unix)]
        SinkAddress::File(path) if !file::may_be_made(&path) => {
            return Err(SinkError::NotAFile(path.display().to_string()));
        }
        #[cfg(unix)]
        SinkAddress::File(path) => Arc::new(FileSink::new(path, options)),
        SinkAddress::Stdout => Arc::new(StdoutSink::new(options)),
    })
}

/// If the writing thread was lost, so may be what it wrote.
fn outcomes_of(answer: Result<Vec<Outcome>, JoinError>, records: &[Record]) -> Vec<Outcome> {
    let lost = |error: JoinError| Outcome::Unavailable { why: format!("the writing thread ended: {error}") };
    answer.unwrap_or_else(|error| vec![lost(error); records.len()])
}

/// Whether a sink could be written to now, without writing.
pub fn check(text: &str) -> Result<(), SinkError> {
    match text.parse()? {
        #[cfg(windows)]
        SinkAddress::File(path) => Err(SinkError::NotOffered(path.display().to_string())),
        #[cfg(unix)]
        SinkAddress::File(path) => file::check(&path),
        SinkAddress::Stdout => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_is_known_by_its_name() {
        let options = SinkOptions::default;

        assert_eq!(open("file:/a:b", options()).unwrap().name(), "file:/a:b");
        assert_eq!(open("stdout", options()).unwrap().name(), "stdout");
        assert_eq!(open("file:", options()).unwrap_err(), SinkError::NoPath);
        for text in ["", "kafka:host", "stdout:", "File:/a", "/var/events", "null"] {
            let error = open(text, options()).unwrap_err();
            assert_eq!(error, SinkError::Unknown(text.into()));
            assert!(error.fix().contains("file:PATH") && error.fix().contains("stdout"));
        }
    }

    #[test]
    fn a_file_that_cannot_be_made_is_known_before_anything_is_published() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: &str| {
            let name = format!("file:{}/{path}", folder.path().display());
            match check(&name).unwrap_err() {
                SinkError::NotWritable { path, why } => (path, why),
                other => panic!("{other:?}"),
            }
        };
        std::fs::write(folder.path().join("plain"), "").unwrap();

        let (path, why) = refused("absent/x.jsonl");
        assert!(path.ends_with("/absent/x.jsonl"), "{path}");
        assert!(why.contains("/absent: No such file"), "{why}");
        assert!(refused("plain/x.jsonl").1.contains("/plain: Not a directory"));
    }
}

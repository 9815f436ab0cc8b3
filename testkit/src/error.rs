//! Why a private server could not be had.

use std::fmt;
use std::io;

/// A server that could not be started, with the end of its log where it has one.
///
/// Its `Debug` is written for people too, because that is what a failing `unwrap` in a test shows.
pub struct ServerError {
    text: String,
    log: String,
    source: Option<io::Error>,
}

impl ServerError {
    /// An error that says only what happened.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), log: String::new(), source: None }
    }

    /// An error with the operating system's word for it.
    pub(crate) fn caused(text: impl Into<String>, source: io::Error) -> Self {
        Self { text: text.into(), log: String::new(), source: Some(source) }
    }

    /// The same error with what the server last logged.
    #[must_use]
    pub(crate) fn with_log(mut self, log: impl Into<String>) -> Self {
        self.log = log.into();
        self
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        if !self.log.is_empty() {
            write!(f, "; the end of its log:\n{}", self.log)?;
        }
        Ok(())
    }
}

impl fmt::Debug for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        if let Some(source) = &self.source {
            write!(f, "\ncaused by: {source}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

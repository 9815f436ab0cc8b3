//! What can go wrong between a test and its browser.

use serde_json::Value;
use std::fmt;
use std::io;
use std::time::Duration;

/// Why a browser did not do as it was told.
///
/// Its `Debug` is written for people, because that is what a failing `unwrap` in a test shows.
#[non_exhaustive]
pub enum WebDriverError {
    /// The driver said no, in its own words.
    Refused {
        /// The kind of refusal, from the list of the WebDriver standard.
        error: String,
        /// What it said about this case.
        message: String,
    },
    /// The driver did not answer in time, or a file could not be written.
    Unreachable(io::Error),
    /// The answer was not understood.
    Garbled(String),
    /// What a test waited for did not come.
    TimedOut {
        /// How long it waited.
        limit: Duration,
        /// The page at the end: its address and its text.
        page: String,
    },
}

impl WebDriverError {
    pub(super) fn refused(error: &str, message: String) -> Self {
        Self::Refused { error: error.to_owned(), message }
    }

    pub(super) fn garbled(answer: &Value) -> Self {
        Self::Garbled(answer.to_string())
    }

    /// Whether the element was there but has been replaced.
    pub(super) fn is_stale(&self) -> bool {
        self.is_one_of(&["stale element reference"])
    }

    /// Whether it may be otherwise in a moment.
    pub(super) fn is_of_the_moment(&self) -> bool {
        self.is_one_of(&["stale element reference", "no such element", "element not interactable"])
    }

    fn is_one_of(&self, kinds: &[&str]) -> bool {
        matches!(self, Self::Refused { error, .. } if kinds.contains(&error.as_str()))
    }
}

impl fmt::Display for WebDriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { error, message } => write!(f, "{error}: {message}"),
            Self::Unreachable(_) => f.write_str("the driver did not answer"),
            Self::Garbled(answer) => write!(f, "the driver's answer was not understood: {answer}"),
            Self::TimedOut { limit, page } => {
                write!(f, "it did not come within {limit:?}; the page then: {page}")
            }
        }
    }
}

impl fmt::Debug for WebDriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        if let Self::Unreachable(source) = self {
            write!(f, "\ncaused by: {source}")?;
        }
        Ok(())
    }
}

impl std::error::Error for WebDriverError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreachable(source) => Some(source),
            Self::Refused { .. } | Self::Garbled(_) | Self::TimedOut { .. } => None,
        }
    }
}

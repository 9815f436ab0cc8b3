//! Why a file cannot be read at all, or not from where the last run stopped. Each says what helps.

use crate::item::roots::RootsError;
use std::io;
use tidemill_domain::item::ItemError;

/// A file cannot be read. All of these end the step; one bad record does not, see
/// [`ErrorKind::PARSE`](tidemill_domain::item::ErrorKind::PARSE).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// It cannot be opened.
    #[error(
        "the input file {path} cannot be opened; check that it exists and may be read, then restart the job"
    )]
    Open {
        /// Which file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// It may not be used.
    #[error(transparent)]
    Outside(RootsError),
    /// It was opened, but reading fails.
    #[error("the input file {path} cannot be read to its end; mend or replace it, then restart the job")]
    Read {
        /// Which file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// It ends before the place where the last run stopped.
    #[error(
        "the input file {path} ends before byte {position}, where the last run stopped; \
         put back the file as it was and restart the job, or start the job anew"
    )]
    Shrunk {
        /// Which file.
        path: String,
        /// Where the last run stopped.
        position: u64,
    },
    /// No record begins where the last run stopped.
    #[error(
        "the input file {path} was changed: no record begins at byte {position}, where the last run stopped; \
         put back the file as it was and restart the job, or start the job anew"
    )]
    Changed {
        /// Which file.
        path: String,
        /// Where the last run stopped.
        position: u64,
    },
    /// It is gone, and was not yet read to its end.
    #[error(
        "the input file {path} is gone, and the last run had not finished it; put it back and restart the job"
    )]
    Vanished {
        /// Which file.
        path: String,
    },
    /// No file has such a name.
    #[error(
        "no file matches {pattern}; put the files there and restart the job, or allow that there are none"
    )]
    NoneMatches {
        /// The pattern.
        pattern: String,
    },
    /// More files than can be meant.
    #[error("more than {max} files match {pattern}; use a narrower pattern")]
    TooManyMatch {
        /// The pattern.
        pattern: String,
        /// How many are allowed.
        max: usize,
    },
    /// The pattern itself is wrong.
    #[error("{pattern} is not a pattern of file names; write * for any characters, ** for any folders")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Why.
        source: glob::PatternError,
    },
    /// A name that cannot be saved for a restart.
    #[error("the name of the file {path} is not UTF-8; rename it")]
    Name {
        /// The name, as well as it can be shown.
        path: String,
    },
    /// UTF-16, by its byte order mark.
    #[error("the input file {path} is UTF-16; convert it to UTF-8, for example with iconv")]
    Utf16 {
        /// Which file.
        path: String,
    },
    /// A quoted field does not end, so nobody can say where the next record begins.
    #[error(
        "the quote that opens in the record at {path} line {line} is not closed within {max} bytes or \
         before the end of the file; close it, then restart the job"
    )]
    QuoteNotClosed {
        /// Which file.
        path: String,
        /// The line in which the record begins.
        line: u64,
        /// How long a record may be.
        max: usize,
    },
    /// The reader was set up in a way that cannot work.
    #[error("the reader {reader:?} cannot read {path}: {reason}")]
    Setup {
        /// Name of the reader.
        reader: String,
        /// Which file or pattern.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// What was saved by the last run makes no sense.
    #[error(
        "the saved position of the reader {reader:?} is not understood: {key} is {value}; start the job anew"
    )]
    Saved {
        /// Name of the reader.
        reader: String,
        /// Which value.
        key: String,
        /// What it is.
        value: String,
    },
}

impl InputError {
    /// The error that ends a step.
    pub(crate) fn ending(self) -> ItemError {
        match self {
            Self::Outside(error) => error.ending(),
            other => ItemError::fatal(other),
        }
    }
}

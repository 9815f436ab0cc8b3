//! Why a file cannot be read, or not from where the last run stopped, and what helps.

use crate::item::RootsError;
use std::io;
use tidemill_domain::item::ItemError;

/// All of these end the step. An invalid record does not: its kind is `ErrorKind::PARSE`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error(
        "the input file {path} cannot be opened; check that it exists and may be read, then restart the job"
    )]
    Open { path: String, source: io::Error },
    #[error(transparent)]
    Outside(RootsError),
    #[error("the input file {path} cannot be read to its end; mend or replace it, then restart the job")]
    Read { path: String, source: io::Error },
    #[error(
        "the object {path} cannot be read to its end; check the access to it and restart the job; if it was replaced, \
         put it back as it was, or start the job anew"
    )]
    ReadObject { path: String, source: io::Error },
    #[error(
        "the input file {path} ends before byte {position}, where the last run stopped; \
         put back the file as it was and restart the job, or start the job anew"
    )]
    Shrunk { path: String, position: u64 },
    #[error(
        "the input file {path} was changed: no record begins at byte {position}, where the last run stopped; \
         put back the file as it was and restart the job, or start the job anew"
    )]
    Changed { path: String, position: u64 },
    #[error(
        "the object {path} was replaced after the last run stopped in it; \
         put back the object as it was and restart the job, or start the job anew"
    )]
    Replaced { path: String },
    #[error(
        "the input file {path} is gone, and the last run had not finished it; put it back and restart the job"
    )]
    Vanished { path: String },
    #[error(
        "no file matches {pattern}; put the files there and restart the job, or allow that there are none"
    )]
    NoneMatches { pattern: String },
    #[error("more than {max} files match {pattern}; use a narrower pattern")]
    TooManyMatch { pattern: String, max: usize },
    #[error(
        "{folder} has more than {max} objects, which all have to be listed to find those that match {pattern}; \
         begin the pattern with a longer folder"
    )]
    TooManyListed { pattern: String, folder: String, max: usize },
    #[error("{pattern} is not a pattern of file names; write * for any characters, ** for any folders")]
    Pattern { pattern: String, source: glob::PatternError },
    /// Such a name cannot be saved for a restart.
    #[error("the name of the file {path} is not UTF-8; rename it")]
    Name { path: String },
    #[error("the input file {path} is UTF-16; convert it to UTF-8, for example with iconv")]
    Utf16 { path: String },
    /// It is unknown where the next record begins.
    #[error(
        "the {what} at {path} line {line} is not closed within {max} bytes or before the end of the file; \
         close it, then restart the job"
    )]
    NotClosed { what: &'static str, path: String, line: u64, max: usize },
    #[error("the input file {path} is broken at line {line}: {reason}; mend it, then restart the job")]
    Broken { path: String, line: u64, reason: &'static str },
    #[error("the reader {reader:?} cannot read {path}: {reason}")]
    Setup { reader: String, path: String, reason: String },
    #[error(
        "the saved position of the reader {reader:?} is not understood: {key} is {value}; start the job anew"
    )]
    Saved { reader: String, key: String, value: String },
}

impl InputError {
    pub(crate) fn ending(self) -> ItemError {
        match self {
            Self::Outside(error) => error.ending(),
            other => ItemError::fatal(other),
        }
    }
}

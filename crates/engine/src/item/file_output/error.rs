//! Why a file cannot be written, and what helps.

use std::io;

/// All of these end the step.
#[derive(Debug, thiserror::Error)]
pub(super) enum OutputError {
    #[error(
        "the output file {path} exists already; move it away and restart the job, or allow to overwrite it"
    )]
    Exists { path: String },
    #[error("the output file {path} cannot be created; check that its folder exists and may be written to")]
    Create { path: String, source: io::Error },
    #[error("the output file {path} is being written by another run; wait for its end, or use another name")]
    InUse { path: String },
    #[error(
        "the unfinished output file {path} of the last run is gone; put it back and restart the job, \
         or start the job anew"
    )]
    Missing { path: String },
    #[error(
        "the unfinished output file {path} has {found} bytes, but the last run had committed {committed}; \
         put it back as it was and restart the job, or start the job anew"
    )]
    Short { path: String, found: u64, committed: u64 },
    #[error("the output file {path} cannot be written; check the space on its disk, then restart the job")]
    Write { path: String, source: io::Error },
    #[error("the finished output file cannot be renamed to {path}; check its folder, then restart the job")]
    Publish { path: String, source: io::Error },
    /// More items after the file got its final name.
    #[error(
        "the output file {path} was already published by an earlier run, but there are more items now; \
         start the job anew, with another name"
    )]
    Published { path: String },
}

//! Why a file cannot be written. Each says what helps.

use std::io;

/// A file cannot be written. All of these end the step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The target exists.
    #[error(
        "the output file {path} exists already; move it away and restart the job, or allow to overwrite it"
    )]
    Exists {
        /// Which file.
        path: String,
    },
    /// The part cannot be created or opened.
    #[error("the output file {path} cannot be created; check that its folder exists and may be written to")]
    Create {
        /// Which file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// Somebody else writes the same file.
    #[error("the output file {path} is being written by another run; wait for its end, or use another name")]
    InUse {
        /// Which file.
        path: String,
    },
    /// The part of the last run is gone.
    #[error(
        "the unfinished output file {path} of the last run is gone; put it back and restart the job, \
         or start the job anew"
    )]
    Missing {
        /// Which file.
        path: String,
    },
    /// The part of the last run is too short.
    #[error(
        "the unfinished output file {path} has {found} bytes, but the last run had committed {committed}; \
         put it back as it was and restart the job, or start the job anew"
    )]
    Short {
        /// Which file.
        path: String,
        /// How long it is.
        found: u64,
        /// How long it must be at least.
        committed: u64,
    },
    /// Writing failed.
    #[error("the output file {path} cannot be written; check the space on its disk, then restart the job")]
    Write {
        /// Which file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// It is complete, but cannot be given its name.
    #[error("the finished output file cannot be renamed to {path}; check its folder, then restart the job")]
    Publish {
        /// Which file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// There is more to write although it has its name already.
    #[error(
        "the output file {path} was already published by an earlier run, but there are more items now; \
         start the job anew, with another name"
    )]
    Published {
        /// Which file.
        path: String,
    },
}

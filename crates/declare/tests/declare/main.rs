//! Job files: what is wrong with one is told well, and what is right runs.
#![cfg(test)]

mod bad_jobs;
mod build;
mod docs;
mod folder;
mod hostile;
mod launch;

use std::path::{Path, PathBuf};

/// The root of the repository.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

//! Objects of a real S3 server, and of services that follow the other clouds.
#![cfg(test)]

mod cloud;
mod job;
mod list;
mod upload;

use std::path::PathBuf;
use tempfile::TempDir;
use tidemill_engine::item::storage;
use tidemill_objects::Objects;
use tidemill_testkit::moto::{BUCKET, PYTHON, PrivateMoto};
use tidemill_testkit::skip;

/// A server, and the folder for unfinished files. The storage is that of the process, so there is one for each test.
struct Lake {
    server: PrivateMoto,
    spool: TempDir,
}

impl Lake {
    fn new() -> Option<Self> {
        let python = skip::require("moto", std::env::var_os(PYTHON))?;
        let (server, spool) = (PrivateMoto::start(&python).unwrap(), tempfile::tempdir().unwrap());
        let lake = Self { server, spool };
        assert!(!storage::is_installed(), "each test has a process of its own");
        storage::install(lake.objects());
        Some(lake)
    }

    fn objects(&self) -> Objects {
        let options = self.server.variables().map(|(name, value)| (name.to_ascii_lowercase(), value));
        Objects::with(options, self.spool.path().join("spool"))
    }

    fn url(&self, key: &str) -> PathBuf {
        format!("s3://{BUCKET}/{key}").into()
    }

    fn text(&self, key: &str) -> Option<String> {
        self.server.get(key).unwrap().map(|bytes| String::from_utf8(bytes).unwrap())
    }

    /// The unfinished files.
    fn left(&self) -> usize {
        std::fs::read_dir(self.spool.path().join("spool")).map_or(0, |files| files.count())
    }
}

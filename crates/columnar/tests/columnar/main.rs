//! Files that pyarrow and fastavro have made, and files that they read.
#![cfg(test)]

mod reader;
mod writer;

use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;
use tidemill_domain::item::{ErrorKind, ItemError, Phase};
use tidemill_testkit::skip;

/// The variable that names a Python with pyarrow and fastavro.
const PYTHON: &str = "TIDEMILL_TEST_FORMATS_PYTHON";

const IMPORTS: &str = "
import json, os, sys, uuid, fastavro, pyarrow as pa, pyarrow.parquet as pq, pyarrow.ipc as ipc
from datetime import date, datetime, time, timezone
from decimal import Decimal
";

/// Threads of pyarrow may still end while Python does, which aborts it.
const END: &str = "\nsys.stdout.flush()\nos._exit(0)\n";

/// A folder for the files of one test.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn names(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// What a program in Python prints; none if these tests are skipped.
    fn python(&self, program: &str) -> Option<String> {
        let python = skip::require("formats", std::env::var_os(PYTHON))?;
        let program = format!("{IMPORTS}{program}{END}");
        let ran = Command::new(python).arg("-c").arg(program).current_dir(&self.0).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        Some(String::from_utf8(ran.stdout).unwrap().trim().to_owned())
    }
}

/// The error of a step that cannot go on.
fn fatal<T>(result: Result<T, ItemError>) -> String {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => {
            assert_eq!(error.kind_in(Phase::Read), ErrorKind::FATAL, "{error}");
            error.text()
        }
    }
}

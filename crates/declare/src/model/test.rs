//! The content of a test file: what a job gets, and what has to come of it.

use super::At;
use crate::Source;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tidemill_domain::job::BatchStatus;
use tidemill_domain::time::Timestamp;

#[derive(Clone, PartialEq, Debug)]
pub struct TestFile {
    pub path: PathBuf,
    pub cases: Vec<TestCase>,
    pub source: Source,
}

#[derive(Clone, PartialEq, Debug)]
pub struct TestCase {
    pub name: At<String>,
    /// The time of the test.
    pub now: Option<Timestamp>,
    pub parameters: Vec<(String, String)>,
    pub files: Vec<(String, FileContent)>,
    /// The job's own database.
    pub database: DatabaseContent,
    /// Other databases, by the name of their connection.
    pub connections: BTreeMap<String, DatabaseContent>,
    pub expect: Expectation,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileContent {
    Text(String),
    /// A copy of this file, seen from the folder of the test file.
    From(String),
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct DatabaseContent {
    pub statements: Vec<String>,
    pub tables: Vec<(String, TestRows)>,
}

/// Values as texts; none is null. Every row has all columns.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TestRows {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Option<String>>>,
}

/// Only what is named is compared.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Expectation {
    /// COMPLETED by default.
    pub status: Option<BatchStatus>,
    pub exit_code: Option<String>,
    /// A part of the exit description.
    pub message: Option<String>,
    /// By step: names of counters, and `status` and `exit_code`.
    pub steps: Vec<(String, Vec<(String, String)>)>,
    pub tables: Vec<(String, TestRows)>,
    pub files: Vec<(String, FileContent)>,
}

impl Expectation {
    /// Whether it expects nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

//! Runs a case: in an empty folder, on new databases of SQLite, with a clock that stands still.

use super::diff::Found;
use crate::commands::prelude::*;
use std::collections::BTreeMap;
use std::env;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidemill_declare::build::{self, Building, Reach};
use tidemill_declare::model::{DatabaseContent, FileContent, JobFile, TestCase, TestRows};
use tidemill_domain::item::{ItemError, Value};
use tidemill_domain::job::parameter::parse_arguments;
use tidemill_domain::job::{Counters, ExecutionContext};
use tidemill_domain::time::{FakeClock, Timestamp};
use tidemill_engine::item::sql::{CursorReader, Database, SqlQuery};
use tidemill_engine::testing::{JobBench, TestRun};
use tidemill_kafka::KafkaError;
use tidemill_store::{Init, Store, StoreOptions};

/// 2026-11-15 02:00 UTC.
const NOW: Timestamp = Timestamp::from_micros(1_794_708_000_000_000);

/// A job, and what its tests share.
pub(super) struct Bench {
    pub(super) job: JobFile,
    pub(super) others: Vec<JobFile>,
    pub(super) connections: Vec<String>,
    /// The folder of the test file; absolute.
    pub(super) folder: PathBuf,
}

impl Bench {
    /// The inner error says why the job did not start.
    pub(super) async fn run(&self, case: &TestCase) -> Result<Result<Found, String>> {
        let failed = |what: &str, why: &dyn Display| {
            let what = format!("the case {:?} cannot run: {what}", case.name.value);
            Failure::new(Code::BadJobFile, what, "correct `given` of the case").because(why)
        };
        let temporary =
            || tempfile::tempdir().map_err(|error| failed("there is no temporary folder", &error));
        let (folder, databases) = (temporary()?, temporary()?);
        for (name, content) in &case.files {
            self.put(folder.path(), name, content)
                .map_err(|error| failed(&format!("file {name}"), &error))?;
        }
        let clock = Arc::new(FakeClock::at(case.now.unwrap_or(NOW)));
        let options = StoreOptions { clock: Some(clock.clone()), ..StoreOptions::default() };
        let url = format!("sqlite://{}", databases.path().join("job.db").display());
        let store = Store::open(url.parse()?, &options).await?;
        store.initialise(Init::Always).await?;
        let own = Database::of(&store);
        fill(&own, &case.database).await.map_err(|error| failed("its database", &error))?;
        let mut connections = BTreeMap::new();
        for name in &self.connections {
            let path = databases.path().join(format!("{name}.connection.db"));
            fs::write(&path, "").map_err(|error| failed(name, &error))?;
            let database = Database::connect(&format!("sqlite://{}", path.display()))?;
            let content = case.connections.get(name).cloned().unwrap_or_default();
            fill(&database, &content).await.map_err(|error| failed(&format!("connection {name}"), &error))?;
            connections.insert(name.clone(), database);
        }
        let kafka = Err(&KafkaError::NoServers);
        let building = Building { connections: &connections, kafka, jobs: &self.others, reach: &Reach::Any };
        let job = build::job(&self.job, &building)?;
        let arguments: Vec<String> =
            case.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let parameters = match parse_arguments(arguments.iter().map(String::as_str), job.parameters()) {
            Ok(parameters) => parameters,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let bench = JobBench::on(store, clock).await?;
        let run = {
            let _inside = Inside::enter(folder.path()).map_err(|error| failed("its folder", &error))?;
            bench.run(&job, &parameters).await
        };
        match run {
            Ok(run) => Ok(Ok(found(case, &run, &own, folder.path()).await)),
            Err(error) => Ok(Err(format!("the job did not start: {error}"))),
        }
    }

    fn put(&self, folder: &Path, name: &str, content: &FileContent) -> std::io::Result<()> {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        match content {
            FileContent::Text(text) => fs::write(path, text),
            // Permissions too, for programs.
            FileContent::From(from) => fs::copy(self.folder.join(from), path).map(drop),
        }
    }

    /// The expected files with their contents.
    pub(super) fn expected_files(&self, case: &TestCase) -> Result<Vec<(String, Vec<u8>)>> {
        let read = |(name, content): &(String, FileContent)| {
            let bytes = match content {
                FileContent::Text(text) => text.clone().into_bytes(),
                FileContent::From(from) => fs::read(self.folder.join(from)).map_err(|error| {
                    let what = format!("the expected file {from} cannot be read");
                    Failure::new(Code::BadJobFile, what, "correct the path, or create the file")
                        .because(error)
                })?,
            };
            Ok((name.clone(), bytes))
        };
        case.expect.files.iter().map(read).collect()
    }
}

/// The working folder of the process, until it is dropped: paths of job files are seen from there.
struct Inside(PathBuf);

impl Inside {
    fn enter(folder: &Path) -> std::io::Result<Self> {
        let before = env::current_dir()?;
        env::set_current_dir(folder)?;
        Ok(Self(before))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if let Err(error) = env::set_current_dir(&self.0) {
            tracing::error!(%error, "cannot return to the folder {}", self.0.display());
        }
    }
}

async fn fill(database: &Database, content: &DatabaseContent) -> Result<(), ItemError> {
    let mut statements: Vec<SqlQuery> = content.statements.iter().map(SqlQuery::new).collect();
    for (table, TestRows { columns, rows }) in &content.tables {
        let names: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
        let places = vec!["?"; columns.len()].join(", ");
        let insert = format!("insert into {} ({}) values ({places})", quoted(table), names.join(", "));
        for row in rows {
            let values = row.iter().map(|cell| cell.as_deref().map_or(Value::Null, Value::from));
            statements.push(values.fold(SqlQuery::new(&insert), SqlQuery::bind));
        }
    }
    database.run_statements(&statements).await.map(drop)
}

async fn found(case: &TestCase, run: &TestRun, own: &Database, folder: &Path) -> Found {
    let mut tables = BTreeMap::new();
    for (table, expected) in &case.expect.tables {
        let found = rows(own, table, &expected.columns).await.map_err(|error| error.text());
        tables.insert(table.clone(), found);
    }
    Found {
        status: run.end.status,
        exit_code: run.end.exit.code.clone(),
        message: run.end.exit.description.clone(),
        steps: run
            .steps()
            .map(|step| {
                let mut values = counted(&step.counters);
                values.push(("status", step.status.to_string()));
                values.push(("exit_code", step.exit.code.clone()));
                (step.name.clone(), values)
            })
            .collect(),
        tables,
        files: case
            .expect
            .files
            .iter()
            .map(|(name, _)| (name.clone(), fs::read(folder.join(name)).ok()))
            .collect(),
    }
}

fn counted(counters: &Counters) -> Vec<(&'static str, String)> {
    let values = [
        ("read", counters.read),
        ("written", counters.write),
        ("filtered", counters.filter),
        ("skipped", counters.skips()),
    ];
    values.map(|(name, value)| (name, value.to_string())).to_vec()
}

/// The rows of a table in the order of their values.
async fn rows(database: &Database, table: &str, columns: &[String]) -> Result<TestRows, ItemError> {
    let names: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
    let names = if names.is_empty() { "*".to_owned() } else { names.join(", ") };
    let query = SqlQuery::new(format!("select {names} from {}", quoted(table)));
    let mut reader = CursorReader::new("test", database.clone(), query);
    reader.open(&ExecutionContext::new()).await?;
    let mut found = TestRows { columns: columns.to_vec(), rows: Vec::new() };
    while let Some(row) = reader.read().await? {
        found.columns = row.columns().to_vec();
        let cells = row.values().iter().map(|value| (!value.is_null()).then(|| value.to_string()));
        found.rows.push(cells.collect());
    }
    reader.close().await;
    found.rows.sort_by_cached_key(|row| key(row));
    Ok(found)
}

/// Whole numbers in their order, before texts.
fn key(row: &[Option<String>]) -> Vec<(Option<i64>, Option<String>)> {
    row.iter().map(|cell| (cell.as_ref().and_then(|text| text.parse().ok()), cell.clone())).collect()
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

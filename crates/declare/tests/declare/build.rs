//! Jobs that are built of files and really run, on both databases.

mod assert;
mod flow;
mod http;
mod issue;
mod lookup;
mod objects;
mod outbox;
mod parameter;
mod pool;
mod reach;
mod reject;
mod row;
mod set;
mod sort;
mod transfer;
mod validate;
mod write;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tidemill_declare::build::{Building, Reach, job};
use tidemill_declare::model::JobFile;
use tidemill_declare::read;
use tidemill_domain::job::parameter::parse_arguments;
use tidemill_domain::time::FakeClock;
use tidemill_engine::job::{Job, JobError};
use tidemill_engine::testing::{JobBench, TestRun};
use tidemill_kafka::KafkaError;
use tidemill_store::item::Database;
use tidemill_store::scratch::Scratch;
use tidemill_store::sqlx;

/// A bench on a scratch database, and a folder for files. `@` in a job file stands for that folder.
struct Stand {
    bench: JobBench,
    folder: TempDir,
    connections: BTreeMap<String, Database>,
    scratch: Scratch,
}

impl Stand {
    async fn on(scratch: Scratch) -> Self {
        let clock = Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().unwrap()));
        let store = scratch.store(Some(clock.clone())).await.unwrap();
        let bench = JobBench::on(store, clock).await.unwrap();
        Self { bench, folder: TempDir::new().unwrap(), connections: BTreeMap::new(), scratch }
    }

    async fn sql(&self, statements: &[&str]) {
        let mut tx = self.bench.store().begin().await.unwrap();
        for statement in statements {
            tx.execute_for_test(statement).await.unwrap();
        }
        tx.commit().await.unwrap();
    }

    /// The first column of a query, which has to be a text.
    async fn texts(&self, query: &'static str) -> Vec<String> {
        let mut tx = self.bench.store().read().await.unwrap();
        let rows: Vec<(String,)> = if let Some(postgres) = tx.postgres() {
            sqlx::query_as(query).fetch_all(postgres).await.unwrap()
        } else {
            sqlx::query_as(query).fetch_all(tx.sqlite().unwrap()).await.unwrap()
        };
        rows.into_iter().map(|(text,)| text).collect()
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.path().join(name), content).unwrap();
    }

    fn content(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }

    fn file(&self, text: &str) -> JobFile {
        let text = text.replace('@', self.path().to_str().unwrap());
        read("job.yaml", &text).unwrap_or_else(|problems| panic!("{problems}"))
    }

    /// The job of the first text; the others are those that it may run.
    fn job(&self, texts: &[&str]) -> Job {
        self.reaching(&Reach::Any, texts)
    }

    /// The same with other files that it may read and write.
    fn reaching(&self, reach: &Reach, texts: &[&str]) -> Job {
        let files: Vec<JobFile> = texts.iter().map(|text| self.file(text)).collect();
        let kafka = Err(&KafkaError::NoServers);
        let building = Building { connections: &self.connections, kafka, jobs: &files, reach };
        job(&files[0], &building).unwrap_or_else(|problems| panic!("{problems}"))
    }

    async fn run(&self, text: &str, arguments: &[&str]) -> TestRun {
        self.launch(&self.job(&[text]), arguments).await.unwrap()
    }

    async fn launch(&self, job: &Job, arguments: &[&str]) -> Result<TestRun, JobError> {
        let parameters = parse_arguments(arguments.iter().copied(), job.parameters()).unwrap();
        self.bench.run(job, &parameters).await
    }
}

/// What a file says that cannot be built.
fn refusal(text: &str) -> String {
    let file = read("job.yaml", text).unwrap_or_else(|problems| panic!("{problems}"));
    let (connections, kafka) = (&BTreeMap::new(), Err(&KafkaError::NoServers));
    job(&file, &Building { connections, kafka, jobs: &[], reach: &Reach::Any }).unwrap_err().to_string()
}

#[test]
fn the_guide_shows_the_example_and_every_function() {
    let read = |path: &str| std::fs::read_to_string(crate::workspace().join(path)).unwrap();
    let guide = read("docs/guide/job-files.md");
    let example = read("examples/jobs/transfers.yaml");

    let from = example.find("job: ").unwrap();
    assert!(guide.contains(&format!("```yaml\n{}```", &example[from..])), "the guide has another example");
    for function in tidemill_declare::expression::FUNCTIONS {
        let line = format!("| `{}` | {} |\n", function.usage, function.purpose);
        assert!(guide.contains(&line), "the guide has no {line}");
    }
}

#[test]
fn a_connection_that_nobody_configured_is_told() {
    let told = refusal(
        "job: j\nsteps:\n  - name: s\n    chunk: 1\n    read: { sql: { query: select 1, connection: shop } }\n    write: { jsonl: { path: b } }\n",
    );

    assert!(told.contains("there is no connection \"shop\"; there are none"), "{told}");
    assert!(told.contains("[connections.shop]"), "{told}");
}

//! The import job of the demo. Its file has a bad line: the job fails there, the line is corrected, and the restarted
//! job resumes after the last committed chunk.

use super::{Stage, Verdicts, failure, unexpected};
use crate::report::Result;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::item::{ItemError, Value};
use tidemill_domain::job::{BatchStatus, JobParameters};
use tidemill_domain::process::Identity;
use tidemill_domain::time::Clock;
use tidemill_engine::item::sql::SqlWriter;
use tidemill_engine::item::{AsyncProcessor, CsvReader};
use tidemill_engine::job::{Job, JobRegistry, Launcher, Step};
use tidemill_engine::{Process, ProcessOptions, SystemClock};
use tidemill_store::Store;
use tidemill_store::demo::DemoPayments;

/// How large a file is, and how fast it is imported.
#[derive(Clone, Copy)]
pub(super) struct Size {
    rows: u32,
    bad_row: u32,
    chunk: u32,
    /// For each row.
    delay: Duration,
}

const LARGE: Size = Size { rows: 100_000, bad_row: 61_000, chunk: 500, delay: Duration::ZERO };

/// Slow enough to watch its progress.
pub(super) const SMALL: Size = Size { rows: 600, bad_row: 370, chunk: 50, delay: Duration::from_millis(10) };

/// How long a failed import stays failed before its file is corrected.
const FAILED_FOR: Duration = Duration::from_secs(4);

/// Files have no ids in common.
const IDS_PER_FILE: u64 = 1_000_000;

#[derive(Serialize, Deserialize)]
struct Payment {
    id: i64,
    account: String,
    cents: i64,
}

/// Imports a large file in two runs, and verifies the table.
pub(super) async fn perform(stage: &Stage<'_>, verdicts: &mut Verdicts) -> Result<()> {
    let store = stage.store;
    let mut tx = store.begin().await?;
    tx.demo().create_payments().await?;
    tx.commit().await?;
    let imports = Imports::start(stage, LARGE).await?;
    let Size { rows: all, bad_row, .. } = LARGE;
    stage.context.note(&format!("the job import reads {all} rows; row {bad_row} is bad"));
    imports.write(0, Some(bad_row))?;
    let status = imports.launch(0).await?;
    let committed = count(store).await?.rows;
    verdicts.add(
        status == BatchStatus::Failed && committed == u64::from(LARGE.rows_before_failure()),
        format!("the import failed at row {bad_row} with {committed} rows committed, in whole chunks"),
    );
    imports.write(0, None)?;
    let (clock, start) = (&imports.clock, imports.clock.monotonic());
    let status = imports.launch(0).await?;
    let took = clock.monotonic().since(start).as_secs_f64();
    let DemoPayments { rows, distinct } = count(store).await?;
    verdicts.add(
        status == BatchStatus::Completed && rows == u64::from(all) && distinct == rows,
        format!(
            "the restarted import resumed after row {committed} and completed in {took:.1} s: {rows} rows, {} duplicates",
            rows - distinct
        ),
    );
    imports.end().await
}

async fn count(store: &Store) -> Result<DemoPayments> {
    Ok(store.read().await?.demo().payments().await?)
}

pub(super) struct Imports {
    process: Process,
    launcher: Launcher,
    clock: Arc<SystemClock>,
    folder: PathBuf,
    size: Size,
}

impl Imports {
    pub(super) async fn start(stage: &Stage<'_>, size: Size) -> Result<Self> {
        let Stage { context, store, setup, .. } = *stage;
        let clock = Arc::new(SystemClock::new());
        let identity = Identity { name: "importer".to_owned(), ..context.identity() };
        let options = ProcessOptions { identity, ..context.process_options() };
        let process = Process::start(store.clone(), clock.clone(), options).await?;
        let jobs = JobRegistry::new([job(setup.folder.clone(), size)])?;
        let launcher = Launcher::new(store.clone(), process.clone(), clock.clone(), jobs);
        Ok(Self { process, launcher, clock, folder: setup.folder.clone(), size })
    }

    /// Imports one file: fails, corrects the file, and resumes.
    pub(super) async fn play(&self, round: u32) -> Result<()> {
        self.write(round, Some(self.size.bad_row))?;
        let first = self.launch(round).await?;
        tokio::time::sleep(FAILED_FOR).await;
        self.write(round, None)?;
        let second = self.launch(round).await?;
        if (first, second) != (BatchStatus::Failed, BatchStatus::Completed) {
            return Err(failure(&format!("the import ended with {first:?} and then {second:?}")));
        }
        std::fs::remove_file(self.folder.join(file_name(round))).map_err(unexpected)
    }

    fn write(&self, round: u32, bad_row: Option<u32>) -> Result<()> {
        let text = csv(round, self.size.rows, bad_row);
        std::fs::write(self.folder.join(file_name(round)), text).map_err(unexpected)
    }

    async fn launch(&self, round: u32) -> Result<BatchStatus> {
        let parameters = JobParameters::new().with("file", file_name(round));
        let running = self.launcher.launch("import", &parameters, &Actor::system()).await?;
        Ok(running.ended().await?.status)
    }

    pub(super) async fn end(self) -> Result<()> {
        Ok(self.process.stop().await?)
    }
}

impl Size {
    /// Rows in the whole chunks before the bad row.
    const fn rows_before_failure(self) -> u32 {
        let before = self.bad_row - 1;
        before - before % self.chunk
    }
}

fn file_name(round: u32) -> String {
    format!("payments-{round}.csv")
}

fn csv(round: u32, rows: u32, bad_row: Option<u32>) -> String {
    let mut text = "id,account,cents\n".to_owned();
    for row in 1..=rows {
        let id = u64::from(round) * IDS_PER_FILE + u64::from(row);
        let cents = if bad_row == Some(row) { "twelve".to_owned() } else { (row * 31 % 100_000).to_string() };
        let _infallible = writeln!(text, "{id},KR-{:06},{cents}", row * 7919 % 1_000_000);
    }
    text
}

fn job(folder: PathBuf, size: Size) -> Job {
    let step = Step::chunk("load", size.chunk as usize)
        .reader_with(move |scope| {
            Ok(CsvReader::<Payment>::new("payments", folder.join(scope.text("file")?)).count_total())
        })
        .process(AsyncProcessor(move |payment: &Payment| {
            let row = [Value::from(payment.id), payment.account.as_str().into(), payment.cents.into()];
            async move {
                if !size.delay.is_zero() {
                    tokio::time::sleep(size.delay).await;
                }
                Ok::<_, ItemError>(Some(row))
            }
        }))
        .writer_with(|scope| {
            let values = |row: &[Value; 3]| row.to_vec();
            Ok(SqlWriter::new(scope.store(), "demo_payment", ["id", "account", "cents"], values))
        });
    Job::new("import").step(step.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_chunks_before_the_failure_are_committed() {
        assert_eq!(LARGE.rows_before_failure(), 60_500);
    }

    #[test]
    fn one_line_is_corrected_and_files_have_no_line_in_common() {
        let (bad, corrected) = (csv(3, SMALL.rows, Some(SMALL.bad_row)), csv(3, SMALL.rows, None));

        let pairs = bad.lines().zip(corrected.lines()).enumerate();
        let differing: Vec<usize> = pairs.filter(|(_, (a, b))| a != b).map(|(line, _)| line).collect();
        assert_eq!(differing, [SMALL.bad_row as usize]);
        assert!(csv(4, SMALL.rows, None).lines().skip(1).all(|line| !corrected.contains(line)));
    }
}

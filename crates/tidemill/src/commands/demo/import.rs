//! A job of the demo: it imports a file, fails on purpose in the middle, and goes on where it was.

mod daily;

pub(super) use daily::Imports;

use super::verdict::Verdicts;
use crate::context::Context;
use crate::report::Failure;
use serde::{Deserialize, Serialize};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tidemill_domain::audit::Actor;
use tidemill_domain::item::{ErrorKind, ItemError, Value};
use tidemill_domain::job::{BatchStatus, JobParameters};
use tidemill_domain::time::Clock;
use tidemill_engine::item::CsvReader;
use tidemill_engine::item::sql::SqlWriter;
use tidemill_engine::job::{ExecutionEnd, Job, JobRegistry, Launcher, Step};
use tidemill_engine::{Process, SystemClock};
use tidemill_store::Store;
use tidemill_store::demo::DemoPayments;

const ROWS: u64 = 100_000;
const FAILS_AT: i64 = 61_000;
const CHUNK: usize = 500;

#[derive(Serialize, Deserialize)]
struct Payment {
    id: i64,
    account: String,
    cents: i64,
}

/// Imports the file in two runs, and verifies what is in the table.
pub(super) async fn perform(
    store: &Store,
    folder: &Path,
    context: &Context,
    verdicts: &mut Verdicts,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::unexpected("the file of the demo was not written", &error);
    let path = write_file(folder).map_err(failed)?;
    create_table(store).await?;
    let clock = Arc::new(SystemClock::new());
    let process = Process::start(store.clone(), clock.clone(), context.process_options()).await?;
    let has_failed = Arc::new(AtomicBool::new(false));
    let jobs = JobRegistry::new([job(path, has_failed)])?;
    let launcher = Launcher::new(store.clone(), process.clone(), clock.clone(), jobs);

    context.note(&format!("job import reads {ROWS} rows and fails on purpose at row {FAILS_AT}"));
    let first = launch(&launcher).await?;
    let committed = count(store).await?.rows;
    verdicts.add(
        first.status == BatchStatus::Failed && committed == first_rows(),
        format!("the import failed at row {FAILS_AT} with {committed} rows committed, whole chunks only"),
    );
    let start = clock.monotonic();
    let second = launch(&launcher).await?;
    let took = clock.monotonic().since(start).as_secs_f64();
    let DemoPayments { rows, distinct } = count(store).await?;
    verdicts.add(
        second.status == BatchStatus::Completed && rows == ROWS && distinct == ROWS,
        format!(
            "restarted, it went on behind row {committed} and completed in {took:.1} s: {rows} rows, {} duplicates",
            rows - distinct
        ),
    );
    process.stop().await?;
    Ok(())
}

/// Rows in chunks that are complete before the failing one.
fn first_rows() -> u64 {
    let before = FAILS_AT.unsigned_abs() - 1;
    before - before % CHUNK as u64
}

fn write_file(folder: &Path) -> std::io::Result<PathBuf> {
    let path = folder.join("payments.csv");
    let mut file = BufWriter::new(std::fs::File::create(&path)?);
    writeln!(file, "id,account,cents")?;
    for id in 1..=ROWS {
        writeln!(file, "{id},KR-{:06},{}", id * 7919 % 1_000_000, id * 31 % 100_000)?;
    }
    file.flush()?;
    Ok(path)
}

fn job(path: PathBuf, has_failed: Arc<AtomicBool>) -> Job {
    let step = Step::chunk("load", CHUNK)
        .reader(CsvReader::<Payment>::new("payments", &path).count_total())
        .process(move |payment: &Payment| {
            if payment.id == FAILS_AT && !has_failed.swap(true, Ordering::SeqCst) {
                return Err(ItemError::new(ErrorKind::PROCESS, "the demo fails here on purpose"));
            }
            Ok(Some([Value::from(payment.id), payment.account.as_str().into(), payment.cents.into()]))
        })
        .writer_with(|scope| {
            let values = |row: &[Value; 3]| row.to_vec();
            Ok(SqlWriter::new(scope.store(), "demo_payment", ["id", "account", "cents"], values))
        });
    Job::new("import").step(step.build())
}

async fn launch(launcher: &Launcher) -> Result<ExecutionEnd, Failure> {
    let parameters = JobParameters::new().with("file", "payments.csv");
    let running = launcher.launch("import", &parameters, &Actor::system()).await?;
    Ok(running.ended().await?)
}

async fn create_table(store: &Store) -> Result<(), Failure> {
    let mut tx = store.begin().await?;
    tx.demo().create_payments().await?;
    Ok(tx.commit().await?)
}

async fn count(store: &Store) -> Result<DemoPayments, Failure> {
    let mut tx = store.read().await?;
    let counted = tx.demo().payments().await?;
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_chunks_before_the_failure_are_committed() {
        assert_eq!(first_rows(), 60_500);
    }
}

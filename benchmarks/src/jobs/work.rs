//! Our job, with one chunk step.

use super::case::{COLUMNS, Case, Measured, Task};
use super::cpu::own_seconds;
use anyhow::{Context, Result, bail, ensure};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::item::Row;
use tidemill_domain::job::{BatchStatus, JobParameters};
use tidemill_domain::process::Identity;
use tidemill_domain::time::Clock;
use tidemill_engine::item::CsvReader;
use tidemill_engine::item::sql::{CursorReader, Database, Mode, SqlQuery, SqlWriter};
use tidemill_engine::job::{Job, JobRegistry, Launcher, Step};
use tidemill_engine::{Process, ProcessOptions, SystemClock};
use tidemill_store::{Init, Store, StoreOptions};

pub(super) async fn run(task: &Task) -> Result<Measured> {
    let store = Store::open(task.url.parse()?, &StoreOptions::default()).await?;
    store.initialise(Init::Always).await?;
    if matches!(task.case, Case::CsvIntoSqlite { .. }) {
        make_target(&store).await?;
    }
    let clock = Arc::new(SystemClock::new());
    let identity =
        Identity { name: "bench".into(), host: "host".into(), pid: std::process::id(), version: "0".into() };
    let options = ProcessOptions { identity, ttl: Duration::from_secs(15) };
    let process = Process::start(store.clone(), clock.clone(), options).await?;
    let jobs = JobRegistry::new([job(task)?])?;
    let launcher = Launcher::new(store.clone(), process.clone(), clock.clone(), jobs);
    let run = i64::from(std::process::id());
    let (start, cpu) = (clock.monotonic(), own_seconds()?);
    let running = launcher.launch("bench", &JobParameters::new().with("run", run), &Actor::system()).await?;
    let end = running.ended().await?;
    let seconds = clock.monotonic().since(start).as_secs_f64();
    let cpu_seconds = Some(own_seconds()? - cpu);
    ensure!(end.status == BatchStatus::Completed, "{}", end.exit.description);
    let steps = store.read().await?.jobs().steps(end.execution).await?;
    ensure!(steps.iter().map(|step| step.counters.write).sum::<u64>() == task.rows, "rows are missing");
    process.stop().await?;
    let resident_mb = Some(resident_mb()?);
    Ok(Measured { rows: task.rows, seconds, resident_mb, cpu_seconds, server_seconds: 0.0 })
}

/// Creates a new target in SQLite, with the column types of a CSV file.
async fn make_target(store: &Store) -> Result<()> {
    let mut tx = store.begin().await?;
    let connection = tx.sqlite().context("this is SQLite")?;
    for statement in [
        "drop table if exists target",
        "create table target (id integer primary key, account text, amount text, currency text, booked_at text, \
         note text, is_open text)",
    ] {
        tidemill_store::sqlx::query(statement).execute(&mut *connection).await?;
    }
    tx.commit().await?;
    Ok(())
}

fn job(task: &Task) -> Result<Job> {
    let (chunk, mode) = match task.case {
        Case::Copy { chunk } | Case::Csv { chunk, .. } | Case::CsvIntoSqlite { chunk } => (chunk, Mode::Copy),
        Case::Insert { chunk } => (chunk, Mode::Insert),
        _ => bail!("not one of ours"),
    };
    let (start, rows) = (Step::chunk("all", chunk), task.rows);
    let threads = if let Case::Csv { threads, .. } = task.case { threads } else { 1 };
    let step = if matches!(task.case, Case::Csv { .. } | Case::CsvIntoSqlite { .. }) {
        start
            .reader(CsvReader::<Row>::rows("source", &task.csv))
            .writer_with(
                move |scope| Ok(SqlWriter::rows(scope.store(), "target", COLUMNS).mode(mode.clone())),
            )
            .threads(threads)
            .build()
    } else {
        start
            .reader_with(move |scope| {
                let columns = COLUMNS.join(", ");
                let query =
                    SqlQuery::new(format!("select {columns} from source where id <= {rows} order by id"));
                Ok(CursorReader::new("source", Database::of(scope.store()), query).fetch_size(2000))
            })
            .writer_with(
                move |scope| Ok(SqlWriter::rows(scope.store(), "target", COLUMNS).mode(mode.clone())),
            )
            .build()
    };
    Ok(Job::new("bench").step(step))
}

/// The peak resident memory of this process.
fn resident_mb() -> Result<f64> {
    peak_mb(&std::fs::read_to_string("/proc/self/status")?).context("the kernel tells it")
}

/// The peak resident memory that the kernel tells of a process.
pub(super) fn peak_mb(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib / 1024.0)
}

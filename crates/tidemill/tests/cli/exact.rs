//! Jobs are exact: whatever happens to a process, each row is there once, and what was counted agrees.
//!
//! The program is the example `crash_sweep`. Each test names its runs; a run whose name begins with `scan` meets
//! two numbers that the table refuses, so that its step skips them by writing one by one.

mod commit;
mod crash;
mod deaths;
mod file;
mod files;
mod formats;
mod ghost;
mod objects;
mod rows;
mod scan;
mod sql;
mod stop;
mod writers;

use crate::examples::Program;
use crate::{Ran, Stage};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;
use tidemill_domain::job::{BatchStatus, ExecutionId};
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::Store;
use tidemill_store::job::{ExecutionDetail, ExecutionFilter, StepRecord};
use tidemill_store::scratch::Scratch;
use tidemill_store::sqlx;
use tidemill_testkit::Guarded;

/// How long the word of a process counts that is to die: longer than a busy machine lets it wait. That of all others
/// counts for longer than any test takes.
pub(crate) const LEASE: Duration = Duration::from_secs(20);

/// How much later than that a dead process must have been found. Five seconds are promised, and a busy machine takes
/// longer; whoever looks too seldom, or by the wrong lease, is later than this. That the pauses between looks keep to the
/// five seconds is tested where they are: in `reaper.rs` of the engine.
pub(crate) const GRACE: Duration = Duration::from_secs(40);

const PATIENCE: Duration = Duration::from_secs(180);

/// The numbers that the table refuses in a run of this kind.
const REFUSED: [i64; 2] = [17, 34];

const TABLE: &str = "create table swept (
    run text not null,
    id bigint not null,
    check (run not like 'scan%' or id not in (17, 34))
)";

/// A database, and the program that sweeps it.
struct Ground {
    program: Program,
    store: Store,
    database: Scratch,
}

/// One run of a job, with its steps.
type Execution = (ExecutionDetail, Vec<StepRecord>);

impl Ground {
    async fn new(database: Scratch) -> Self {
        Self::with_threads(database, 1).await
    }

    /// One whose steps have several threads.
    async fn with_threads(database: Scratch, threads: u32) -> Self {
        let store = database.store(None).await.unwrap();
        let mut tx = store.begin().await.unwrap();
        tx.execute_for_test(TABLE).await.unwrap();
        tx.commit().await.unwrap();
        Self { program: sweep(database.url(), threads, ScanCommits::EachRow), store, database }
    }

    fn go_on(&self, arguments: &[&str]) -> Ran {
        go_on(&self.program, arguments)
    }

    fn start_mortal(&self, log: &str, arguments: &[&str]) -> Guarded {
        start_mortal(&self.program, log, arguments)
    }

    /// All executions of a run, the oldest first.
    async fn executions(&self, job: &str, run: &str) -> Vec<Execution> {
        let filter = ExecutionFilter { job: Some(job.to_owned()), ..ExecutionFilter::default() };
        let mut tx = self.store.read().await.unwrap();
        let mut found = Vec::new();
        for record in tx.jobs().executions(&filter, None, 10_000).await.unwrap() {
            let detail = tx.jobs().execution(record.id).await.unwrap().unwrap();
            if detail.parameters.iter().any(|known| known.name == "run" && known.value == run) {
                found.push((detail, tx.jobs().steps(record.id).await.unwrap()));
            }
        }
        tx.rollback().await.unwrap();
        found.reverse();
        found
    }

    /// How often each number is there.
    async fn rows(&self, run: &str) -> BTreeMap<i64, i64> {
        const COUNT: &str = "select id, count(*) from swept where run = $1 group by id";
        let mut tx = self.store.read().await.unwrap();
        let rows: Vec<(i64, i64)> = if let Some(connection) = tx.postgres() {
            sqlx::query_as(COUNT).bind(run).fetch_all(connection).await.unwrap()
        } else {
            sqlx::query_as(COUNT).bind(run).fetch_all(tx.sqlite().unwrap()).await.unwrap()
        };
        tx.rollback().await.unwrap();
        rows.into_iter().collect()
    }

    /// What is wrong with a run that has come to its end.
    async fn faults(&self, job: &str, run: &str) -> Vec<String> {
        let is_refused = |id: &i64| run.starts_with("scan") && REFUSED.contains(id);
        let expected: BTreeMap<i64, i64> = (1..=50).filter(|id| !is_refused(id)).map(|id| (id, 1)).collect();
        let rows = self.rows(run).await;
        let executions = self.executions(job, run).await;
        let steps = || executions.iter().flat_map(|(_, steps)| steps);
        let written: u64 = steps().map(|step| step.counters.write).sum();
        let skipped: u64 = steps().map(|step| step.counters.skips()).sum();
        let mut faults = Vec::new();
        let mut check = |is_right: bool, fault: String| faults.extend((!is_right).then_some(fault));
        let missing: Vec<_> = expected.keys().filter(|id| !rows.contains_key(id)).collect();
        check(missing.is_empty(), format!("{run}: missing {missing:?}"));
        let twice: Vec<_> = rows.iter().filter(|(id, count)| expected.get(id) != Some(count)).collect();
        check(twice.is_empty(), format!("{run}: too often {twice:?}"));
        check(written == expected.len() as u64, format!("{run}: {written} rows were counted as written"));
        check(skipped == 50 - expected.len() as u64, format!("{run}: {skipped} were counted as skipped"));
        let last = executions.last().map(|(detail, _)| detail.execution.status);
        check(last == Some(BatchStatus::Completed), format!("{run}: ended {last:?}"));
        for (detail, steps) in executions.iter().rev().skip(1) {
            let status = detail.execution.status;
            let is_over = |status| matches!(status, BatchStatus::Failed | BatchStatus::Stopped);
            check(is_over(status), format!("{run}: an earlier execution is {status}"));
            let is_running = |step: &StepRecord| step.status.is_running();
            check(!steps.iter().any(is_running), format!("{run}: an earlier step still counts as running"));
        }
        faults
    }

    async fn assert_exact(&self, job: &str, run: &str) {
        let faults = self.faults(job, run).await;
        assert!(faults.is_empty(), "{faults:#?} on {}", self.database.url());
    }

    /// Waits until the only execution of a run has committed at least one chunk, and has not ended.
    async fn at_work(&self, job: &str, run: &str) -> ExecutionId {
        self.until(async || {
            let execution = self.executions(job, run).await.pop()?;
            let is_at_work = execution.0.execution.status == BatchStatus::Started;
            (is_at_work && !self.rows(run).await.is_empty()).then_some(execution.0.execution.id)
        })
        .await
    }

    /// Looks until there is an answer, which has to come in time.
    async fn until<T>(&self, look: impl AsyncFn() -> Option<T>) -> T {
        let clock = SystemClock::new();
        let start = clock.monotonic();
        loop {
            if let Some(found) = look().await {
                return found;
            }
            assert!(clock.monotonic().since(start) < PATIENCE, "nothing within {PATIENCE:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Runs a job again and again as long as it counts as running: an operator who waits for its process to be found
/// dead.
pub(crate) fn go_on(program: &Program, arguments: &[&str]) -> Ran {
    let clock = SystemClock::new();
    let start = clock.monotonic();
    loop {
        let ran = program.run(arguments);
        if !ran.stderr.contains("error[TM1003]") || clock.monotonic().since(start) > PATIENCE {
            return ran;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Lets a job die at a point of its work, and its lease run out.
pub(crate) fn die_at(program: &Program, arguments: &[&str], point: &str) {
    let mut dying = mortal(program, arguments);
    dying.env("TIDEMILL_CRASH_AT", point).stdout(Stdio::piped()).stderr(Stdio::piped());
    let dying = dying.spawn().unwrap();
    let pid = dying.id();
    let died = dying.wait_with_output().unwrap();
    assert_eq!(died.status.signal(), Some(6), "{point} was not passed: {died:?}");
    program.stage.lapse(pid);
}

/// What a scan commits.
#[derive(Clone, Copy)]
enum ScanCommits {
    EachRow,
    All,
}

/// The program, in a folder of its own, with so many threads.
fn sweep(url: &str, threads: u32, commits: ScanCommits) -> Program {
    let stage = stage(url).with("SWEEP_THREADS", &threads.to_string());
    let stage = match commits {
        ScanCommits::EachRow => stage.with("SWEEP_LISTENS", "1"),
        ScanCommits::All => stage,
    };
    Program::new("crash_sweep", stage)
}

pub(crate) fn stage(url: &str) -> Stage {
    Stage::on(url).with("TIDEMILL_PROCESS_LEASE", "10m")
}

/// Another database of this kind.
pub(crate) async fn another(kind: &Scratch) -> Scratch {
    match kind.url().starts_with("postgres") {
        true => Scratch::postgres_with_schema().await.unwrap(),
        false => Scratch::file(),
    }
}

/// A program that is found dead soon.
fn mortal(program: &Program, arguments: &[&str]) -> Command {
    let mut command = program.command(arguments);
    command.env("TIDEMILL_PROCESS_LEASE", format!("{}s", LEASE.as_secs()));
    command
}

/// Starts a program in the background that is found dead soon.
pub(crate) fn start_mortal(program: &Program, log: &str, arguments: &[&str]) -> Guarded {
    program.spawn(log, mortal(program, arguments))
}

/// The parameters of a run that takes `pause` milliseconds for each number.
fn arguments<'a>(job: &'a str, run: &'a str, pause: &'a str) -> [&'a str; 7] {
    ["job", "run", job, "-p", run, "-p", pause]
}

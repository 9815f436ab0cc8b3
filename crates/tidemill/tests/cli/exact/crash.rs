//! A job dies at every point that there is, is run again, and is exact.

use super::{Ground, arguments, die_at};
use tidemill_domain::job::BatchStatus;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::long_or;

tidemill_store::on_both![a_writer_that_does_not_write_in_the_chunks_transaction_is_found_out];

/// Processes that run at the same time.
const WORKERS: usize = 4;

/// Points in the work on chunks, and at which pass to die: in the first chunk, in the middle, in the last. There
/// are 50 items in chunks of 10; the reader says at its 51st call that there is no more, and that makes a sixth,
/// empty chunk.
const IN_CHUNKS: &[(&str, &[u32])] = &[
    ("chunk_before_read", &[1, 25, 51]),
    ("chunk_after_read", &[1, 25, 51]),
    ("chunk_before_process", &[1, 25, 50]),
    ("chunk_after_process", &[1, 25, 50]),
    ("chunk_before_write", &[1, 3, 5]),
    ("chunk_after_write", &[1, 3, 5]),
    ("chunk_before_save", &[1, 3, 6]),
    ("chunk_saved", &[3]),
    ("chunk_after_save", &[1, 3, 6]),
    ("chunk_before_commit", &[1, 3, 6]),
    ("chunk_after_commit", &[1, 3, 6]),
];

/// The same while items are written one by one, because one of the second or the fourth chunk is refused.
const IN_SCANS: &[(&str, &[u32])] = &[
    ("chunk_before_write", &[2, 3, 9, 10]),
    ("chunk_after_write", &[9]),
    ("chunk_after_save", &[6]),
    ("chunk_before_commit", &[2, 8, 9, 15]),
    ("chunk_after_commit", &[2, 7, 8, 10, 15]),
];

/// From the registration of the process to the end of the execution. Which commit is which does not matter here:
/// one of each kind is hit.
const AROUND_THEM: &[(&str, &[u32])] = &[
    ("job_launched", &[1]),
    ("lease_acquired", &[1]),
    ("before_commit", &[1, 5, 6, 7, 8, 15, 16]),
    ("after_commit", &[1, 5, 6, 7, 8, 14, 15]),
];

/// With the writer for tables. In a run with refused rows, the second chunk is tried in one statement and then scanned.
const IN_TABLES: &[(&str, &str, u32)] = &[
    ("", "chunk_after_write", 3),
    ("", "chunk_before_commit", 3),
    ("", "chunk_after_commit", 3),
    ("scan ", "chunk_before_commit", 2),
    ("scan ", "chunk_before_commit", 3),
    ("scan ", "chunk_after_commit", 2),
];

/// In the middle of a run that is slow enough to heartbeat.
const IN_HEARTBEATS: &[(&str, &[u32])] =
    &[("before_heartbeat", &[1, 2]), ("heartbeat_sent", &[1, 2]), ("after_heartbeat", &[1, 2])];

/// A death and what is run.
struct Case {
    job: &'static str,
    point: String,
    run: String,
    pause: &'static str,
}

impl Case {
    fn new(job: &'static str, kind: &str, point: &str, pass: u32, pause: &'static str) -> Self {
        let point = format!("{point}:{pass}");
        Self { job, run: format!("run={kind}{point}"), point, pause }
    }

    /// The value of the parameter.
    fn name(&self) -> &str {
        &self.run["run=".len()..]
    }

    fn arguments(&self, pause: &'static str) -> [&str; 7] {
        arguments(self.job, &self.run, pause)
    }
}

const FAST: &str = "pause=0,long,false";
const SLOW: &str = "pause=400,long,false";

fn cases(threads: u32) -> Vec<Case> {
    let mut groups = vec![("", IN_CHUNKS, FAST), ("scan ", IN_SCANS, FAST)];
    // What is around the chunks does not know how many threads there are.
    if threads == 1 {
        groups.extend([("", AROUND_THEM, FAST), ("", IN_HEARTBEATS, SLOW)]);
    }
    let one = |kind, pause, (point, passes): &(&str, &'static [u32])| {
        let point = (*point).to_owned();
        // In the short form at the pass in the middle, where something is done already and something is left.
        let middle = &passes[passes.len() / 2..=passes.len() / 2];
        long_or(*passes, middle).iter().map(move |pass| Case::new("sweep", kind, &point, *pass, pause))
    };
    let tables = IN_TABLES.iter().filter(|_| threads == 1);
    let tables =
        tables.map(|(kind, point, pass)| Case::new("table", &format!("{kind}table "), point, *pass, FAST));
    groups
        .iter()
        .flat_map(|(kind, points, pause)| points.iter().flat_map(move |point| one(kind, pause, point)))
        .chain(tables)
        .collect()
}

/// A database of its own for each that works at the same time, so that nobody waits for another's locks, and what
/// it works on.
async fn shares(mut databases: Vec<Scratch>, threads: u32) -> Vec<(Ground, Vec<Case>)> {
    let mut shares = Vec::new();
    for database in databases.drain(..) {
        shares.push((Ground::with_threads(database, threads).await, Vec::new()));
    }
    let workers = shares.len();
    for (index, case) in cases(threads).into_iter().enumerate() {
        shares[index % workers].1.push(case);
    }
    shares
}

/// Does the same for all cases, several at a time.
fn for_all(shares: &[(Ground, Vec<Case>)], act: impl Fn(&Ground, &Case) + Sync) {
    std::thread::scope(|scope| {
        for (ground, cases) in shares {
            scope.spawn(|| cases.iter().for_each(|case| act(ground, case)));
        }
    });
}

fn die(ground: &Ground, case: &Case) {
    die_at(&ground.program, &case.arguments(case.pause), &case.point);
}

/// Whether all was done before the process died, so that there is nothing to restart.
async fn is_complete(ground: &Ground, case: &Case) -> bool {
    let last = ground.executions(case.job, case.name()).await.pop();
    last.is_some_and(|(detail, _)| detail.execution.status == BatchStatus::Completed)
}

async fn check_all(databases: Vec<Scratch>, threads: u32) {
    let mut shares = shares(databases, threads).await;
    for_all(&shares, die);
    let mut complete = Vec::new();
    for (ground, cases) in &mut shares {
        for case in std::mem::take(cases) {
            if is_complete(ground, &case).await {
                assert!(ground.faults(case.job, case.name()).await.is_empty());
                complete.push(case);
            } else {
                cases.push(case);
            }
        }
    }
    assert!(complete.len() <= 4, "most have to die in the middle, but {} did not", complete.len());

    for_all(&shares, |ground, case| {
        ground.go_on(&case.arguments(FAST)).succeeds();
    });

    let mut faults = Vec::new();
    for (ground, cases) in &shares {
        for case in cases {
            faults.extend(ground.faults(case.job, case.name()).await);
        }
    }
    assert_eq!(faults, [""; 0]);
}

fn files() -> Vec<Scratch> {
    (0..WORKERS).map(|_| Scratch::file()).collect()
}

/// None when there is no PostgreSQL.
async fn postgres() -> Option<Vec<Scratch>> {
    let mut databases = Vec::new();
    for _ in 0..WORKERS {
        databases.push(Scratch::postgres().await?);
    }
    Some(databases)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_dies_anywhere_is_exact_after_a_restart_on_sqlite() {
    assert!(cases(1).len() >= long_or(48, 22), "only {} points", cases(1).len());

    check_all(files(), 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_dies_anywhere_is_exact_after_a_restart_on_postgres() {
    let Some(databases) = postgres().await else { return };

    check_all(databases, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_with_four_threads_that_dies_anywhere_is_exact_after_a_restart_on_sqlite() {
    check_all(files(), 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_with_four_threads_that_dies_anywhere_is_exact_after_a_restart_on_postgres() {
    let Some(databases) = postgres().await else { return };

    check_all(databases, 4).await;
}

async fn a_writer_that_does_not_write_in_the_chunks_transaction_is_found_out(database: Scratch) {
    let ground = Ground::new(database).await;
    let case = Case::new("leaky", "", "chunk_before_save", 3, FAST);

    die(&ground, &case);
    ground.go_on(&case.arguments(FAST)).succeeds();

    let faults = ground.faults("leaky", case.name()).await;
    assert!(faults.len() == 1 && faults[0].contains("too often [(21, 2), (22, 2)"), "{faults:#?}");
}

//! Whatever goes wrong, a step does the same with four threads as with one, and in one round trip as in a transaction:
//! made-up data and faults, in all these ways.

use super::super::Stand;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::fault::{FaultPolicy, Kinds};
use tidemill_domain::job::{Counters, ExecutionId, JobParameters};
use tidemill_engine::item::sql::SqlWriter;
use tidemill_engine::item::{BoxWriter, CompositeWriter, ItemsReader, TextWriter};
use tidemill_engine::job::listener::{ChunkListener, ItemListener, RetryListener, SkipListener};
use tidemill_engine::job::{ItemProcessor, Job, Rejects, Step, StepScope};
use tidemill_engine::testing::TestRun;
use tidemill_store::scratch::Scratch;
use tidemill_store::{Store, sqlx};

tidemill_store::on_both![
    four_threads_do_what_one_does_whatever_goes_wrong,
    a_chunk_in_one_round_trip_does_what_one_in_a_transaction_does,
];

/// Cases on each database.
const CASES: u64 = 24;

/// Numbers from a seed (xorshift).
struct Dice(u64);

impl Dice {
    fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    /// Some of the items.
    fn some(&mut self, items: i64, one_in: u64) -> BTreeSet<i64> {
        (1..=items).filter(|_| self.below(one_in) == 0).collect()
    }
}

/// The listeners of a step. With those of items, no chunk is committed in one round trip; with those of chunks, a scan
/// commits each item.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Heard {
    Skips,
    SkipsAndChunks,
    SkipsAndItems,
    All,
}

/// What is to be done, and what goes wrong.
#[derive(Clone, Debug)]
struct Case {
    items: i64,
    size: usize,
    read: BTreeSet<i64>,
    /// How often processing fails before it works.
    process: BTreeMap<i64, u32>,
    filter: BTreeSet<i64>,
    /// Rows that are there already, so that the table refuses them.
    write: BTreeSet<i64>,
    policy: Option<FaultPolicy>,
    /// Also into a file, which comes first.
    writes_file: bool,
    is_passed_through: bool,
}

impl Case {
    fn of(seed: u64) -> Self {
        let mut dice = Dice::of(seed);
        let items = dice.below(70) as i64;
        // Of some sorts of faults there are none, of others many.
        let mut rare = || [8, 20, 60, u64::MAX][dice.below(4) as usize];
        let (read, process, filter, write) = (rare(), rare(), rare(), rare());
        let process = dice.some(items, process);
        let attempts = |dice: &mut Dice| [1, 1, 2, u32::MAX][dice.below(4) as usize];
        Self {
            items,
            size: 1 + dice.below(8) as usize,
            read: dice.some(items, read),
            process: process.into_iter().map(|item| (item, attempts(&mut dice))).collect(),
            filter: dice.some(items, filter),
            write: dice.some(items, write),
            policy: policy(&mut dice),
            writes_file: dice.below(3) == 0,
            is_passed_through: dice.below(4) == 0,
        }
    }

    fn step(&self, threads: usize, heard: Heard, world: &World) -> Step {
        let (read, world_) = (self.read.clone(), world.clone());
        let reader = ItemsReader::new("r", 1..=self.items)
            .failing_on(move |item| world_.hurts() && read.contains(item));
        let start = Step::chunk("s", self.size).reader(reader);
        let (file, writes_file) = (world.folder.join("out.txt"), self.writes_file);
        let writer = move |scope: &StepScope| {
            let table = SqlWriter::new(scope.store(), "target", ["n"], |n: &i64| vec![(*n).into()]);
            Ok(match writes_file {
                true => BoxWriter::new(
                    CompositeWriter::new().and(TextWriter::new("file", &file, i64::to_string)).and(table),
                ),
                false => BoxWriter::new(table),
            })
        };
        macro_rules! finish {
            ($step:expr) => {{
                let mut step = $step
                    .threads(threads)
                    .rejects(Rejects::table())
                    .skip_listener(world.told.clone())
                    .retry_listener(world.told.clone());
                if matches!(heard, Heard::SkipsAndChunks | Heard::All) {
                    step = step.chunk_listener(world.told.clone());
                }
                if matches!(heard, Heard::SkipsAndItems | Heard::All) {
                    step = step.item_listener(world.told.clone());
                }
                if let Some(policy) = &self.policy {
                    step = step.fault_policy(policy.clone());
                }
                step.build()
            }};
        }
        if self.is_passed_through {
            return finish!(start.writer_with(writer));
        }
        let (case, world_) = (self.clone(), world.clone());
        let start = start.process_with(move |scope| {
            Ok(Faulty { case: case.clone(), world: world_.clone(), execution: scope.execution() })
        });
        finish!(start.writer_with(writer))
    }

    /// Runs it, again as it failed, and again without faults; says all that can be seen of it.
    async fn outcome(&self, stand: &Stand, name: &str, threads: usize, heard: Heard) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let world = World::new(folder.path());
        let (bench, store) = (&stand.bench, stand.bench.store());
        sql(store, "drop table if exists target").await;
        sql(store, "create table target (n bigint primary key)").await;
        let there: Vec<String> = self.write.iter().map(|n| format!("({n})")).collect();
        if !there.is_empty() {
            sql(store, &format!("insert into target values {}", there.join(", "))).await;
        }
        let job = Job::new(name).step(self.step(threads, heard, &world));
        let mut seen = Vec::new();
        for run in 0..3 {
            let ended = bench.run(&job, &JobParameters::new()).await.unwrap();
            seen.extend(look(store, &ended, &world).await);
            if ended.is_completed() {
                break;
            }
            if run == 1 {
                world.is_healed.store(true, Ordering::SeqCst);
                let rows: Vec<String> = self.write.iter().map(i64::to_string).collect();
                let list = if rows.is_empty() { "null".to_owned() } else { rows.join(", ") };
                sql(store, &format!("delete from target where n in ({list})")).await;
            }
        }
        seen
    }
}

fn policy(dice: &mut Dice) -> Option<FaultPolicy> {
    let skip_limit = [2, 6, 1000][dice.below(3) as usize];
    let policy = FaultPolicy { skip: Kinds::all(), skip_limit, ..FaultPolicy::default() };
    let retrying = FaultPolicy { retry: Kinds::all(), attempts_max: 2, ..policy.clone() };
    Some(match dice.below(6) {
        0 => return None,
        1 => policy,
        2 => retrying,
        3 => FaultPolicy { no_rollback: Kinds::all(), ..policy },
        4 => FaultPolicy { is_processor_transactional: false, ..retrying },
        _ => FaultPolicy { skip: Kinds::default(), ..retrying },
    })
}

/// What the runs of one job share.
#[derive(Clone)]
struct World {
    folder: Arc<Path>,
    is_healed: Arc<AtomicBool>,
    attempts: Arc<Mutex<HashMap<(ExecutionId, i64), u32>>>,
    told: Recorder,
}

impl World {
    fn new(folder: &Path) -> Self {
        Self {
            folder: folder.into(),
            is_healed: Arc::default(),
            attempts: Arc::default(),
            told: Recorder::default(),
        }
    }

    fn hurts(&self) -> bool {
        !self.is_healed.load(Ordering::SeqCst)
    }
}

struct Faulty {
    case: Case,
    world: World,
    execution: ExecutionId,
}

impl ItemProcessor<i64> for Faulty {
    type Output = i64;

    async fn process(&mut self, item: &i64) -> Result<Option<i64>, ItemError> {
        // Not all take the same time, so that chunks overtake each other.
        if item % 5 == 0 {
            tokio::time::sleep(Duration::from_millis((item % 4) as u64)).await;
        }
        let attempt = {
            let mut attempts = self.world.attempts.lock().unwrap();
            let attempt = attempts.entry((self.execution, *item)).or_insert(0);
            *attempt += 1;
            *attempt
        };
        if self.world.hurts() && self.case.process.get(item).is_some_and(|failing| attempt <= *failing) {
            return Err(ItemError::new(ErrorKind::PROCESS, format!("boom {item}")));
        }
        Ok((!self.case.filter.contains(item)).then_some(*item))
    }
}

/// All that listeners hear, but for reads, which are ahead.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn note(&self, what: &str, whom: impl Debug) {
        self.0.lock().unwrap().push(format!("{what} {whom:?}"));
    }
}

impl ChunkListener for Recorder {
    fn before_chunk(&self, _: &StepScope) {
        self.note("begin", ());
    }
    fn after_chunk(&self, _: &StepScope, counters: &Counters) {
        self.note("committed", counters);
    }
    fn after_chunk_error(&self, _: &StepScope, counters: &Counters) {
        self.note("rolled back", counters);
    }
}

impl ItemListener<i64, i64> for Recorder {
    fn before_process(&self, item: &i64) {
        self.note("process", item);
    }
    fn after_process(&self, item: &i64, output: Option<&i64>) {
        self.note("processed", (item, output));
    }
    fn on_process_error(&self, item: &i64, error: &ItemError) {
        self.note("not processed", (item, error.text()));
    }
    fn before_write(&self, items: &[i64]) {
        self.note("write", items);
    }
    fn after_write(&self, items: &[i64]) {
        self.note("written", items);
    }
    fn on_write_error(&self, items: &[i64], error: &ItemError) {
        self.note("not written", (items, error.text()));
    }
}

impl SkipListener<i64, i64> for Recorder {
    fn on_skip_in_read(&self, error: &ItemError) {
        self.note("skip in read", error.text());
    }
    fn on_skip_in_process(&self, item: &i64, error: &ItemError) {
        self.note("skip in process", (item, error.text()));
    }
    fn on_skip_in_write(&self, item: &i64, error: &ItemError) {
        self.note("skip in write", (item, error.text()));
    }
}

impl RetryListener for Recorder {
    fn on_retry(&self, phase: tidemill_domain::item::Phase, error: &ItemError) {
        self.note("retry", (phase, error.text()));
    }
}

/// What can be seen of a run that ended.
async fn look(store: &Store, run: &TestRun, world: &World) -> Vec<String> {
    let step = run.step("s").unwrap();
    let mut tx = store.read().await.unwrap();
    let rejects = tx.jobs().rejects(step.id, 0, 1000).await.unwrap();
    const ALL: &str = "select n from target order by n";
    let rows: Vec<i64> = if let Some(connection) = tx.postgres() {
        sqlx::query_scalar(ALL).fetch_all(connection).await.unwrap()
    } else {
        sqlx::query_scalar(ALL).fetch_all(tx.sqlite().unwrap()).await.unwrap()
    };
    tx.rollback().await.unwrap();
    let rejects: Vec<_> =
        rejects.into_iter().map(|kept| (kept.phase, kept.kind, kept.error, kept.item)).collect();
    let file = std::fs::read_to_string(world.folder.join("out.txt")).ok();
    let part = std::fs::read_to_string(world.folder.join("out.txt.part")).ok();
    let mut context = run.context("s").unwrap().clone();
    // Which file it is on the disk is another one each time.
    context.remove("file.current.inode");
    let mut seen = vec![
        format!("{:?} {:?} {:?}", step.status, step.exit, run.end.code),
        format!("{:?}", step.counters),
        format!("{context:?}"),
        format!("rejects {rejects:?}"),
        format!("rows {rows:?}"),
        format!("file {file:?} {part:?}"),
    ];
    seen.append(&mut world.told.0.lock().unwrap());
    seen
}

async fn sql(store: &Store, text: &str) {
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test(text).await.unwrap();
    tx.commit().await.unwrap();
}

async fn four_threads_do_what_one_does_whatever_goes_wrong(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let mut endings = BTreeSet::new();
    for seed in 1..=CASES {
        let case = Case::of(seed);

        let one = case.outcome(&stand, &format!("one-{seed}"), 1, Heard::All).await;
        let four = case.outcome(&stand, &format!("four-{seed}"), 4, Heard::All).await;

        let differs = one.iter().zip(&four).find(|(one, four)| one != four);
        assert!(differs.is_none() && one.len() == four.len(), "seed {seed}: {differs:#?} in {case:#?}");
        endings.extend(one.first().and_then(|first| first.split(' ').next().map(str::to_owned)));
    }
    assert_eq!(endings.len(), 2, "some complete at once and some fail: {endings:?}");
}

async fn a_chunk_in_one_round_trip_does_what_one_in_a_transaction_does(scratch: Scratch) {
    const OF_ITEMS: [&str; 6] =
        ["process ", "processed ", "not processed ", "write ", "written ", "not written "];
    let stand = Stand::on(scratch).await;
    for seed in 1..=CASES {
        let case = Case::of(seed);
        for (quick, slow) in [(Heard::Skips, Heard::SkipsAndItems), (Heard::SkipsAndChunks, Heard::All)] {
            let threads = [1, 4][seed as usize % 2];

            let quick = case.outcome(&stand, &format!("{quick:?}-{seed}"), threads, quick).await;
            let mut slow = case.outcome(&stand, &format!("{slow:?}-{seed}"), threads, slow).await;

            slow.retain(|line| !OF_ITEMS.iter().any(|start| line.starts_with(start)));
            let differs = quick.iter().zip(&slow).find(|(quick, slow)| quick != slow);
            assert!(differs.is_none() && quick.len() == slow.len(), "seed {seed}: {differs:#?} in {case:#?}");
        }
    }
}

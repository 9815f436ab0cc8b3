//! Chunks that are written at the same time and want the same rows. PostgreSQL only: SQLite has one writer.

use super::super::Stand;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tidemill_domain::item::{ErrorKind, ItemError, Value};
use tidemill_domain::job::{ExecutionContext, JobParameters};
use tidemill_domain::time::FakeClock;
use tidemill_engine::item::sql::{Mode, SqlWriter};
use tidemill_engine::item::{AsyncProcessor, ItemsReader};
use tidemill_engine::job::{ChunkScope, ItemStream, ItemWriter, Job, Step, StepScope};
use tidemill_engine::testing::JobBench;
use tidemill_store::scratch::Scratch;
use tidemill_store::{Store, StoreOptions, sqlx};
use tokio::sync::watch;

const NONE: &JobParameters = &JobParameters::new();

/// The database's own limit on the wait for a lock: so long that it is not that which helps.
const LOCK_LIMIT: Duration = Duration::from_secs(3_600);

/// A number and the key that it is written under.
type Pair = (i64, i64);

/// Upserts, and says when a chunk with this number has been written.
struct Noticed {
    table: BoxedTable,
    number: i64,
    is_written: watch::Sender<bool>,
}

type BoxedTable = tidemill_engine::item::BoxWriter<Pair>;

fn table(scope: &StepScope) -> BoxedTable {
    let values = |(key, number): &Pair| vec![Value::from(*key), Value::from(*number)];
    let table = SqlWriter::new(scope.store(), "total", ["key", "number"], values);
    BoxedTable::new(table.mode(Mode::Upsert { key: vec!["key".into()] }))
}

impl ItemStream for Noticed {
    async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        self.table.open(context).await
    }
}

impl ItemWriter<Pair> for Noticed {
    async fn write(&mut self, items: &[Pair], chunk: &mut ChunkScope) -> Result<(), ItemError> {
        let written = self.table.write(items, chunk).await;
        if items.iter().any(|(_, number)| *number == self.number) {
            self.is_written.send_replace(true);
        }
        written
    }

    async fn roll_back(&mut self) -> Result<(), ItemError> {
        self.table.roll_back().await
    }

    fn is_concurrent(&self) -> bool {
        self.table.is_concurrent()
    }
}

async fn stand() -> Option<Stand> {
    let scratch = Scratch::postgres_with_schema().await?;
    scratch.store(None).await.unwrap().close().await;
    let clock = Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().unwrap()));
    let options =
        StoreOptions { clock: Some(clock.clone()), busy_timeout: LOCK_LIMIT, ..StoreOptions::default() };
    let store = Store::open(scratch.url().parse().unwrap(), &options).await.unwrap();
    let bench = JobBench::with_lease(store, clock.clone(), crate::TTL).await.unwrap();
    let stand = Stand { bench, clock, _scratch: scratch };
    let mut tx = stand.bench.store().begin().await.unwrap();
    tx.execute_for_test("create table total (key bigint primary key, number bigint not null)").await.unwrap();
    tx.commit().await.unwrap();
    Some(stand)
}

async fn totals(store: &Store) -> Vec<Pair> {
    let mut tx = store.read().await.unwrap();
    let all = sqlx::query_as("select key, number from total order by key");
    let totals = all.fetch_all(tx.postgres().unwrap()).await.unwrap();
    tx.rollback().await.unwrap();
    totals
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_chunk_that_has_locked_a_row_lets_go_of_it_for_an_earlier_one() {
    let Some(stand) = stand().await else { return };
    let is_written = watch::Sender::new(false);
    let (told, waits) = (is_written.clone(), is_written.clone());
    let step = Step::chunk("s", 1)
        .reader(ItemsReader::new("numbers", 1..=3))
        .process(AsyncProcessor(move |n: &i64| {
            let (n, mut is_written) = (*n, waits.subscribe());
            async move {
                // The first one comes when the third has locked the row.
                if n == 1 {
                    let _never_closed = is_written.wait_for(|is_written| *is_written).await;
                }
                Ok(Some((n % 2, n)))
            }
        }))
        .writer_with(move |scope| Ok(Noticed { table: table(scope), number: 3, is_written: told.clone() }))
        .threads(4);
    let job = Job::new("locked").step(step.build());

    let run = tokio::time::timeout(crate::SOON, stand.bench.run(&job, NONE)).await.expect("it ends").unwrap();

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(run.step("s").unwrap().counters.rollback, 0, "what was given up is not counted");
    assert_eq!(totals(stand.bench.store()).await, [(0, 2), (1, 3)], "the last one counts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunks_that_all_want_the_same_rows_in_another_order_fail_no_step_and_the_last_one_counts() {
    let Some(stand) = stand().await else { return };
    // Without skips and retries: a deadlock that is counted would be the end.
    let step = Step::chunk("s", 10)
        .reader(ItemsReader::new("numbers", 1..=400))
        .process(|n: &i64| {
            let (chunk, place) = ((n - 1) / 10, (n - 1) % 10);
            Ok(Some((if chunk % 2 == 0 { place } else { 9 - place }, *n)))
        })
        .writer_with(|scope| Ok(table(scope)))
        .threads(4);
    let job = Job::new("hot").step(step.build());

    let run = tokio::time::timeout(crate::SOON, stand.bench.run(&job, NONE)).await.unwrap().unwrap();

    assert!(run.is_completed(), "{:?}", run.end);
    let counters = run.step("s").unwrap().counters;
    assert_eq!((counters.write, counters.commit, counters.rollback), (400, 41, 0));
    let last = (0..10).map(|key| (key, 400 - key)).collect::<Vec<_>>();
    assert_eq!(totals(stand.bench.store()).await, last);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_depends_on_an_earlier_chunk_is_written_after_it() {
    let Some(stand) = stand().await else { return };
    let mut tx = stand.bench.store().begin().await.unwrap();
    tx.execute_for_test("create table part (n bigint primary key, of bigint references part)").await.unwrap();
    tx.commit().await.unwrap();
    let writes = Arc::new(AtomicUsize::new(0));
    let counted = writes.clone();
    let step = Step::chunk("s", 2)
        .reader(ItemsReader::new("numbers", 1..=60))
        .process(move |n: &i64| {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(Some(*n))
        })
        .writer_with(|scope| {
            let of = |n: &i64| if *n > 1 { Value::from(n - 1) } else { Value::Null };
            Ok(SqlWriter::new(scope.store(), "part", ["n", "of"], move |n: &i64| vec![(*n).into(), of(n)]))
        })
        .skip([ErrorKind::CONSTRAINT], 0)
        .threads(4);

    let run = stand.bench.run(&Job::new("parts").step(step.build()), NONE).await.unwrap();

    assert!(run.is_completed(), "{:?}", run.end);
    let counters = run.step("s").unwrap().counters;
    assert_eq!((counters.write, counters.skips(), counters.rollback), (60, 0, 0));
    assert_eq!(writes.load(Ordering::SeqCst), 60, "each was processed once, however often it was written");
}

/// Looks, while it writes number 2, how many others have written to the table and not ended.
struct Alone {
    table: BoxedTable,
    others: Arc<AtomicUsize>,
}

const OTHERS: &str = "select count(distinct l.pid)
     from pg_locks l
     where l.relation = 'total'::regclass
       and l.pid <> pg_backend_pid()";

impl ItemStream for Alone {
    async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        self.table.open(context).await
    }
}

impl ItemWriter<Pair> for Alone {
    async fn write(&mut self, items: &[Pair], chunk: &mut ChunkScope) -> Result<(), ItemError> {
        if items.iter().any(|(_, number)| *number == 2) {
            tokio::time::sleep(super::WHILE).await;
            let counting = sqlx::query_scalar::<_, i64>(OTHERS);
            let others = counting.fetch_one(chunk.tx().await?.postgres().unwrap()).await.unwrap();
            self.others.store(others as usize, Ordering::SeqCst);
        }
        self.table.write(items, chunk).await
    }

    fn is_concurrent(&self) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_chunk_is_written_at_its_turn_no_later_one_has_a_transaction() {
    let Some(stand) = stand().await else { return };
    let others = Arc::new(AtomicUsize::new(usize::MAX));
    let seen = others.clone();
    // The first chunk has an error, so it is not prepared.
    let step = Step::chunk("s", 2)
        .reader(ItemsReader::new("numbers", 1..=20).failing_on(|n| *n == 1))
        .process(|n: &i64| Ok(Some((*n, *n))))
        .writer_with(move |scope| Ok(Alone { table: table(scope), others: seen.clone() }))
        .skip([ErrorKind::READ], 1)
        .threads(4);

    let run = stand.bench.run(&Job::new("alone").step(step.build()), NONE).await.unwrap();

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(others.load(Ordering::SeqCst), 0);
    assert_eq!(totals(stand.bench.store()).await.len(), 19);
}

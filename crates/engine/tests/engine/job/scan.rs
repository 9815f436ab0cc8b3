//! A chunk with a bad row: it is written item by item, in one transaction if nobody listens for commits.

use super::Stand;
use super::outbox::count;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::step::OFFSET_KEY;
use tidemill_domain::job::{BatchStatus, Counters, ExecutionContext, JobParameters};
use tidemill_engine::item::ItemsReader;
use tidemill_engine::job::listener::ChunkListener;
use tidemill_engine::job::{
    ChunkScope, Delivery, ItemProcessor, ItemReader, ItemStream, ItemWriter, Job, Rejects, Step, StepScope,
};
use tidemill_engine::testing::JobBench;
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_bad_row_costs_one_transaction_and_not_one_for_each_row,
    what_was_settled_before_a_scan_fails_is_kept_and_the_restart_goes_on_behind_it,
    a_scan_whose_transaction_is_lost_leaves_nothing_and_counts_nothing,
    a_skipped_item_leaves_nothing_of_what_its_write_did_before_it_failed,
    no_transaction_is_open_while_a_slow_processor_runs,
    an_item_that_met_others_in_the_transaction_is_written_alone,
];

const NONE: &JobParameters = &JobParameters::new();
const ROWS: &str = "select count(*) from target";

/// Writes rows, and notes how many others have seen before each write.
#[derive(Clone)]
struct Rows {
    store: Store,
    seen: Arc<Mutex<Vec<i64>>>,
    /// Ends the transaction under the writer before this item is written alone.
    cut_at: Option<i64>,
    /// Writes a row to this table before each item.
    header: Option<&'static str>,
    /// Fails once as in a deadlock when this item is written alone.
    deadlock_at: Arc<Mutex<Option<i64>>>,
}

impl Rows {
    fn new(store: &Store) -> Self {
        let (seen, deadlock_at) = (Arc::default(), Arc::default());
        Self { store: store.clone(), seen, cut_at: None, header: None, deadlock_at }
    }

    /// How many different numbers of rows others have seen.
    fn commits_seen(&self) -> usize {
        self.seen.lock().unwrap().iter().collect::<BTreeSet<_>>().len()
    }
}

impl ItemStream for Rows {}

impl ItemWriter<i64> for Rows {
    async fn write(&mut self, items: &[i64], chunk: &mut ChunkScope) -> Result<(), ItemError> {
        let seen = count(&self.store, ROWS).await;
        self.seen.lock().unwrap().push(seen);
        let tx = chunk.tx().await?;
        if items.len() == 1 && self.cut_at == Some(items[0]) {
            tx.execute_for_test("rollback").await?;
            return Err(ItemError::new(ErrorKind::WRITE, "the transaction is gone"));
        }
        for item in items {
            if let Some(table) = self.header {
                tx.execute(&format!("insert into {table} (n) values ($1)"), (*item,)).await?;
            }
            tx.execute("insert into target (n) values ($1)", (*item,)).await?;
        }
        let mut deadlock_at = self.deadlock_at.lock().unwrap();
        if items.len() == 1 && *deadlock_at == Some(items[0]) {
            *deadlock_at = None;
            return Err(ItemError::new(ErrorKind::TRANSIENT, "deadlock detected"));
        }
        Ok(())
    }

    fn delivery(&self) -> Delivery {
        Delivery::ExactlyOnce
    }
}

/// Takes its time when the transaction of a scan is open.
#[derive(Clone)]
struct SlowAtSix;

impl ItemProcessor<i64> for SlowAtSix {
    type Output = i64;

    async fn process(&mut self, item: &i64) -> Result<Option<i64>, ItemError> {
        if *item == 6 {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        Ok(Some(*item))
    }
}

struct Commits;

impl ChunkListener for Commits {
    fn after_chunk(&self, _: &StepScope, _: &Counters) {}
}

/// Refuses 4 and 8.
async fn target(store: &Store) {
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test("create table target (n bigint primary key check (n <> 4 and n <> 8))")
        .await
        .unwrap();
    tx.commit().await.unwrap();
}

fn copy(name: &str, rows: &Rows, limit: u64, listens: bool) -> Job {
    let step = Step::chunk("s", 10)
        .reader(ItemsReader::new("r", 1..=10_i64))
        .writer(rows.clone())
        .skip_all(limit)
        .rejects(Rejects::table());
    let step = if listens { step.chunk_listener(Commits) } else { step };
    Job::new(name).step(step.build())
}

async fn a_bad_row_costs_one_transaction_and_not_one_for_each_row(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let store = stand.bench.store();
    target(store).await;
    let mut all = Vec::new();
    for (name, listens) in [("joined", false), ("single", true)] {
        let rows = Rows::new(store);

        let run = stand.bench.run(&copy(name, &rows, 5, listens), NONE).await.unwrap();

        assert!(run.is_completed(), "{:?}", run.end);
        assert_eq!(count(store, ROWS).await, 8);
        assert_eq!(rows.seen.lock().unwrap().len(), 11, "the chunk, and each row");
        assert_eq!(rows.commits_seen(), if listens { 8 } else { 1 });
        all.push(run.step("s").unwrap().counters);
        let mut tx = store.begin().await.unwrap();
        tx.execute_for_test("delete from target").await.unwrap();
        tx.commit().await.unwrap();
    }
    assert_eq!(all[0], all[1]);
    assert_eq!((all[0].write, all[0].write_skip, all[0].commit, all[0].rollback), (8, 2, 9, 3));
    assert_eq!(count(store, "select count(*) from tidemill_reject where phase = 'write'").await, 4);
}

async fn what_was_settled_before_a_scan_fails_is_kept_and_the_restart_goes_on_behind_it(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let store = stand.bench.store();
    target(store).await;
    let rows = Rows::new(store);

    let failed = stand.bench.run(&copy("limited", &rows, 1, false), NONE).await.unwrap();
    assert_eq!(failed.end.status, BatchStatus::Failed);
    assert_eq!(count(store, ROWS).await, 6, "1 to 7 without 4");
    let counters = failed.step("s").unwrap().counters;
    assert_eq!((counters.read, counters.write, counters.write_skip, counters.commit), (10, 6, 1, 6));
    let again = stand.bench.run(&copy("limited", &rows, 1, false), NONE).await.unwrap();

    assert!(again.is_completed(), "{:?}", again.end);
    assert_eq!(count(store, ROWS).await, 8);
    assert_eq!(again.step("s").unwrap().counters.read, 3);
}

async fn a_scan_whose_transaction_is_lost_leaves_nothing_and_counts_nothing(scratch: Scratch) {
    if scratch.url().starts_with("sqlite") {
        return; // No server can end a transaction of SQLite.
    }
    let stand = Stand::on(scratch).await;
    let store = stand.bench.store();
    target(store).await;
    let cut = Rows { cut_at: Some(6), ..Rows::new(store) };

    let failed = stand.bench.run(&copy("cut", &cut, 5, false), NONE).await.unwrap();

    assert_eq!(failed.end.status, BatchStatus::Failed);
    assert_eq!(count(store, ROWS).await, 0);
    let counters = failed.step("s").unwrap().counters;
    assert_eq!((counters.write, counters.write_skip, counters.commit), (0, 0, 0));
    let again = stand.bench.run(&copy("cut", &Rows { cut_at: None, ..cut }, 5, false), NONE).await.unwrap();
    assert!(again.is_completed(), "{:?}", again.end);
    assert_eq!(count(store, ROWS).await, 8);
}

async fn a_skipped_item_leaves_nothing_of_what_its_write_did_before_it_failed(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let store = stand.bench.store();
    target(store).await;
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test("create table header (n bigint primary key)").await.unwrap();
    tx.commit().await.unwrap();
    let rows = Rows { header: Some("header"), ..Rows::new(store) };

    let run = stand.bench.run(&copy("headers", &rows, 5, false), NONE).await.unwrap();

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(rows.commits_seen(), 1, "it was one transaction");
    assert_eq!(count(store, ROWS).await, 8);
    assert_eq!(count(store, "select count(*) from header").await, 8);
}

async fn no_transaction_is_open_while_a_slow_processor_runs(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let store = stand.bench.store();
    target(store).await;
    let rows = Rows::new(store);
    let step = Step::chunk("s", 10)
        .reader(ItemsReader::new("r", 1..=10_i64))
        .process(SlowAtSix)
        .writer(rows.clone())
        .skip_all(5);

    let run = stand.bench.run(&Job::new("slow").step(step.build()), NONE).await.unwrap();

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(count(store, ROWS).await, 8);
    assert!(rows.seen.lock().unwrap().contains(&4), "1, 2, 3 and 5 were committed before 6 was processed");
    let counters = run.step("s").unwrap().counters;
    assert_eq!((counters.write, counters.write_skip, counters.commit, counters.rollback), (8, 2, 9, 3));
}

async fn an_item_that_met_others_in_the_transaction_is_written_alone(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let store = stand.bench.store();
    target(store).await;
    let rows = Rows { deadlock_at: Arc::new(Mutex::new(Some(6))), ..Rows::new(store) };

    let run = stand.bench.run(&copy("deadlock", &rows, 5, false), NONE).await.unwrap();

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(*rows.deadlock_at.lock().unwrap(), None, "it failed once");
    assert_eq!(count(store, ROWS).await, 8);
    let counters = run.step("s").unwrap().counters;
    assert_eq!((counters.write, counters.write_skip, counters.commit, counters.rollback), (8, 2, 9, 3));
}

#[tokio::test]
async fn a_reader_that_is_gone_before_the_settled_items_fails_the_step() {
    /// When it is gone, it fails once, and has nothing more.
    #[derive(Clone)]
    struct Source {
        items: ItemsReader<i64>,
        is_gone: Arc<AtomicBool>,
        has_failed: bool,
    }
    impl ItemStream for Source {
        async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
            self.items.open(context).await
        }
        fn update(&mut self, context: &mut ExecutionContext) -> Result<(), ItemError> {
            self.items.update(context)
        }
    }
    impl ItemReader for Source {
        type Item = i64;
        async fn read(&mut self) -> Result<Option<i64>, ItemError> {
            match (self.is_gone.load(Ordering::SeqCst), std::mem::replace(&mut self.has_failed, true)) {
                (true, false) => Err(ItemError::new(ErrorKind::FATAL, "it is gone")),
                (true, true) => Ok(None),
                (false, _) => self.items.read().await,
            }
        }
    }
    /// Fails on item 3, and fatally on item 5.
    #[derive(Clone)]
    struct Picky;
    impl ItemStream for Picky {}
    impl ItemWriter<i64> for Picky {
        async fn write(&mut self, items: &[i64], _: &mut ChunkScope) -> Result<(), ItemError> {
            match items {
                [5] => Err(ItemError::new(ErrorKind::FATAL, "five")),
                items if items.contains(&3) => Err(ItemError::new(ErrorKind::WRITE, "three")),
                _ => Ok(()),
            }
        }
    }
    let (bench, is_gone) = (JobBench::new().await.unwrap(), Arc::new(AtomicBool::new(false)));
    let source =
        Source { items: ItemsReader::new("numbers", 1..=10), is_gone: is_gone.clone(), has_failed: false };
    let step = Step::chunk("s", 6).reader(source).writer(Picky).skip([ErrorKind::WRITE], 10);
    let job = Job::new("scanning").step(step.build());
    let first = bench.run(&job, NONE).await.unwrap();
    assert_eq!(first.end.status, BatchStatus::Failed);
    assert_eq!(first.context("s").unwrap().get_long(OFFSET_KEY), Some(4));
    is_gone.store(true, Ordering::SeqCst);

    let second = bench.run(&job, NONE).await.unwrap();

    assert_eq!(second.end.status, BatchStatus::Failed);
    assert!(second.step("s").unwrap().exit.description.contains("it is gone"), "{second:?}");
    assert_eq!(second.context("s").unwrap().get_long(OFFSET_KEY), Some(4));
}

//! A chunk with a bad row: it is written item by item, in one transaction if nobody listens for commits.

use super::Stand;
use super::outbox::count;
use std::sync::{Arc, Mutex};
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::{BatchStatus, Counters, JobParameters};
use tidemill_engine::item::ItemsReader;
use tidemill_engine::job::listener::ChunkListener;
use tidemill_engine::job::{ChunkScope, Delivery, ItemStream, ItemWriter, Job, Rejects, Step, StepScope};
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_bad_row_costs_one_transaction_and_not_one_for_each_row,
    what_was_settled_before_a_scan_fails_is_kept_and_the_restart_goes_on_behind_it,
    a_scan_whose_transaction_is_lost_leaves_nothing_and_counts_nothing,
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
            tx.execute("insert into target (n) values ($1)", (*item,)).await?;
        }
        Ok(())
    }

    fn delivery(&self) -> Delivery {
        Delivery::ExactlyOnce
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
        let rows = Rows { store: store.clone(), seen: Arc::default(), cut_at: None };

        let run = stand.bench.run(&copy(name, &rows, 5, listens), NONE).await.unwrap();

        assert!(run.is_completed(), "{:?}", run.end);
        assert_eq!(count(store, ROWS).await, 8);
        let seen = rows.seen.lock().unwrap().clone();
        assert_eq!(seen.len(), 11, "the chunk, and each row");
        let commits_seen = seen.iter().collect::<std::collections::BTreeSet<_>>().len();
        assert_eq!(commits_seen, if listens { 8 } else { 1 }, "{seen:?}");
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
    let rows = Rows { store: store.clone(), seen: Arc::default(), cut_at: None };

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
    let stand = Stand::on(scratch).await;
    let store = stand.bench.store();
    target(store).await;
    let cut = Rows { store: store.clone(), seen: Arc::default(), cut_at: Some(6) };

    let failed = stand.bench.run(&copy("cut", &cut, 5, false), NONE).await.unwrap();

    assert_eq!(failed.end.status, BatchStatus::Failed);
    assert_eq!(count(store, ROWS).await, 0);
    let counters = failed.step("s").unwrap().counters;
    assert_eq!((counters.write, counters.write_skip, counters.commit), (0, 0, 0));
    let again = stand.bench.run(&copy("cut", &Rows { cut_at: None, ..cut }, 5, false), NONE).await.unwrap();
    assert!(again.is_completed(), "{:?}", again.end);
    assert_eq!(count(store, ROWS).await, 8);
}

//! Those who write events while relays are disturbed.
//!
//! The order of the events of an aggregate is defined: one writer alone writes it, or whoever writes it holds the lock of
//! its row. Some transactions are slow, and some are rolled back.

use super::plan::Plan;
use super::source::Source;
use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tidemill_domain::outbox::{NewEvent, Payload};
use tidemill_store::url::Dialect;
use tidemill_store::{Store, StoreError};
use tokio::task::JoinSet;

const WRITERS: u32 = 8;

/// Events of one transaction: so many on average, at most twice as many.
const EVENTS: u32 = 25;

/// Aggregates that one writer has for itself, and those that all of them write.
const OWN: u32 = 40;
const SHARED: u32 = 20;

/// How long a slow transaction stays open, in milliseconds.
const SLOW: std::ops::Range<u64> = 200..1_500;

/// Writers at work.
pub(super) struct Load {
    is_over: Arc<AtomicBool>,
    committed: Arc<AtomicU64>,
    writers: JoinSet<()>,
}

/// The rows whose locks are held by those who write events of what all of them write.
pub(super) async fn prepare(store: &Store) {
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test("create table chaos_thing (id integer primary key, n integer not null)")
        .await
        .unwrap();
    for id in 0..SHARED {
        tx.execute_for_test(&format!("insert into chaos_thing (id, n) values ({id}, 0)")).await.unwrap();
    }
    tx.commit().await.unwrap();
}

impl Load {
    pub(super) fn start(store: &Store, source: Source, plan: &Plan) -> Self {
        let (is_over, committed) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut writers = JoinSet::new();
        for number in 0..WRITERS {
            let chance = Rng::with_seed(plan.seed.wrapping_add(1 + u64::from(number)));
            let writer =
                Writer { number, store: store.clone(), source, chance, committed: committed.clone() };
            let pause = Duration::from_secs(1) * (WRITERS * EVENTS) / plan.rate;
            writers.spawn(writer.write(pause, is_over.clone()));
        }
        Self { is_over, committed, writers }
    }

    /// Ends them; how many events were committed, as far as they know.
    pub(super) async fn end(self) -> u64 {
        self.is_over.store(true, Ordering::SeqCst);
        self.writers.join_all().await;
        self.committed.load(Ordering::SeqCst)
    }
}

struct Writer {
    number: u32,
    store: Store,
    source: Source,
    chance: Rng,
    committed: Arc<AtomicU64>,
}

impl Writer {
    /// One transaction in each `pause`; what was missed is made up for.
    async fn write(mut self, pause: Duration, is_over: Arc<AtomicBool>) {
        let mut ticks = tokio::time::interval(pause);
        while !is_over.load(Ordering::SeqCst) {
            ticks.tick().await;
            match self.transaction().await {
                Ok(count) => {
                    self.committed.fetch_add(count, Ordering::SeqCst);
                }
                // The database restarts. Whether a commit whose answer was lost has happened does not matter here: the
                // table is what counts.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    async fn transaction(&mut self) -> Result<u64, StoreError> {
        let mut tx = self.store.begin().await?;
        let count = self.chance.u32(1..2 * EVENTS);
        let mut aggregates: Vec<String> =
            (0..count).map(|_| format!("own-{}-{}", self.number, self.chance.u32(..OWN))).collect();
        if self.chance.u32(..4) == 0 {
            let thing = self.chance.u32(..SHARED);
            let sql = format!("update chaos_thing set n = n + 1 where id = {thing}");
            tx.execute_for_test(&sql).await?;
            aggregates.push(format!("shared-{thing}"));
        }
        if self.source == Source::Outbox && self.chance.bool() {
            let event = |id: &String| {
                NewEvent::new("thing", id.clone(), "thing.moved", "things", Payload::Json("{}".into()))
            };
            tx.publish_all(&aggregates.iter().map(event).collect::<Result<Vec<_>, _>>().unwrap()).await?;
        } else {
            tx.execute_for_test(&self.source.insert(&aggregates)).await?;
        }
        // On SQLite it would keep all others from writing.
        if self.store.dialect() == Dialect::Postgres && self.chance.u32(..100) < 2 {
            tokio::time::sleep(Duration::from_millis(self.chance.u64(SLOW))).await;
        }
        if self.chance.u32(..100) < 5 {
            tx.rollback().await?;
            return Ok(0);
        }
        tx.commit().await?;
        Ok(aggregates.len() as u64)
    }
}

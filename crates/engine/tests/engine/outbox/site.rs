//! Relays on both databases, in real time.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidemill_domain::outbox::failed_event::RetryPolicy;
use tidemill_domain::outbox::{EventId, Record};
use tidemill_domain::process::{Identity, ProcessId};
use tidemill_engine::outbox::relay::{Relay, RelayError, RelayOptions};
use tidemill_engine::outbox::{Outcome, Publisher};
use tidemill_engine::{SystemClock, SystemIds};
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Far longer than anything here takes, so that a hang is seen.
pub(super) const SOON: Duration = Duration::from_secs(120);

/// A database with an outbox.
pub(super) struct Site {
    pub(super) scratch: Scratch,
    pub(super) store: Store,
}

impl Site {
    pub(super) async fn on(scratch: Scratch) -> Self {
        let store = scratch.store(None).await.unwrap();
        Self { scratch, store }
    }

    pub(super) async fn postgres() -> Option<Self> {
        Some(Self::on(Scratch::postgres_with_schema().await?).await)
    }

    /// A relay with connections of its own.
    pub(super) async fn relay(&self, kept: &Kept, adapt: impl FnOnce(&mut RelayOptions)) -> Running {
        Running::start(self.scratch.store(None).await.unwrap(), kept, adapt)
    }

    /// Writes events of these aggregates by plain SQL, as other programs do.
    pub(super) async fn write(&self, aggregates: &[&str]) {
        let mut tx = self.store.begin().await.unwrap();
        for aggregate in aggregates {
            tx.execute_for_test(&format!(
                "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload)
                 values ('order', '{aggregate}', 'order.paid', 'orders', '{{\"a\":1}}')"
            ))
            .await
            .unwrap();
        }
        tx.commit().await.unwrap();
    }
}

/// How a relay leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Going {
    /// It is told to stop while the sink has a batch of it.
    Stopped,
    /// It is killed, whatever it does.
    Killed,
}

/// A relay that runs.
pub(super) struct Running {
    pub(super) stop: watch::Sender<bool>,
    pub(super) task: JoinHandle<Result<(), RelayError>>,
    process: ProcessId,
    store: Store,
    /// How many publications of it wait for the answer of the sink.
    waiting: Arc<AtomicUsize>,
}

impl Running {
    pub(super) fn start(store: Store, kept: &Kept, adapt: impl FnOnce(&mut RelayOptions)) -> Self {
        let identity = Identity { name: "relay".into(), host: "mill".into(), pid: 7, version: "0".into() };
        let process: ProcessId = SystemIds.process();
        let mut options = RelayOptions::new(process, identity, RetryPolicy::standard().unwrap());
        adapt(&mut options);
        let waiting = Arc::<AtomicUsize>::default();
        let kept = Kept { waiting: waiting.clone(), ..kept.clone() };
        let relay = Relay::new(store.clone(), Arc::new(SystemClock::new()), Arc::new(kept), options);
        let (stop, stopped) = watch::channel(false);
        Self { stop, task: tokio::spawn(async move { relay.run(stopped).await }), process, store, waiting }
    }

    pub(super) async fn stop(self) {
        self.stop.send_replace(true);
        tokio::time::timeout(SOON, self.task).await.expect("an end").unwrap().unwrap();
    }

    /// Leaves as `going` says, after `writing` has given it something to publish.
    pub(super) async fn go(self, site: &Site, kept: &Kept, going: Going, writing: impl Future<Output = ()>) {
        match going {
            Going::Killed => {
                writing.await;
                self.kill(site).await;
            }
            Going::Stopped => {
                crate::until("a relay with slots", async || {
                    let relays = site.store.read().await.unwrap().outbox().relays().await.unwrap();
                    relays.iter().any(|one| one.process == self.process && one.relay.slots > 0)
                })
                .await;
                let closed = kept.gate.lock().await;
                writing.await;
                crate::until("a batch at the sink", async || self.waiting.load(Ordering::Relaxed) > 0).await;
                self.stop.send_replace(true);
                drop(closed);
                self.stop().await;
            }
        }
    }

    /// As if it were killed, and its lease had run out since: it says nothing to anybody. Its store must be its own.
    pub(super) async fn kill(self, site: &Site) {
        self.task.abort();
        let _cancelled = self.task.await;
        // Then nothing that it has sent is on its way any more.
        self.store.close().await;
        let mut tx = site.store.begin().await.unwrap();
        let lapse = "update tidemill_outbox_relay set until = joined_at where ended_at is null and process";
        tx.execute_for_test(&format!("{lapse} = '{}'", self.process)).await.unwrap();
        tx.commit().await.unwrap();
    }
}

/// Keeps what is published.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    pub(super) records: Arc<Mutex<Vec<Record>>>,
    /// How often it was asked to take something.
    asked: Arc<AtomicUsize>,
    /// How many publications of one relay wait for its answer.
    waiting: Arc<AtomicUsize>,
    /// Aggregates whose events are refused; true: for good.
    pub(super) refused: Arc<Mutex<HashMap<String, bool>>>,
    /// Nothing is taken.
    pub(super) is_down: Arc<AtomicBool>,
    /// Nor ever will be.
    pub(super) is_gone: Arc<AtomicBool>,
    /// Whoever has it keeps the sink from answering.
    pub(super) gate: Arc<tokio::sync::Mutex<()>>,
}

impl Kept {
    pub(super) fn records(&self) -> Vec<Record> {
        self.records.lock().unwrap().clone()
    }

    pub(super) fn refuse(&self, aggregate: &str, is_permanent: bool) {
        self.refused.lock().unwrap().insert(aggregate.to_owned(), is_permanent);
    }

    pub(super) fn accept_all(&self) {
        self.refused.lock().unwrap().clear();
    }

    /// The ids of what came of an aggregate, in the order in which it came.
    pub(super) fn of(&self, aggregate: &str) -> Vec<EventId> {
        let records = self.records();
        records.iter().filter(|record| record.aggregate.id == aggregate).map(|record| record.id).collect()
    }

    pub(super) async fn until(&self, count: usize) -> Vec<Record> {
        let reached = async {
            loop {
                let records = self.records();
                let known: HashSet<EventId> = records.iter().map(|record| record.id).collect();
                if known.len() >= count {
                    return records;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(SOON, reached).await.expect("all events")
    }

    /// Waits until it was asked so many times more, whatever it has answered.
    pub(super) async fn until_asked(&self, times: usize) {
        let wanted = self.asked.load(Ordering::Relaxed) + times;
        let reached = async {
            while self.asked.load(Ordering::Relaxed) < wanted {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let in_time = tokio::time::timeout(SOON, reached).await;
        let asked = self.asked.load(Ordering::Relaxed);
        assert!(in_time.is_ok(), "the sink was asked {asked} times instead of {wanted}");
    }
}

impl Publisher for Kept {
    fn name(&self) -> String {
        "kept".to_owned()
    }

    fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }

    fn publish<'a>(
        &'a self,
        records: &'a [Record],
    ) -> Pin<Box<dyn Future<Output = Vec<Outcome>> + Send + 'a>> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let _waiting = Waiting::new(&self.waiting);
            let _open = self.gate.lock().await;
            if self.is_down.load(Ordering::Relaxed) {
                return vec![Outcome::Unavailable { why: "nobody is there".into() }; records.len()];
            }
            let refused = self.refused.lock().unwrap().clone();
            let mut seen = HashSet::new();
            let mut outcome = |record: &Record| match refused.get(&record.aggregate.id) {
                None => {
                    self.records.lock().unwrap().push(record.clone());
                    Outcome::Delivered
                }
                Some(_) if !seen.insert(record.aggregate.clone()) => Outcome::Held,
                Some(is_permanent) => {
                    Outcome::Refused { why: "too ugly".into(), is_permanent: *is_permanent }
                }
            };
            records.iter().map(&mut outcome).collect()
        })
    }
}

/// Is counted until it is dropped.
struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The first time that each event came, by aggregate, must be in the order of ids.
pub(super) fn assert_in_order(records: &[Record]) {
    let mut last: HashMap<&str, EventId> = HashMap::new();
    let mut known = HashSet::new();
    for record in records {
        if !known.insert(record.id) {
            continue;
        }
        let before = last.insert(&record.aggregate.id, record.id).unwrap_or_default();
        assert!(before < record.id, "{} came after {before} of {}", record.id, record.aggregate.id);
    }
}

//! Two real processes on one database: one is killed, one is frozen and comes back as a ghost.

use crate::Stage;
use crate::exact::{GRACE, LEASE};
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_engine::SystemClock;
use tidemill_store::audit::AuditFilter;
use tidemill_store::scratch::Scratch;
use tidemill_store::{Store, StoreOptions};
use tidemill_testkit::{Guarded, Signal};

tidemill_store::on_both![
    the_leases_of_a_killed_process_move_soon_after_their_end,
    a_frozen_process_comes_back_as_a_ghost_and_is_refused,
];

const PATIENCE: Duration = Duration::from_secs(180);

struct Worker {
    child: Guarded,
    stage: Stage,
}

impl Worker {
    /// Starts a worker that waits for `workers` to be there before it takes the first lease.
    fn start(database: &Scratch, name: &str, things: u32, workers: u32) -> Self {
        let stage = Stage::on(database.url())
            .with("TIDEMILL_PROCESS_NAME", name)
            .with("TIDEMILL_PROCESS_LEASE", &format!("{}s", LEASE.as_secs()))
            .with("TIDEMILL_LOG_LEVEL", "error");
        let mut command = stage.command(&[
            "demo-worker",
            "--things",
            &things.to_string(),
            "--workers",
            &workers.to_string(),
            "--work-ms",
            "400",
        ]);
        // The pipe stays open until the guard goes, and its end is the worker's own sign to end.
        command.stdin(Stdio::piped());
        Self { child: Guarded::spawn_reading(command).unwrap(), stage }
    }

    /// Follows what the worker tells up to this event, which has to come in time.
    fn until(&mut self, event: &str) -> Value {
        let clock = SystemClock::new();
        let start = clock.monotonic();
        while let Some(left) = PATIENCE.checked_sub(clock.monotonic().since(start)) {
            let Ok(line) = self.child.next_line(left) else { break };
            let told: Value = serde_json::from_str(&line).unwrap();
            if told["event"] == event {
                return told;
            }
        }
        panic!("the worker has not told of {event:?} within {PATIENCE:?}");
    }

    /// Ends in order; returns its counters.
    fn stop(mut self) -> String {
        self.child.signal(Signal::TERM).unwrap();
        let counters = self.until("metrics")["text"].as_str().unwrap().to_owned();
        assert!(self.child.wait_deadline(PATIENCE).unwrap().success());
        drop(self.stage);
        counters
    }
}

fn counter(text: &str, name: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with(&format!("{name}{{kind=\"demo\"}}")));
    line.and_then(|line| line.split_whitespace().last()).and_then(|count| count.parse().ok()).unwrap_or(0)
}

fn since(clock: &SystemClock, start: Monotonic) -> Duration {
    clock.monotonic().since(start)
}

async fn the_leases_of_a_killed_process_move_soon_after_their_end(database: Scratch) {
    database.store(None).await.unwrap().close().await;
    let mut victim = Worker::start(&database, "victim", 4, 2);
    let mut heir = Worker::start(&database, "heir", 4, 2);
    for _ in 0..2 {
        victim.until("acquired");
        heir.until("acquired");
    }

    victim.child.signal(Signal::KILL).unwrap();
    let clock = SystemClock::new();
    let start = clock.monotonic();
    for _ in 0..2 {
        let moved = heir.until("acquired");
        assert_eq!(moved["epoch"], 2, "{moved}");
    }
    let took = since(&clock, start);

    assert!(took <= LEASE + GRACE, "the leases moved after {took:?} on {}", database.url());
    let counters = heir.stop();
    // Whoever came first, the heir by taking over or its reaper by freeing, has counted each of the two.
    let moved = counter(&counters, "tidemill_lease_takeovers_total")
        + counter(&counters, "tidemill_lease_expired_total");
    assert_eq!(moved, 2, "{counters}");
    assert_no_ghost_settled(&database).await;
}

async fn a_frozen_process_comes_back_as_a_ghost_and_is_refused(database: Scratch) {
    let store = database.store(None).await.unwrap();
    let mut ghost = Worker::start(&database, "ghost", 1, 1);
    ghost.until("settled");
    let mut heir = Worker::start(&database, "heir", 1, 1);
    heir.until("registered");
    freeze_at_work(&mut ghost, &database).await;

    // As soon as the lease of the ghost has run out.
    let moved = heir.until("acquired");
    heir.until("settled");
    ghost.child.signal(Signal::CONT).unwrap();
    let refused = ghost.until("refused");
    let ended = ghost.until("ended");

    assert_eq!((&refused["epoch"], &moved["epoch"]), (&1.into(), &2.into()));
    assert!(matches!(ended["how"].as_str(), Some("SelfFenced" | "Expired")), "{ended}");
    // It goes on under a new name, and can be of use again.
    assert_ne!(ghost.until("registered")["process"], refused["process"]);
    let (of_ghost, of_heir) = (ghost.stop(), heir.stop());
    assert_eq!(counter(&of_ghost, "tidemill_fencing_rejections_total"), 1, "{of_ghost}");
    assert_eq!(counter(&of_heir, "tidemill_fencing_rejections_total"), 0, "{of_heir}");
    let moves = counter(&of_heir, "tidemill_lease_takeovers_total")
        + counter(&of_heir, "tidemill_lease_expired_total");
    assert_eq!(moves, 1, "{of_heir}");
    assert_no_ghost_settled(&database).await;
    store.close().await;
}

/// Freezes a worker in the middle of its work, and not while it holds the database's write lock: that would
/// stop everybody else on SQLite, too.
async fn freeze_at_work(worker: &mut Worker, database: &Scratch) {
    for _ in 0..20 {
        worker.until("working");
        worker.child.signal(Signal::STOP).unwrap();
        let options = StoreOptions { busy_timeout: Duration::from_millis(300), ..StoreOptions::default() };
        let store = Store::open(database.url().parse().unwrap(), &options).await.unwrap();
        let is_free = store.begin().await.is_ok();
        store.close().await;
        if is_free {
            return;
        }
        worker.child.signal(Signal::CONT).unwrap();
    }
    panic!("the worker always held the write lock");
}

/// What the database holds: per thing, epochs never go back, and each has one owner.
async fn assert_no_ghost_settled(database: &Scratch) {
    let store = Store::connect(database.url()).await.unwrap();
    let filter = AuditFilter { action: Some("demo.settle".into()), ..AuditFilter::default() };
    let mut log = store.read().await.unwrap().audit().entries(&filter, 10_000).await.unwrap();
    log.reverse();
    assert!(log.len() >= 2, "nothing was settled, so nothing was tested");
    let mut latest = std::collections::HashMap::new();
    for record in log {
        let epoch: i64 = record.entry.to.unwrap().parse().unwrap();
        let owner = record.entry.actor.name;
        let (known_epoch, known_owner) = latest.entry(record.entry.object).or_insert((epoch, owner.clone()));
        assert!(epoch >= *known_epoch, "a ghost has settled");
        assert!(epoch > *known_epoch || owner == *known_owner, "one epoch, two owners");
        (*known_epoch, *known_owner) = (epoch, owner);
    }
    store.close().await;
}

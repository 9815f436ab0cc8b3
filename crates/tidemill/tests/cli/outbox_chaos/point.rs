//! A relay dies at every point that there is, and its successor goes on where it was.

use super::ledger::{self, Ledger, Records};
use super::source::Source;
use super::{BATCH, LEASE, PATIENCE};
use crate::Stage;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::{Guarded, Signal, long_or};

tidemill_store::on_both![a_relay_that_dies_at_any_point_loses_nothing_and_repeats_one_batch_at_most];

/// Points, and at which pass to die; in the short form, only at the first of them.
type Points = &'static [(&'static str, &'static [u32])];

/// Which commit is which does not matter here: one of each kind is hit.
const POINTS: Points = &[
    ("outbox_slots_taken", &[1]),
    ("outbox_published", &[1, 3]),
    ("outbox_slots_left", &[1]),
    ("outbox_relay_ended", &[1]),
    ("before_commit", &[2, 4, 6]),
    ("after_commit", &[2, 4, 6]),
];

/// Those that only a relay of an attached table passes.
const ATTACHED_POINTS: Points =
    &[("outbox_attached_claimed", &[1, 3]), ("outbox_attached_published", &[1, 3])];

/// Events that are there when the relay starts, and again when it is dead: several batches each.
const EVENTS: usize = 3 * BATCH;

/// One that dies at a point, or else one that nobody finds dead, however busy the machine is.
fn relay(stage: &Stage, name: &str, point: Option<&str>) -> Guarded {
    let lease = if point.is_some() { LEASE } else { PATIENCE * 2 };
    let (batch, lease) = (BATCH.to_string(), format!("{}s", lease.as_secs()));
    let arguments = ["relay", "--sink", "file:events.jsonl", "--batch", &batch, "--lease", &lease];
    let mut command = stage.command(&arguments);
    command.envs(point.map(|point| ("TIDEMILL_CRASH_AT", point)));
    command.stdout(Stdio::null()).stderr(File::create(stage.path(name)).unwrap());
    Guarded::spawn(command).unwrap()
}

async fn write(source: Source, store: &Store) {
    let aggregates: Vec<String> = (0..EVENTS).map(|n| format!("thing-{}", n % 100)).collect();
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test(&source.insert(&aggregates)).await.unwrap();
    tx.commit().await.unwrap();
}

/// What is in the file, once all of so many events are there.
async fn look(source: Source, stage: &Stage, store: &Store, events: usize) -> Option<Ledger> {
    let file = stage.path("events.jsonl");
    if !file.exists() {
        return None;
    }
    let ledger = Ledger::compare(&Records::of_file(&file), source, store).await;
    (ledger.events == events && ledger.lost.is_empty()).then_some(ledger)
}

/// Lets a relay work alone until it is dead, or has published all there is; whether it is dead.
async fn die_or_publish(
    relay: &mut Guarded,
    source: Source,
    stage: &Stage,
    store: &Store,
    events: usize,
) -> bool {
    let done = async {
        loop {
            if relay.wait_deadline(Duration::from_millis(100)).is_some() {
                return true;
            }
            if look(source, stage, store, events).await.is_some() {
                return false;
            }
        }
    };
    tokio::time::timeout(PATIENCE, done).await.expect("it dies or publishes")
}

/// Lets a relay work until it is dead, or the other one has slots; whether it is dead.
async fn died_before_shared(relay: &mut Guarded, other: u32, store: &Store) -> bool {
    let done = async {
        loop {
            if relay.wait_deadline(Duration::from_millis(100)).is_some() {
                return true;
            }
            let mut tx = store.read().await.unwrap();
            let live = tx.outbox().relays().await.unwrap();
            tx.rollback().await.unwrap();
            if live.iter().any(|detail| detail.relay.pid == other && detail.relay.slots > 0) {
                return false;
            }
        }
    };
    tokio::time::timeout(PATIENCE, done).await.expect("it dies or shares")
}

/// Waits until all of so many events are in the file.
async fn published(source: Source, stage: &Stage, store: &Store, events: usize) -> Ledger {
    let all = async {
        loop {
            if let Some(ledger) = look(source, stage, store, events).await {
                return ledger;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all).await.expect("all events are published")
}

async fn a_relay_that_dies_at_any_point_loses_nothing_and_repeats_one_batch_at_most(scratch: Scratch) {
    sweep(scratch, Source::Outbox, POINTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_relay_of_an_attached_table_that_dies_at_any_point_loses_nothing_and_repeats_one_batch_at_most() {
    let Some(scratch) = Scratch::postgres().await else { return };
    sweep(scratch, Source::Attached, ATTACHED_POINTS).await;
}

async fn sweep(scratch: Scratch, source: Source, points: Points) {
    let stage = Stage::on(scratch.url()).with("TIDEMILL_PROCESS_LEASE", "10m");
    let store = scratch.store(None).await.unwrap();
    ledger::prepare(&store).await;
    source.prepare(&store, &stage).await;
    let mut events = 0;
    for (name, passes) in points {
        for pass in passes.iter().take(long_or(usize::MAX, 1)) {
            let point = format!("{name}:{pass}");
            write(source, &store).await;
            let mut dying = relay(&stage, "dying.log", Some(&point));
            let has_died = die_or_publish(&mut dying, source, &stage, &store, events + EVENTS).await;
            // A second one makes it leave some slots, and a signal makes it end.
            let mut heir = relay(&stage, "heir.log", None);
            if !has_died && !died_before_shared(&mut dying, heir.pid(), &store).await {
                dying.signal(Signal::TERM).unwrap();
            }
            let died = dying.wait_deadline(PATIENCE).expect("an end");
            assert_eq!(died.signal(), Some(6), "{point} was not passed on {}", scratch.url());
            write(source, &store).await;

            events += 2 * EVENTS;
            let ledger = published(source, &stage, &store, events).await;
            assert!(ledger.reordered.is_empty(), "{point}: {ledger:#?}");
            for (membership, count) in &ledger.repeated {
                assert!(*count <= BATCH, "{point}: {membership:?} has published {count} events in vain");
                assert_ne!(membership.0, i64::from(heir.pid()), "{point}: nothing was done to the heir");
            }
            heir.signal(Signal::TERM).unwrap();
            assert!(heir.wait_deadline(PATIENCE).expect("an end").success(), "{point}");
        }
    }
    if source == Source::Outbox {
        stage.run(&["outbox", "verify", "--sink", "file:events.jsonl"]).succeeds();
    }
    assert!(source.is_drained(&store, &stage).await, "what is published is marked so");
    store.close().await;
}

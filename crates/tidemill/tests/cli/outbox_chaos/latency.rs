//! How long an event takes from its commit to the file: at once when it was written through the product or the trigger
//! tells of it, and not longer than the pause between two looks when another program has written it. On SQLite a wake-up does not leave its process,
//! so what another process writes is always found by a look.

use super::PATIENCE;
use crate::{Stage, both_databases};
use std::fs::{self, File};
use std::process::Stdio;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::outbox::{NewEvent, Payload};
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::Store;
use tidemill_store::outbox::Notice;
use tidemill_store::url::Dialect;
use tidemill_testkit::Guarded;

const ROUNDS: u32 = 9;

/// What is promised.
const THROUGH_US: Duration = Duration::from_millis(50);
const BY_OTHERS: Duration = Duration::from_secs(1);

/// What the disk of a busy machine may add: a file is synced before an event counts as published.
const DISK: Duration = Duration::from_millis(100);

/// Who writes an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Us,
    Others,
    /// Others, and the trigger tells of it.
    Told,
}

async fn write(store: &Store, by: By, id: &str) {
    let mut tx = store.begin().await.unwrap();
    match by {
        By::Us => {
            let event = NewEvent::new("thing", id, "thing.moved", "things", Payload::Tombstone).unwrap();
            tx.publish(&event).await.unwrap();
        }
        By::Others | By::Told => {
            let sql = format!(
                "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic)
                 values ('thing', '{id}', 'thing.moved', 'things')"
            );
            tx.execute_for_test(&sql).await.unwrap();
        }
    }
    tx.commit().await.unwrap();
}

/// Makes the trigger; false where there is none.
async fn is_told(store: &Store) -> bool {
    let mut tx = store.begin().await.unwrap();
    let made = tx.set_outbox_notice(Notice::On, &Actor::system()).await;
    tx.commit().await.unwrap();
    made.is_ok()
}

/// How long it takes until the file is longer than it was.
async fn latency(stage: &Stage, store: &Store, by: By, id: &str) -> Duration {
    let length = || fs::metadata(stage.path("events.jsonl")).map_or(0, |found| found.len());
    let (clock, before) = (SystemClock::new(), length());
    write(store, by, id).await;
    let start = clock.monotonic();
    let grown = async {
        while length() == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, grown).await.expect("it comes");
    clock.monotonic().since(start)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_ours_is_published_at_once_and_one_of_others_at_the_next_look() {
    for scratch in both_databases().await {
        let store = scratch.store(None).await.unwrap();
        let stage = Stage::on(scratch.url());
        let mut command = stage.command(&["relay", "--sink", "file:events.jsonl"]);
        command.stdout(Stdio::null()).stderr(File::create(stage.path("relay.log")).unwrap());
        let _relay = Guarded::spawn(command).unwrap();
        latency(&stage, &store, By::Us, "first").await;

        let by_us = if store.dialect() == Dialect::Postgres { THROUGH_US } else { BY_OTHERS };
        for (by, promised) in [(By::Us, by_us), (By::Others, BY_OTHERS), (By::Told, THROUGH_US)] {
            if by == By::Told && !is_told(&store).await {
                continue;
            }
            let mut taken = Vec::new();
            for round in 0..ROUNDS {
                // At different times between two looks.
                tokio::time::sleep(Duration::from_millis(100 + u64::from(round * 237 % 1_000))).await;
                taken.push(latency(&stage, &store, by, &format!("{by:?}-{round}")).await);
            }
            taken.sort();
            let (middle, worst) = (taken[taken.len() / 2], taken[taken.len() - 1]);
            println!("{:?}, by {by:?}: {middle:.1?} in the middle, {worst:.1?} at most", store.dialect());
            assert!(middle < promised + DISK, "{middle:?} by {by:?} on {}", scratch.url());
        }
        store.close().await;
    }
}

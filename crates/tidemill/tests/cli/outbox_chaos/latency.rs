//! How long an event takes from its commit to the file: at once when it was written through the product or the trigger
//! tells of it, and not longer than the pause between two looks when another program has written it. On SQLite a wake-up
//! does not leave its process, so what another process writes is always found by a look.
//!
//! "At once" is not measured: a relay whose next look is a minute away was woken for what comes in half of that.

use super::PATIENCE;
use crate::Stage;
use std::fs::{self, File};
use std::process::Stdio;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::outbox::{NewEvent, Payload};
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::Store;
use tidemill_store::outbox::Notify;
use tidemill_store::scratch::Scratch;
use tidemill_store::url::Dialect;
use tidemill_testkit::{Guarded, Signal};

tidemill_store::on_both![an_event_of_ours_is_published_at_once_and_one_of_others_at_the_next_look,];

const ROUNDS: u32 = 9;

/// The longest pause between two looks that can be set, with a lease that allows it.
const RARELY: (&str, &str) = ("1m", "10m");

/// What takes longer may have been found by a look.
const LONG_BEFORE_A_LOOK: Duration = Duration::from_secs(30);

/// The usual pause between two looks, and the lease.
const USUALLY: (&str, &str) = ("1s", "5m");

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

/// Makes the trigger.
async fn tell(store: &Store) {
    let mut tx = store.begin().await.unwrap();
    assert!(tx.outbox().set_notify(Notify::On, &Actor::system()).await.unwrap());
    tx.commit().await.unwrap();
}

fn length(stage: &Stage) -> u64 {
    fs::metadata(stage.path("events.jsonl")).map_or(0, |found| found.len())
}

async fn until_longer(stage: &Stage, before: u64) {
    let grown = async {
        while length(stage) == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, grown).await.expect("it comes");
}

/// How long it takes until the file is longer than it was.
async fn latency(stage: &Stage, store: &Store, by: By, id: &str) -> Duration {
    let (clock, before) = (SystemClock::new(), length(stage));
    write(store, by, id).await;
    let start = clock.monotonic();
    until_longer(stage, before).await;
    clock.monotonic().since(start)
}

/// A relay as a process, with the pause between its looks and its lease, which has published its first event.
async fn start(stage: &Stage, store: &Store, (poll, lease): (&str, &str)) -> Guarded {
    let mut command = stage.command(&["relay", "--sink", "file:events.jsonl", "--lease", lease]);
    command.env("TIDEMILL_OUTBOX_POLL", poll).env("TIDEMILL_PROCESS_LEASE", "10m");
    command.stdout(Stdio::null()).stderr(File::create(stage.path("relay.log")).unwrap());
    let before = length(stage);
    write(store, By::Others, "first").await;
    let relay = Guarded::spawn(command).unwrap();
    until_longer(stage, before).await;
    relay
}

/// Ends it, so that the next one has its slots.
fn end(mut relay: Guarded) {
    relay.signal(Signal::TERM).unwrap();
    assert!(relay.wait_deadline(PATIENCE).expect("it ends").success());
}

async fn an_event_of_ours_is_published_at_once_and_one_of_others_at_the_next_look(scratch: Scratch) {
    let store = scratch.store(None).await.unwrap();
    let stage = Stage::on(scratch.url());

    if store.dialect() == Dialect::Postgres {
        let relay = start(&stage, &store, RARELY).await;
        for by in [By::Us, By::Told] {
            if by == By::Told {
                tell(&store).await;
            }
            for round in 0..ROUNDS {
                let took = latency(&stage, &store, by, &format!("{by:?}-{round}")).await;
                assert!(took < LONG_BEFORE_A_LOOK, "{took:?} by {by:?}: a look has found it");
            }
        }
        end(relay);
        let mut tx = store.begin().await.unwrap();
        tx.outbox().set_notify(Notify::Off, &Actor::system()).await.unwrap();
        tx.commit().await.unwrap();
    }
    let relay = start(&stage, &store, USUALLY).await;
    for by in [By::Us, By::Others] {
        latency(&stage, &store, by, &format!("{by:?}")).await;
    }
    end(relay);
    store.close().await;
}

//! A function that is killed in the middle of a call leaves the pool as it is.

use crate::emulator::{Emulator, post, signal};
use crate::{LONG, Site, acquire, pool, release};
use serde_json::{Value, json};
use std::time::Duration;
use tidemill_domain::pool::State;
use tidemill_testkit::{CommitProxy, Loss};

/// How many requests are in one of these states.
async fn count(site: &Site, states: &[State]) -> usize {
    let mut tx = site.store.read().await.unwrap();
    let tickets = tx.pools().tickets(&pool(), states, 100).await.unwrap();
    tx.rollback().await.unwrap();
    tickets.len()
}

#[tokio::test]
async fn who_waited_keeps_its_place_and_who_has_units_keeps_them() {
    let Some(site) = Site::new().await else { return };
    let emulator = site.start(LONG);
    assert_eq!(emulator.invoke(&acquire("run-1", 949))["allowed"], true);
    let first = emulator.function();

    let (mut longer, port) = (acquire("run-2", 8), emulator.port);
    longer["wait_seconds"] = json!(50);
    let waiting = std::thread::spawn(move || post(port, &longer.to_string()));
    let queued = async {
        while count(&site, &[State::Waiting]).await == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), queued).await.unwrap();
    signal("-KILL", first);
    let killed: Value = serde_json::from_str(&waiting.join().unwrap()).unwrap();
    let again = emulator.invoke(&acquire("run-2", 8));
    let (held, queued) = (count(&site, &State::HELD).await, count(&site, &[State::Waiting]).await);
    let released = emulator.invoke(&release("run-1"));
    let granted = emulator.invoke(&acquire("run-2", 8));

    assert_eq!(killed["errorType"], "Runtime.ExitError", "{killed}");
    assert_ne!(emulator.function(), first);
    assert_eq!((&again["allowed"], &again["queue_position"]), (&json!(false), &json!(1)), "{again}");
    assert_eq!((held, queued), (1, 1));
    assert_eq!((&released["released_connections"], &granted["allowed"]), (&json!(949), &json!(true)));
    assert_eq!(site.usage().await, 8);
}

/// No server runs here, so a call of the next function finds out that the time of the lease is over.
#[tokio::test]
async fn units_of_a_silent_holder_come_back_with_their_lease() {
    let Some(site) = Site::holding(Duration::from_secs(3)).await else { return };
    let emulator = site.start(LONG);
    assert_eq!(emulator.invoke(&acquire("run-1", 949))["allowed"], true);
    signal("-KILL", emulator.function());

    let granted = async {
        while emulator.invoke(&acquire("run-2", 949))["allowed"] != true {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), granted).await.unwrap();

    assert_eq!((site.usage().await, count(&site, &[State::Expired]).await), (949, 1));
}

#[tokio::test]
async fn units_whose_grant_nobody_heard_of_are_the_same_when_asked_for_again() {
    let Some(site) = Site::new().await else { return };
    let proxy = CommitProxy::in_front_of(site.scratch.url()).unwrap();
    let emulator = Emulator::start(&site.emulator, LONG, &[("TIDEMILL_DATABASE_URL", proxy.url())]);
    assert_eq!(emulator.invoke(&json!({ "action": "status" }))["sources"]["4"]["current_usage"], 0);

    proxy.lose(Loss::Answer, b"tidemill_pool");
    let lost = emulator.invoke(&acquire("run-1", 8));
    let held = site.usage().await;
    let again = emulator.invoke(&acquire("run-1", 8));

    assert_eq!((proxy.lost(), held), (1, 8), "{lost}");
    assert!(lost["errorType"].as_str().is_some_and(|kind| kind.starts_with("TM02")), "{lost}");
    assert_eq!((&again["allowed"], &again["after_usage"]), (&json!(true), &json!(8)), "{again}");
    assert_eq!(emulator.invoke(&release("run-1"))["released_connections"], 8);
    assert_eq!(site.usage().await, 0);
}

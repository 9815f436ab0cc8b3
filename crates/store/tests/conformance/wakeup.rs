//! Wake-ups.

use crate::Bench;
use std::time::Duration;
use tidemill_store::wakeup::Woken;
use tidemill_store::{Store, StoreOptions};

crate::on_both![
    a_commit_wakes_and_a_rollback_does_not,
    a_wake_up_between_looking_and_waiting_is_not_lost,
    another_process_is_woken_where_the_database_can,
];

const SOON: Duration = Duration::from_secs(120);
const BRIEFLY: Duration = Duration::from_millis(50);

async fn a_commit_wakes_and_a_rollback_does_not(bench: Bench) {
    let mut wakeup = bench.store.wakeup("jobs");
    settle(&mut wakeup).await;

    let mut tx = bench.begin().await;
    tx.wake("jobs");
    tx.rollback().await.unwrap();
    assert_eq!(wakeup.wait(BRIEFLY).await, Woken::TimedOut);

    let mut tx = bench.begin().await;
    tx.wake("other");
    tx.wake("jobs");
    tx.commit().await.unwrap();
    assert_eq!(wakeup.wait(SOON).await, Woken::Called);
}

async fn a_wake_up_between_looking_and_waiting_is_not_lost(bench: Bench) {
    let mut wakeup = bench.store.wakeup("jobs");
    settle(&mut wakeup).await;
    let mut tx = bench.begin().await;
    tx.wake("jobs");
    tx.commit().await.unwrap();

    assert_eq!(wakeup.wait(SOON).await, Woken::Called);
}

async fn another_process_is_woken_where_the_database_can(bench: Bench) {
    let elsewhere =
        Store::open(bench.scratch.url().parse().unwrap(), &StoreOptions::default()).await.unwrap();
    let mut wakeup = elsewhere.wakeup("jobs");
    settle(&mut wakeup).await;

    // Many commits in a row are coalesced, but the last one counts.
    for _ in 0..50 {
        let mut tx = bench.begin().await;
        tx.wake("jobs");
        tx.commit().await.unwrap();
    }
    bench.store.close().await;

    let expected = if bench.scratch.url().starts_with("sqlite") { Woken::TimedOut } else { Woken::Called };
    let limit = if expected == Woken::Called { SOON } else { BRIEFLY };
    assert_eq!(wakeup.wait(limit).await, expected);
}

/// A listener that has just connected wakes everybody once; let that pass.
async fn settle(wakeup: &mut tidemill_store::wakeup::Wakeup) {
    let _either = wakeup.wait(Duration::from_secs(1)).await;
}

//! Sinks that take nothing: for one relay, for all of them, and for ever.

use super::site::{Kept, SOON, Site, assert_in_order};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::outbox::Slot;
use tidemill_engine::outbox::RelayOptions;
use tidemill_store::outbox::RelayDetail;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_relay_whose_sink_is_down_makes_room_for_one_whose_sink_is_not,
    a_sink_that_is_down_for_all_is_waited_for,
    a_sink_that_is_gone_ends_the_relay_at_once,
];

/// One whose sink is down steps aside after a little more than its lease.
fn fast(options: &mut RelayOptions) {
    options.lease = Duration::from_secs(20);
    options.poll = Duration::from_millis(200);
    options.timeout = Duration::from_millis(200);
}

fn down() -> Kept {
    let kept = Kept::default();
    kept.is_down.store(true, Ordering::Relaxed);
    kept
}

async fn live(site: &Site) -> Vec<RelayDetail> {
    let mut tx = site.store.read().await.unwrap();
    let relays = tx.outbox().relays().await.unwrap();
    tx.rollback().await.unwrap();
    relays
}

async fn has_one_relay_with_all_slots(site: &Site) -> bool {
    matches!(live(site).await.as_slice(), [only] if only.relay.slots == Slot::COUNT)
}

async fn a_relay_whose_sink_is_down_makes_room_for_one_whose_sink_is_not(scratch: Scratch) {
    let site = Site::on(scratch).await;
    let (broken, working) = (down(), Kept::default());
    let names: Vec<String> = (0..60).map(|n| format!("order-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    site.write(&names).await;
    let first = site.relay(&broken, fast).await;
    crate::until("a relay with all slots", async || has_one_relay_with_all_slots(&site).await).await;
    broken.until_asked(1).await;

    let second = site.relay(&working, fast).await;
    let records = working.until(60).await;

    assert_in_order(&records);
    assert_eq!((records.len(), broken.records().len()), (60, 0));
    first.stop().await;
    second.stop().await;
}

async fn a_sink_that_is_down_for_all_is_waited_for(scratch: Scratch) {
    let site = Site::on(scratch).await;
    let kept = down();
    let names: Vec<String> = (0..60).map(|n| format!("order-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    site.write(&names).await;
    let relays = [site.relay(&kept, fast).await, site.relay(&kept, fast).await];

    crate::until("both relays", async || live(&site).await.len() == 2).await;
    crate::until("one that steps aside", async || live(&site).await.len() == 1).await;
    kept.is_down.store(false, Ordering::Relaxed);
    site.write(&names).await;
    let records = kept.until(120).await;

    assert_in_order(&records);
    assert_eq!(records.len(), 120);
    for relay in relays {
        relay.stop().await;
    }
}

async fn a_sink_that_is_gone_ends_the_relay_at_once(scratch: Scratch) {
    let site = Site::on(scratch).await;
    let kept = down();
    kept.is_gone.store(true, Ordering::Relaxed);
    site.write(&["order-1"]).await;

    let relay = site.relay(&kept, fast).await;
    let ended = tokio::time::timeout(SOON, relay.task).await.expect("an end").unwrap();

    assert_eq!(ended.unwrap_err().code(), Code::SinkGone);
    let mut tx = site.store.read().await.unwrap();
    assert!(tx.outbox().relays().await.unwrap().is_empty(), "it has left");
}

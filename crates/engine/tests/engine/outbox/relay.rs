//! A relay publishes everything once and in order, shares with others, and is replaced when it dies.

use super::site::{Going, Kept, Running, Site, assert_in_order};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_domain::outbox::{EventId, Seq, Slot};
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    everything_is_published_once_and_in_order,
    relays_that_come_and_go_in_order_publish_each_event_once,
    each_relay_that_is_killed_leaves_one_batch_at_most_that_comes_again,
];

async fn everything_is_published_once_and_in_order(scratch: Scratch) {
    let site = Site::on(scratch).await;
    let kept = Kept::default();
    let aggregates: Vec<String> = (0..40).map(|n| format!("order-{n}")).collect();
    let names: Vec<&str> = aggregates.iter().map(String::as_str).collect();
    for _ in 0..5 {
        site.write(&names).await;
    }

    // Windows of several pages, and one that is smaller than a page.
    let relay = site.relay(&kept, |options| options.batch = NonZeroU32::new(7).unwrap()).await;
    kept.until(200).await;
    site.write(&names).await;
    let records = kept.until(240).await;
    relay.stop().await;

    assert_eq!(records.len(), 240);
    assert_in_order(&records);
    assert_eq!(records.iter().map(|record| record.id).collect::<BTreeSet<EventId>>().len(), 240);
    let mut seqs: BTreeMap<Slot, Vec<Seq>> = BTreeMap::new();
    for record in &records {
        assert_eq!(record.slot, Slot::of(&record.aggregate.id));
        seqs.entry(record.slot).or_default().push(record.seq);
    }
    for (slot, seqs) in seqs {
        let expected: Vec<Seq> = (1..=i64::try_from(seqs.len()).unwrap()).map(Seq::new).collect();
        assert_eq!(seqs, expected, "{slot}");
    }
}

/// Relays join and leave while events are written: two of them leave as `going` says, two are told to stop. Returns how many
/// records too many were published, once all events are published and all relays have ended.
async fn doubles_of_relays_that_come_and_go(site: &Site, going: Going) -> usize {
    let kept = Kept::default();
    let aggregates: Vec<String> = (0..60).map(|n| format!("order-{n}")).collect();
    let names: Vec<&str> = aggregates.iter().map(String::as_str).collect();
    let mut relays: Vec<Running> = Vec::new();
    let fast = |options: &mut tidemill_engine::outbox::RelayOptions| {
        // Nobody loses it to a busy machine.
        options.lease = Duration::from_secs(600);
        options.poll = Duration::from_millis(200);
        options.batch = NonZeroU32::new(50).unwrap();
    };

    for _ in 0..3 {
        relays.push(site.relay(&kept, fast).await);
    }
    let mut written = 0;
    for step in 0..60 {
        site.write(&names).await;
        written += names.len();
        match step {
            15 | 20 => relays.push(site.relay(&kept, fast).await),
            30 | 35 => {
                written += names.len();
                relays.remove(0).go(site, &kept, going, site.write(&names)).await;
            }
            45 | 50 => relays.remove(0).stop().await,
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    kept.until(written).await;
    for relay in relays {
        relay.stop().await;
    }

    let records = kept.records();
    assert_in_order(&records);
    records.len() - written
}

async fn relays_that_come_and_go_in_order_publish_each_event_once(scratch: Scratch) {
    let site = Site::on(scratch).await;
    assert_eq!(doubles_of_relays_that_come_and_go(&site, Going::Stopped).await, 0);
}

async fn each_relay_that_is_killed_leaves_one_batch_at_most_that_comes_again(scratch: Scratch) {
    let site = Site::on(scratch).await;
    let doubles = doubles_of_relays_that_come_and_go(&site, Going::Killed).await;

    assert!(doubles <= 2 * 50, "{doubles} doubles after two kills with batches of 50");
}

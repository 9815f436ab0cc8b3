//! The outbox: one file per part of the story; this one has what they share.

mod event;
mod foreign;

use crate::Bench;
use tidemill_domain::outbox::{NewEvent, Payload, StoredEvent};
use tidemill_store::outbox::EventFilter;

/// An event of an order.
fn paid(order: &str) -> NewEvent {
    NewEvent::new("order", order, "order.paid", "orders", Payload::Json("{\"amount\":5}".into())).unwrap()
}

async fn publish(bench: &Bench, events: &[NewEvent]) {
    let mut tx = bench.begin().await;
    tx.publish_all(events).await.unwrap();
    tx.commit().await.unwrap();
}

/// All events, the oldest first.
async fn events(bench: &Bench) -> Vec<StoredEvent> {
    let mut tx = bench.store.read().await.unwrap();
    let mut events = tx.outbox_events(&EventFilter::default(), 100_000).await.unwrap();
    events.reverse();
    events
}

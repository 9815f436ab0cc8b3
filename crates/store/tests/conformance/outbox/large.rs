//! Large events: what is read at once is bounded by bytes as well, and who only wants to see a list reads no payload.

use super::failed_event::{delivered, due, new, settle, waiting};
use super::reader::{Reader, assert_each_once};
use super::{events, paid, publish};
use crate::Bench;
use tidemill_domain::outbox::event::PAYLOAD_BYTES_MAX;
use tidemill_domain::outbox::{NewEvent, Payload};
use tidemill_store::outbox::EventFilter;

crate::on_both![
    a_page_ends_when_it_has_many_bytes,
    small_events_are_read_at_once,
    what_is_due_is_tried_in_portions_of_bytes,
    a_list_tells_how_large_payloads_are,
];

/// So many of the largest events are more than is read at once, even with the one that is one too many.
const LARGE: usize = 20;

/// As many as come to 16 MiB, and one.
const PAGE: usize = 17;

fn large(order: usize) -> NewEvent {
    let text = format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX - 2));
    NewEvent::new("order", order.to_string(), "order.paid", "orders", Payload::Json(text)).unwrap()
}

async fn publish_large(bench: &Bench) {
    for order in 1..=LARGE {
        publish(bench, &[large(order)]).await;
    }
}

async fn a_page_ends_when_it_has_many_bytes(bench: Bench) {
    publish_large(&bench).await;
    let mut relay = Reader::of_all(&bench.store, 1, 500).await;

    let mut pages = Vec::new();
    loop {
        let batch = relay.read().await.unwrap();
        let count = batch.page.events.len();
        pages.push(count);
        assert!(relay.settle(batch, count).await);
        if count == 0 {
            break;
        }
    }

    assert_eq!(pages, [PAGE, LARGE - PAGE, 0]);
    assert_each_once(&relay.settled, LARGE);
}

async fn small_events_are_read_at_once(bench: Bench) {
    let orders: Vec<NewEvent> = (0..400).map(|order| paid(&order.to_string())).collect();
    publish(&bench, &orders).await;
    let mut relay = Reader::of_all(&bench.store, 1, 400).await;

    let batch = relay.read().await.unwrap();

    assert_eq!((batch.page.events.len(), batch.page.queries), (400, 1));
    assert!(batch.page.window.to.is_none(), "nothing is behind it");
}

async fn what_is_due_is_tried_in_portions_of_bytes(bench: Bench) {
    publish_large(&bench).await;
    let all = events(&bench).await;
    let failed: Vec<_> =
        all.iter().map(|event| new(event.id.get(), &event.aggregate.id, waiting(bench.now()))).collect();
    let mut tx = bench.begin().await;
    tx.outbox().add_failed_events(&failed, bench.now()).await.unwrap();
    tx.commit().await.unwrap();

    let mut portions = Vec::new();
    loop {
        let found = due(&bench, 100, 500).await;
        portions.push(found.events.len());
        if found.events.is_empty() {
            break;
        }
        settle(&bench, &found.events.iter().map(delivered).collect::<Vec<_>>()).await;
    }

    assert_eq!(portions, [PAGE, LARGE - PAGE, 0]);
}

async fn a_list_tells_how_large_payloads_are(bench: Bench) {
    let of = |payload| NewEvent::new("order", "1", "order.paid", "orders", payload).unwrap();
    let sizes =
        [of(Payload::Json("\"주문\"".into())), of(Payload::Bytes(Vec::new())), of(Payload::Tombstone)];
    publish(&bench, &sizes).await;
    publish(&bench, &[large(1)]).await;

    let listed = bench.begin().await.outbox().events(&EventFilter::default(), 10).await.unwrap();

    let bytes: Vec<Option<usize>> = listed.iter().map(|event| event.bytes).collect();
    assert_eq!(bytes, [Some(PAYLOAD_BYTES_MAX), None, Some(0), Some(8)]);
}

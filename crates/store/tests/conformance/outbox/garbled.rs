//! Texts that are none: SQLite lets other programs write any bytes into a text. PostgreSQL refuses them.

use super::failed_event::{delivered, due, new, settle, waiting};
use super::reader::Reader;
use super::run;
use crate::Bench;
use tidemill_domain::outbox::failed_event::FailedEventState;
use tidemill_domain::outbox::{BadEvent, Slot};
use tidemill_store::outbox::EventFilter;
use tidemill_store::outbox::failed_event::SettledAs;

/// Columns of an event that can be garbled, and what they are called.
const COLUMNS: [(&str, &str); 5] = [
    ("aggregate_type", "aggregate type"),
    ("aggregate_id", "aggregate id"),
    ("event_type", "event type"),
    ("payload", "payload"),
    ("headers", "headers"),
];

/// Writes an event whose text in this column is garbled.
async fn write(bench: &Bench, column: &str) {
    let text = match column {
        "payload" => "cast(x'22ff22' as text)",
        "headers" => "cast(x'7b2261223a22ff227d' as text)",
        _ => "cast(x'61ff' as text)",
    };
    let of = |name: &str, good: &'static str| if name == column { text } else { good };
    run(
        &bench.store,
        &format!(
            "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload, headers)
             values ({}, {}, {}, 'orders', {}, {})",
            of("aggregate_type", "'order'"),
            of("aggregate_id", "'1'"),
            of("event_type", "'order.paid'"),
            of("payload", "'{}'"),
            of("headers", "null"),
        ),
    )
    .await;
}

#[tokio::test]
async fn an_event_that_is_no_text_is_read_and_told_and_the_others_flow() {
    let bench = Bench::sqlite().await;
    write(&bench, "").await;
    for (column, _) in COLUMNS {
        write(&bench, column).await;
    }
    write(&bench, "").await;
    let mut relay = Reader::of_all(&bench.store, 1, 3).await;

    relay.drain().await;

    let told: Vec<Option<&BadEvent>> = relay
        .settled
        .iter()
        .map(|one| one.event.garbled.as_ref().or(one.event.headers.good().err()))
        .collect();
    let bad = COLUMNS.map(|(_, what)| BadEvent::NotUtf8 { what });
    let mut expected = vec![None];
    expected.extend(bad.iter().map(Some));
    expected.push(None);
    assert_eq!(told, expected);
    let named = &relay.settled[2].event;
    assert_eq!((named.aggregate.id.as_str(), named.slot), ("a\u{fffd}", Slot::of("a\u{fffd}")));
    // Whoever looks at them is not stopped by them either.
    let mut tx = bench.begin().await;
    assert_eq!(tx.outbox().events(&EventFilter::default(), 10).await.unwrap().len(), 7);
    assert!(tx.outbox().event_detail(named.id).await.unwrap().is_some());
    assert_eq!(tx.outbox().names(&[named.id]).await.unwrap()[&named.id].id, "a\u{fffd}");
}

#[tokio::test]
async fn what_is_due_and_is_no_text_is_parked_and_the_others_are_tried() {
    let bench = Bench::sqlite().await;
    write(&bench, "payload").await;
    write(&bench, "headers").await;
    write(&bench, "").await;
    let mut tx = bench.begin().await;
    tx.outbox().fill_slots(10).await.unwrap();
    let failed: Vec<_> = (1..=3)
        .map(|id| {
            let mut new = new(id, "1", waiting(bench.now()));
            new.aggregate.kind = format!("order{id}");
            new
        })
        .collect();
    tx.outbox().add_failed_events(&failed, bench.now()).await.unwrap();
    tx.commit().await.unwrap();

    let found = due(&bench, 10, 10).await;
    settle(&bench, &found.events.iter().map(delivered).collect::<Vec<_>>()).await;

    assert_eq!(found.events.iter().map(|event| event.id.get()).collect::<Vec<_>>(), [3]);
    let parked = |what: &str| SettledAs::Refused {
        state: FailedEventState::Parked,
        error: format!("the text of the {what} is not valid UTF-8"),
    };
    let told: Vec<SettledAs> = found.unpublishable.into_iter().map(|one| one.what).collect();
    assert_eq!(told, [parked("payload"), parked("headers")]);
}

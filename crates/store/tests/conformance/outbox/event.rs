//! Events that are written by our own functions.

use super::{events, paid, publish};
use crate::Bench;
use std::time::Duration;
use tidemill_domain::outbox::event::{HEADER_BYTES_MAX, PAYLOAD_BYTES_MAX};
use tidemill_domain::outbox::{EventId, NewEvent, Payload, Slot, StoredHeaders};
use tidemill_store::outbox::{EVENTS, EventFilter, publish_on};
use tidemill_store::sqlx::{self, Connection};
use tidemill_store::wakeup::Woken;
use tidemill_testkit::CommitProxy;

crate::on_both![
    an_event_is_there_after_the_commit_and_not_after_a_rollback,
    everything_that_was_said_is_read_back,
    the_numbers_of_many_events_are_in_their_order,
    whatever_we_accept_the_database_accepts,
    an_event_is_in_the_slot_of_its_aggregate_whatever_the_letters,
    events_are_listed_from_the_newest_page_by_page,
    only_the_events_that_meet_the_filter_are_listed,
    a_commit_wakes_the_relays,
    many_events_are_one_statement,
    an_event_in_a_transaction_of_the_users_own_shares_its_end,
];

async fn an_event_is_there_after_the_commit_and_not_after_a_rollback(bench: Bench) {
    let mut tx = bench.begin().await;
    tx.publish(&paid("never")).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = bench.begin().await;
    let id = tx.publish(&paid("once")).await.unwrap();
    tx.commit().await.unwrap();

    let found = bench.begin().await.outbox().event(id).await.unwrap().unwrap();

    assert_eq!((found.id, found.aggregate.id.as_str()), (id, "once"));
    assert_eq!(events(&bench).await, [found]);
    assert_eq!(bench.begin().await.outbox().event(EventId::new(id.get() + 1)).await.unwrap(), None);
}

async fn everything_that_was_said_is_read_back(bench: Bench) {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let payloads = [
        Payload::Json(" {\"a\" : \"\\u0000 \\\" 한\", \"a\": 1e999}\n".into()),
        Payload::Json("null".into()),
        Payload::Bytes(all_bytes),
        Payload::Bytes(Vec::new()),
        Payload::Tombstone,
    ];
    let event = |payload| NewEvent::new("거래", "a'b\"c\\\n한", "it's;--", "a.B_c-1", payload).unwrap();
    let new: Vec<NewEvent> = payloads
        .iter()
        .map(|payload| event(payload.clone()).header("trace \"é", "x\u{1}\n'한\\").unwrap())
        .chain([event(Payload::Tombstone)])
        .collect();

    publish(&bench, &new).await;

    let stored = events(&bench).await;
    assert_eq!(stored.len(), new.len());
    for (stored, new) in stored.iter().zip(&new) {
        assert_eq!(&stored.aggregate, new.aggregate());
        assert_eq!((stored.event_type.as_str(), stored.topic.as_str()), (new.event_type(), new.topic()));
        assert_eq!(&stored.payload, new.payload());
        assert_eq!(stored.headers, StoredHeaders::Good(new.headers().clone()));
        assert_eq!((stored.slot, stored.created_at), (new.slot(), bench.now()));
    }
    let xids: Vec<u64> = stored.iter().map(|event| event.xid).collect();
    if bench.scratch.url().starts_with("sqlite") {
        assert_eq!(xids, stored.iter().map(|event| event.id.get().unsigned_abs()).collect::<Vec<_>>());
    } else {
        assert_eq!(xids, vec![xids[0]; new.len()], "one transaction has one number");
    }
}

async fn the_numbers_of_many_events_are_in_their_order(bench: Bench) {
    let new: Vec<NewEvent> = (0..2500).map(|number| paid(&format!("order-{number}"))).collect();

    let mut tx = bench.begin().await;
    let ids = tx.publish_all(&new).await.unwrap();
    let none = tx.publish_all(&[]).await.unwrap();
    tx.commit().await.unwrap();

    assert!(none.is_empty());
    assert!(ids.is_sorted_by(|one, two| one < two));
    let stored = events(&bench).await;
    let expected: Vec<(EventId, &str)> =
        ids.iter().copied().zip(new.iter().map(|event| event.aggregate().id.as_str())).collect();
    assert_eq!(
        stored.iter().map(|event| (event.id, event.aggregate.id.as_str())).collect::<Vec<_>>(),
        expected
    );
}

async fn whatever_we_accept_the_database_accepts(bench: Bench) {
    let text = format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX - 2));
    let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
    let longest = |payload| {
        NewEvent::new("t".repeat(200), "한".repeat(333), "e".repeat(200), "t".repeat(249), payload).unwrap()
    };
    let words = "\u{1}".repeat(HEADER_BYTES_MAX - 1);
    let new = [
        longest(Payload::Json(text)),
        longest(Payload::Json(deep)),
        longest(Payload::Bytes(vec![0xff; PAYLOAD_BYTES_MAX])),
        longest(Payload::Tombstone).header("a", words).unwrap(),
    ];

    publish(&bench, &new).await;

    let payloads: Vec<Payload> = events(&bench).await.into_iter().map(|event| event.payload).collect();
    assert_eq!(payloads, new.map(|event| event.payload().clone()));
}

/// On PostgreSQL the table computes the slot, here we do.
async fn an_event_is_in_the_slot_of_its_aggregate_whatever_the_letters(bench: Bench) {
    let ids = [
        "a",
        "order-1",
        "ÄÖÜ",
        "주문-42",
        "🦀",
        "e\u{301}",
        "\u{e9}",
        " ",
        "\u{7f}",
        "\u{10ffff}",
        "\u{feff}x",
    ];
    let many = (0..300).map(|number| format!("{}-{number}", ids[number % ids.len()]));
    let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).chain(many).collect();

    publish(&bench, &ids.iter().map(|id| paid(id)).collect::<Vec<_>>()).await;

    for (event, id) in events(&bench).await.iter().zip(&ids) {
        assert_eq!((&event.aggregate.id, event.slot), (id, Slot::of(id)));
    }
    let column = "select count(*) from outbox_event where slot is null";
    let mut tx = bench.begin().await;
    let empty: i64 = match tx.postgres() {
        Some(postgres) => sqlx::query_scalar(column).fetch_one(postgres).await.unwrap(),
        None => sqlx::query_scalar(column).fetch_one(tx.sqlite().unwrap()).await.unwrap(),
    };
    assert_eq!(empty, 0);
}

async fn events_are_listed_from_the_newest_page_by_page(bench: Bench) {
    let new: Vec<NewEvent> = (0..5).map(|number| paid(&number.to_string())).collect();
    publish(&bench, &new).await;

    let mut tx = bench.begin().await;
    let mut filter = EventFilter::default();
    let mut pages = Vec::new();
    loop {
        let page = tx.outbox().events(&filter, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        filter.before = Some(last.id);
        pages.push(page.into_iter().map(|event| event.aggregate.id).collect::<Vec<_>>());
    }

    assert_eq!(pages, [vec!["4", "3"], vec!["2", "1"], vec!["0"]]);
}

async fn only_the_events_that_meet_the_filter_are_listed(bench: Bench) {
    let event = |kind: &str, id: &str, what: &str, topic: &str| {
        NewEvent::new(kind, id, what, topic, Payload::Tombstone).unwrap()
    };
    let new = [
        event("order", "1", "order.paid", "orders"),
        event("order", "2", "order.sent", "orders"),
        event("refund", "1", "refund.made", "refunds"),
    ];
    publish(&bench, &new).await;
    let some = |text: &str| Some(text.to_owned());
    let filters = [
        (EventFilter { aggregate_type: some("order"), ..EventFilter::default() }, 2),
        (EventFilter { aggregate_id: some("1"), ..EventFilter::default() }, 2),
        (EventFilter { topic: some("refunds"), ..EventFilter::default() }, 1),
        (EventFilter { event_type: some("order.sent"), ..EventFilter::default() }, 1),
        (EventFilter { aggregate_type: some("order"), aggregate_id: some("1"), ..EventFilter::default() }, 1),
        (EventFilter { topic: some("' or '1'='1"), ..EventFilter::default() }, 0),
    ];

    let mut tx = bench.begin().await;
    for (filter, count) in filters {
        assert_eq!(tx.outbox().events(&filter, 10).await.unwrap().len(), count, "{filter:?}");
    }
}

async fn a_commit_wakes_the_relays(bench: Bench) {
    let mut wakeup = bench.store.wakeup(EVENTS);
    // A listener that has just connected wakes everybody once; let that pass.
    let _either = wakeup.wait(Duration::from_secs(1)).await;

    let mut tx = bench.begin().await;
    tx.publish(&paid("1")).await.unwrap();
    tx.rollback().await.unwrap();
    let after_rollback = wakeup.wait(Duration::from_millis(50)).await;
    publish(&bench, &[paid("2")]).await;

    assert_eq!(after_rollback, Woken::TimedOut);
    assert_eq!(wakeup.wait(Duration::from_secs(10)).await, Woken::Called);
}

async fn many_events_are_one_statement(bench: Bench) {
    if bench.scratch.url().starts_with("sqlite") {
        return; // A file has no wire.
    }
    let wire = CommitProxy::in_front_of(bench.scratch.url()).unwrap();
    let store = tidemill_store::Store::open(wire.url().parse().unwrap(), &Default::default()).await.unwrap();
    let new: Vec<NewEvent> = (0..1000).map(|number| paid(&number.to_string())).collect();
    let mut tx = store.begin().await.unwrap();
    tx.publish(&paid("1")).await.unwrap();

    let before = wire.statements();
    tx.publish_all(&new).await.unwrap();
    let after = wire.statements();
    tx.commit().await.unwrap();

    assert_eq!(after - before, 1);
    store.close().await;
}

async fn an_event_in_a_transaction_of_the_users_own_shares_its_end(bench: Bench) {
    if bench.scratch.url().starts_with("sqlite") {
        return; // Of SQLite there is one writer, which is the store's.
    }
    let mut connection = sqlx::PgConnection::connect(bench.scratch.url()).await.unwrap();
    let mut never = connection.begin().await.unwrap();
    publish_on(&mut never, &paid("never")).await.unwrap();
    never.rollback().await.unwrap();
    let mut once = connection.begin().await.unwrap();
    let first = publish_on(&mut once, &paid("once")).await.unwrap();
    let second = publish_on(&mut once, &paid("twice").header("a", "b").unwrap()).await.unwrap();
    assert!(events(&bench).await.is_empty());

    once.commit().await.unwrap();

    let stored = events(&bench).await;
    assert_eq!(stored.iter().map(|event| event.id).collect::<Vec<_>>(), [first, second]);
    assert_eq!(stored[0].xid, stored[1].xid);
    assert_eq!(stored[1].headers.good().unwrap().get("a").unwrap(), "b");
}

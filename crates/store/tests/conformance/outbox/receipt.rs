//! What of a receipt may come again.

use super::reader::{Reader, write};
use super::{EventId, run};
use crate::Bench;
use std::collections::BTreeSet;
use tidemill_domain::outbox::Slot;

crate::on_both![
    what_was_read_or_is_gone_is_settled_and_the_rest_is_not,
    what_failed_is_unsettled_until_it_is_skipped,
    what_lies_below_the_floor_is_settled,
];

async fn unsettled(bench: &Bench, reader: &Reader, ids: &[i64]) -> Vec<i64> {
    let ids: Vec<EventId> = ids.iter().copied().map(EventId::new).collect();
    let mut tx = bench.store.read().await.unwrap();
    let found: BTreeSet<EventId> = tx.outbox().unsettled(&ids, &reader.cursors).await.unwrap();
    found.into_iter().map(EventId::get).collect()
}

async fn what_was_read_or_is_gone_is_settled_and_the_rest_is_not(bench: Bench) {
    let mut reader = Reader::of_all(&bench.store, 1, 3).await;
    write(&bench.store, &["a", "b", "c", "d", "e"]).await;
    // In the middle of a window: three of five were read.
    reader.step().await;

    assert_eq!(unsettled(&bench, &reader, &[1, 3, 4, 5, 99]).await, [4, 5]);

    reader.drain().await;
    assert!(unsettled(&bench, &reader, &[1, 3, 4, 5, 99]).await.is_empty());
}

async fn what_failed_is_unsettled_until_it_is_skipped(bench: Bench) {
    let mut reader = Reader::of_all(&bench.store, 1, 10).await;
    write(&bench.store, &["a", "b", "c"]).await;
    reader.drain().await;
    let slot = Slot::of("b");
    let now = match bench.store.dialect() {
        tidemill_store::url::Dialect::Postgres => "now()",
        tidemill_store::url::Dialect::Sqlite => "0",
    };
    let insert = format!(
        "insert into tidemill_outbox_exception
             (event_id, slot, seq, aggregate_type, aggregate_id, event_type, state, since, updated_at)
         values (2, {slot}, 1, 'thing', 'b', 'thing.changed', 'parked', {now}, {now})"
    );
    run(&bench.store, &insert).await;

    assert_eq!(unsettled(&bench, &reader, &[1, 2, 3]).await, [2]);

    run(&bench.store, "update tidemill_outbox_exception set state = 'skipped'").await;
    assert!(unsettled(&bench, &reader, &[1, 2, 3]).await.is_empty());
}

async fn what_lies_below_the_floor_is_settled(bench: Bench) {
    let reader = Reader::of_all(&bench.store, 1, 10).await;
    write(&bench.store, &["a", "b", "c"]).await;

    assert_eq!(unsettled(&bench, &reader, &[1, 2, 3]).await, [1, 2, 3]);

    run(&bench.store, "update tidemill_outbox set floor_id = 2").await;
    assert_eq!(unsettled(&bench, &reader, &[1, 2, 3]).await, [3]);
}

//! The keeper of the outbox, on both databases.

use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::outbox::partition::Range;
use tidemill_domain::outbox::restore::RestoreState;
use tidemill_domain::outbox::{Snapshot, Window};
use tidemill_domain::time::FakeClock;
use tidemill_engine::outbox::KeeperOptions;
use tidemill_engine::outbox::keeper::keep;
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;

const DAY: Duration = Duration::from_secs(24 * 3600);

async fn run(store: &Store, sql: &str) {
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test(sql).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn on_postgres_a_round_does_all_of_it() {
    let Some(scratch) = Scratch::postgres_with_schema().await else { return };
    let clock = Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().unwrap()));
    let store = scratch.store(Some(clock.clone())).await.unwrap();
    run(
        &store,
        "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload, created_at)
         values ('order', 'a', 'paid', 'orders', '{}', '2026-11-15T02:00:00Z');
         select setval(pg_get_serial_sequence('outbox_event', 'id'), 1500000)",
    )
    .await;

    let first = keep(&store, &KeeperOptions::default()).await.unwrap();
    clock.advance(DAY * 8);
    let waiting = keep(&store, &KeeperOptions::default()).await.unwrap();
    let snapshot = store.begin().await.unwrap().outbox().server().await.unwrap().unwrap().snapshot;
    let place = serde_json::to_string(&Window::at(snapshot)).unwrap();
    run(&store, &format!("update tidemill_outbox_slot set place = '{place}'")).await;
    let read = keep(&store, &KeeperOptions::default()).await.unwrap();

    assert_eq!(first.checked.state, RestoreState::First);
    assert_eq!(first.extended.made.len(), 2);
    assert_eq!((waiting.checked.state, waiting.retained.dropped), (RestoreState::Same, Vec::new()));
    assert_eq!(read.retained.dropped, [Range { from: 1, to: 1_000_001 }]);
}

#[tokio::test]
async fn on_sqlite_a_round_forgets() {
    let bench = crate::Bench::new().await;
    let now = tidemill_domain::time::Clock::now(&*bench.clock).as_micros();
    run(
        &bench.store,
        &format!(
            "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload, created_at, slot)
             values ('order', 'a', 'paid', 'orders', '{{}}', {now}, 12), ('order', 'a', 'paid', 'orders', '{{}}', {now}, 12)"
        ),
    )
    .await;
    let place = serde_json::to_string(&Window::at(Snapshot::up_to(1))).unwrap();
    run(&bench.store, &format!("update tidemill_outbox_slot set place = '{place}'")).await;
    bench.clock.advance(DAY * 8);

    let kept = keep(&bench.store, &KeeperOptions::default()).await.unwrap();

    assert_eq!((kept.retained.deleted, kept.extended.made.len()), (1, 0));
}

#[tokio::test]
async fn a_round_forgets_what_consumers_have_seen_long_ago() {
    let bench = crate::Bench::new().await;
    let first = async |id: &str| {
        let mut tx = bench.store.begin().await.unwrap();
        let first = tx.first_time("billing", id).await.unwrap();
        tx.commit().await.unwrap();
        first
    };
    first("old").await;
    bench.clock.advance(DAY * 29);
    first("young").await;
    bench.clock.advance(DAY * 2);

    let kept = keep(&bench.store, &KeeperOptions::default()).await.unwrap();

    assert_eq!(kept.unseen, 1);
    assert_eq!((first("old").await, first("young").await), (true, false));
}

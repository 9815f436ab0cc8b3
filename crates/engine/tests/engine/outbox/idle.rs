//! What a relay costs that has nothing to do, counted by the server itself; and that what it counts of itself is what it
//! does.

use super::site::{Kept, Running};
use std::time::Duration;
use tidemill_domain::outbox::{NewEvent, Payload, Tally};
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::outbox::RelayDetail;
use tidemill_store::{Init, Store, StoreOptions};
use tidemill_testkit::{PostgresOptions, PrivatePostgres, skip};

/// Statements per second of an idle relay, all that it does included.
const MOST: f64 = 1.2;

/// The statement of a look.
const LOOK: &str = "query like 'with clock as%'";

/// The last statement of a round of the keeper.
const ROUND: &str = "query like 'delete from tidemill_inbox%'";

/// A server that counts statements, and a store on it.
async fn counting_server() -> (PrivatePostgres, Store) {
    let settings = vec![("shared_preload_libraries".to_owned(), "pg_stat_statements".to_owned())];
    let server = PrivatePostgres::start(&PostgresOptions { settings, ..PostgresOptions::default() }).unwrap();
    server.psql("postgres", "create extension pg_stat_statements").unwrap();
    let url = server.url("postgres").parse().unwrap();
    let store = Store::open(url, &StoreOptions::default()).await.unwrap();
    store.initialise(Init::Always).await.unwrap();
    (server, store)
}

/// Statements that are so, since counting began; but not those of who counts.
fn statements(server: &PrivatePostgres, which: &str) -> f64 {
    let sql = format!(
        "select coalesce(sum(calls), 0) from pg_stat_statements
         where ({which}) and query not like '%pg_stat_statements%'"
    );
    server.psql("postgres", &sql).unwrap().trim().parse().unwrap()
}

/// Statements that are no looks: those of the keeper, where nothing is published.
fn others(server: &PrivatePostgres) -> f64 {
    statements(server, &format!("not {LOOK}"))
}

fn begin_counting(server: &PrivatePostgres) {
    server.psql("postgres", "select pg_stat_statements_reset()").unwrap();
}

async fn relays(store: &Store) -> Vec<RelayDetail> {
    store.read().await.unwrap().outbox().relays().await.unwrap()
}

async fn tally(store: &Store) -> Tally {
    relays(store).await.remove(0).tally
}

/// Waits until the only relay has all slots.
async fn has_all_slots(store: &Store) {
    crate::until("a relay with all slots", async || {
        relays(store).await.iter().any(|detail| detail.relay.slots == 256)
    })
    .await;
}

/// Waits until the only relay has all slots and its first round of keeping is over: it does nothing but look.
async fn settled(server: &PrivatePostgres, store: &Store) {
    has_all_slots(store).await;
    crate::until("a relay that only looks", async || {
        begin_counting(server);
        crate::until("three looks", async || statements(server, LOOK) >= 3.0).await;
        others(server) == 0.0
    })
    .await;
}

/// On PostgreSQL, because there a statement is a journey to the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_has_nothing_to_do_asks_once_a_second() {
    if skip::skipped("postgres") {
        return;
    }
    let (server, store) = counting_server().await;
    let (kept, clock) = (Kept::default(), SystemClock::new());

    let relay = Running::start(store.clone(), &kept, |_| {});
    settled(&server, &store).await;
    begin_counting(&server);
    let begin = clock.monotonic();
    crate::until("six looks", async || statements(&server, LOOK) >= 6.0).await;
    let (looks, all) = (statements(&server, LOOK), statements(&server, "true"));
    let spent = clock.monotonic().since(begin).as_secs_f64();
    relay.stop().await;

    // The first one may come at once.
    assert!(looks <= spent * 1.1 + 1.0, "{looks} looks in {spent} s");
    assert!(all <= spent * MOST + 1.0, "{all} statements in {spent} s");

    // The keeper, a hundred times as fast as it is.
    let (pause, usual) = (Duration::from_millis(300), Duration::from_secs(30));
    begin_counting(&server);
    let relay = Running::start(store.clone(), &kept, |options| options.keeper.pause = pause);
    crate::until("a round of the keeper", async || statements(&server, ROUND) >= 1.0).await;
    begin_counting(&server);
    let begin = clock.monotonic();
    crate::until("three more rounds", async || statements(&server, ROUND) >= 3.0).await;
    let keeping = others(&server);
    let pauses = clock.monotonic().since(begin).as_secs_f64() / pause.as_secs_f64();
    relay.stop().await;
    store.close().await;

    let per_second = keeping / (pauses * usual.as_secs_f64());
    let looking = (looks - 1.0) / spent;
    assert!(
        looking + per_second <= MOST,
        "{per_second} statements of the keeper a second, and {looking} looks"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_relay_counts_of_itself_is_what_the_server_counts() {
    if skip::skipped("postgres") {
        return;
    }
    let (server, store) = counting_server().await;
    let kept = Kept::default();
    let relay = Running::start(store.clone(), &kept, |_| {});
    settled(&server, &store).await;
    begin_counting(&server);
    let before = tally(&store).await;

    for batch in 0..8 {
        let mut tx = store.begin().await.unwrap();
        let event =
            |n: u32| NewEvent::new("order", n.to_string(), "paid", "orders", Payload::Tombstone).unwrap();
        tx.publish_all(&(0..500).map(event).collect::<Vec<_>>()).await.unwrap();
        tx.commit().await.unwrap();
        kept.until((batch + 1) * 500).await;
    }
    crate::until("all are marked", async || tally(&store).await.since(before).published == 4_000).await;
    // A relay tells with each look what it has done before. So what it has told by now is part of what the server counts
    // next, and that is part of what it tells two looks later.
    let done = tally(&store).await.since(before);
    let counted = statements(
        &server,
        &format!(
            "{LOOK} or query like 'update tidemill_outbox_relay%'
             or query like '%outbox_event%' and query not like '%into outbox_event%'"
        ),
    );
    let looks = statements(&server, LOOK);
    crate::until("two more looks", async || statements(&server, LOOK) >= looks + 2.0).await;
    let later = tally(&store).await.since(before);
    relay.stop().await;
    store.close().await;

    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let (least, most) = (done.effort.queries as f64, later.effort.queries as f64);
    // The look during which counting began belongs to one side only.
    assert!(
        least <= counted + 1.0 && counted <= most + 1.0,
        "{done:?}, {later:?}, and {counted} were counted"
    );
    assert_eq!(later.published, 4_000);
    assert!(done.effort.empty_polls < done.effort.polls, "{done:?}");
    assert!(done.queries_per_10000_events().unwrap() < 200.0, "{done:?}");
}

//! What a relay costs that has nothing to do, counted by the server itself; and that what it counts of itself is what it
//! does.

use super::site::{Kept, Running, SOON};
use std::time::Duration;
use tidemill_domain::outbox::{NewEvent, Payload};
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::outbox::RelayDetail;
use tidemill_store::{Init, Store, StoreOptions};
use tidemill_testkit::{PostgresOptions, PrivatePostgres, skip};

/// Statements per second of an idle relay, all that it does included.
const MOST: f64 = 1.2;

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

/// Statements that are like this, since counting began; but not those of who counts.
fn statements(server: &PrivatePostgres, like: &str) -> f64 {
    let sql = format!(
        "select coalesce(sum(calls), 0) from pg_stat_statements
         where query like '{like}' and query not like '%pg_stat_statements%'"
    );
    server.psql("postgres", &sql).unwrap().trim().parse().unwrap()
}

fn begin_counting(server: &PrivatePostgres) {
    server.psql("postgres", "select pg_stat_statements_reset()").unwrap();
}

async fn relays(store: &Store) -> Vec<RelayDetail> {
    store.read().await.unwrap().outbox_relays().await.unwrap()
}

/// Waits until the only relay has all slots and its first round of keeping is over.
async fn settled(store: &Store) {
    let shared = async {
        while !relays(store).await.iter().any(|detail| detail.relay.slots == 256) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, shared).await.expect("a relay with all slots");
    tokio::time::sleep(Duration::from_secs(2)).await;
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
    settled(&store).await;
    begin_counting(&server);
    let begin = clock.monotonic();
    tokio::time::sleep(Duration::from_secs(6)).await;
    let (looks, all) = (statements(&server, "with clock as%"), statements(&server, "%"));
    let spent = clock.monotonic().since(begin).as_secs_f64();
    relay.stop().await;

    assert!(looks >= 3.0 && looks / spent <= 1.1, "{looks} looks in {spent} s");
    assert!(all / spent <= MOST, "{all} statements in {spent} s");

    // The keeper, a hundred times as fast as it is.
    let (pause, usual) = (Duration::from_millis(300), Duration::from_secs(30));
    let relay = Running::start(store.clone(), &kept, |options| options.keeper.pause = pause);
    settled(&store).await;
    begin_counting(&server);
    let begin = clock.monotonic();
    tokio::time::sleep(Duration::from_secs(6)).await;
    let keeping = statements(&server, "%") - statements(&server, "with clock as%");
    let pauses = clock.monotonic().since(begin).as_secs_f64() / pause.as_secs_f64();
    relay.stop().await;
    store.close().await;

    let per_second = keeping / (pauses * usual.as_secs_f64());
    assert!(keeping > pauses / 2.0, "{keeping} statements in {pauses} pauses: there is no keeper");
    assert!(looks / spent + per_second <= MOST, "{per_second} statements of the keeper a second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_relay_counts_of_itself_is_what_the_server_counts() {
    if skip::skipped("postgres") {
        return;
    }
    let (server, store) = counting_server().await;
    let kept = Kept::default();
    let relay = Running::start(store.clone(), &kept, |_| {});
    settled(&store).await;
    begin_counting(&server);
    let before = relays(&store).await.remove(0).tally;

    for batch in 0..8 {
        let mut tx = store.begin().await.unwrap();
        let event =
            |n: u32| NewEvent::new("order", n.to_string(), "paid", "orders", Payload::Tombstone).unwrap();
        tx.publish_all(&(0..500).map(event).collect::<Vec<_>>()).await.unwrap();
        tx.commit().await.unwrap();
        kept.until((batch + 1) * 500).await;
    }
    // Written down with the next look.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let after = relays(&store).await.remove(0).tally;
    let counted = statements(&server, "with clock as%")
        + statements(&server, "update tidemill_outbox_relay%")
        + statements(&server, "%outbox_event%")
        - statements(&server, "%into outbox_event%")
        - statements(&server, "%clock%outbox_event%");
    relay.stop().await;
    store.close().await;

    let done = after.since(before);
    assert_eq!(done.published, 4_000);
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let difference = (done.effort.queries as f64 - counted).abs();
    // The last look is counted by the server, and the relay tells of it with the next one.
    assert!(difference <= 2.0, "{done:?}, and the server counted {counted}");
    assert!(done.effort.empty_polls < done.effort.polls, "{done:?}");
    assert!(done.queries_per_10000_events().unwrap() < 200.0, "{done:?}");
}

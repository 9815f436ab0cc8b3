//! `tidemill outbox stats` and `tidemill outbox notify`.

use crate::Stage;
use crate::serve::Served;
use serde_json::{Value, json};
use std::time::Duration;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    what_was_not_read_is_told,
    a_server_without_a_relay_measures_the_outbox_and_what_is_not_known_is_no_number,
];

const PATIENCE: Duration = Duration::from_secs(180);

const EVENT: &str = "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload)
                     values ('order', 'a', 'paid', 'orders', '{}')";

async fn what_was_not_read_is_told(database: Scratch) {
    let store = database.store(None).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test(EVENT).await.unwrap();
    tx.commit().await.unwrap();
    store.close().await;
    let stage = Stage::on(database.url());

    let told = stage.run(&["outbox", "stats"]).succeeds().stdout.clone();
    let object = stage.run(&["outbox", "stats", "-o", "json"]).succeeds().stdout.clone();
    let slots = stage.run(&["outbox", "stats", "--slots", "-o", "json"]).succeeds().stdout.clone();

    let line = |name: &str| {
        let found = told.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{told}"));
        found.trim().to_owned()
    };
    assert_eq!(
        (line("unread"), line("parked"), line("unowned slots")),
        ("1".into(), "0".into(), "256".into())
    );
    assert_eq!(line("wal bytes per event"), "unknown");
    assert_eq!(
        (line("published per second"), line("queries per 10000 events")),
        ("unknown".into(), "unknown".into())
    );
    let object: Value = serde_json::from_str(&object).unwrap();
    assert_eq!(object["unread"], json!({ "at_least": 1, "is_exact": true }));
    assert_eq!((&object["wal_bytes_per_event"], &object["empty_poll_ratio"]), (&Value::Null, &Value::Null));
    assert_eq!(object["unpublished"], json!({ "at_least": 1, "is_exact": true }));
    let is_postgres = database.url().starts_with("postgres");
    assert_eq!(object["partitions"].as_array().unwrap().len(), if is_postgres { 3 } else { 0 });
    let slots: Value = serde_json::from_str(&slots).unwrap();
    assert_eq!(slots["items"][12]["unread"]["at_least"], 1);
    assert!(slots["items"][12]["unpublished_oldest_at"].is_string(), "{}", slots["items"][12]);
    assert_eq!(slots["items"].as_array().unwrap().len(), 256);
}

/// Waits until a server has measured.
#[track_caller]
fn measured(served: &Served) -> String {
    let clock = SystemClock::new();
    let begun = clock.monotonic();
    loop {
        let (_, metrics) = served.get("/metrics", None);
        if metrics.contains("\ntidemill_outbox_unpublished_events ") {
            return metrics;
        }
        assert!(clock.monotonic().since(begun) < PATIENCE, "{metrics}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

async fn a_server_without_a_relay_measures_the_outbox_and_what_is_not_known_is_no_number(database: Scratch) {
    let store = database.store(None).await.unwrap();
    let is_postgres = database.url().starts_with("postgres");
    let now = if is_postgres { "now()" } else { "1" };
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test(EVENT).await.unwrap();
    tx.execute_for_test(EVENT).await.unwrap();
    tx.execute_for_test("update tidemill_outbox set floor_id = 1").await.unwrap();
    tx.execute_for_test(&format!(
        "insert into tidemill_outbox_exception
                 (event_id, slot, seq, aggregate_type, aggregate_id, event_type, state, since, updated_at)
             values (1, 12, 1, 'order', 'a', 'paid', 'parked', {now}, {now})"
    ))
    .await
    .unwrap();
    tx.commit().await.unwrap();
    let stage = Stage::on(database.url());

    let served = Served::start(&stage, &[]);
    let metrics = measured(&served);

    for line in [
        "tidemill_outbox_unpublished_events 2",
        "tidemill_outbox_lag_events 1",
        "tidemill_outbox_failed_events{state=\"parked\"} 1",
        "tidemill_outbox_failed_events_oldest_seconds{state=\"waiting\"} 0",
        "tidemill_outbox_relays 0",
        "tidemill_outbox_unowned_slots 256",
        "tidemill_outbox_published_per_second NaN",
        "tidemill_outbox_wal_bytes_per_event NaN",
    ] {
        assert!(metrics.lines().any(|told| told == line), "{line} is not in {metrics}");
    }
    drop(served);

    // Snapshots of another server tell nothing. Those of SQLite always hold.
    if is_postgres {
        let mut tx = store.begin().await.unwrap();
        let place = "{\"from\":\"1099511627776:1099511627776:\"}";
        let sql = format!("update tidemill_outbox_slot set place = '{place}' where slot = 0");
        tx.execute_for_test(&sql).await.unwrap();
        tx.commit().await.unwrap();

        let metrics = measured(&Served::start(&stage, &[]));

        for name in ["lag_events", "oldest_seconds", "unpublished_events", "unpublished_oldest_seconds"] {
            let line = format!("tidemill_outbox_{name} NaN");
            assert!(metrics.lines().any(|told| told == line), "{line} is not in {metrics}");
        }
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_measures_attached_tables_and_one_that_is_gone_is_no_number() {
    let Some(database) = Scratch::postgres().await else { return };
    let store = database.store(None).await.unwrap();
    let run = async |sql: &str| {
        let mut tx = store.begin().await.unwrap();
        tx.execute_for_test(sql).await.unwrap();
        tx.commit().await.unwrap();
    };
    run("create table moves (
             event_id bigserial primary key, aggregate_id text not null, payload text, headers text, status text not null,
             next_retry_at timestamptz not null default now(), updated_at timestamptz not null default now()
         )")
    .await;
    run("insert into moves (aggregate_id, status) values ('a', 'FAILED'), ('a', 'SENDING'), ('a', 'PUBLISHED')").await;
    let stage = Stage::on(database.url());
    stage.run(&["outbox", "attach", "moves", "--topic", "moves"]).succeeds();
    let lines = |rows: [&str; 3], oldest: &str| {
        let rows = ["pending", "sending", "failed"].into_iter().zip(rows).map(|(status, rows)| {
            format!("tidemill_outbox_attached_rows{{table=\"public.moves\",status=\"{status}\"}} {rows}")
        });
        let oldest = format!("tidemill_outbox_attached_oldest_seconds{{table=\"public.moves\"}} {oldest}");
        rows.chain([oldest]).collect::<Vec<_>>()
    };

    let there = measured(&Served::start(&stage, &[]));
    run("drop table moves").await;
    let gone = measured(&Served::start(&stage, &[]));

    for (metrics, expected) in [(there, lines(["0", "1", "1"], "0")), (gone, lines(["NaN"; 3], "NaN"))] {
        for line in expected {
            assert!(metrics.lines().any(|told| told == line), "{line} is not in {metrics}");
        }
    }
    store.close().await;
}

#[tokio::test]
async fn the_trigger_is_made_and_taken_away() {
    let Some(database) = Scratch::postgres().await else { return };
    database.store(None).await.unwrap().close().await;
    let stage = Stage::on(database.url());
    let status = || stage.run(&["outbox", "notify", "status"]).succeeds().stdout.trim().to_owned();

    assert_eq!(status(), "notify  off");
    stage.run(&["outbox", "notify", "on"]).succeeds();
    assert_eq!(status(), "notify  on");
    stage.run(&["outbox", "notify", "off"]).succeeds();
    assert_eq!(status(), "notify  off");
}

#[test]
fn without_notifications_the_trigger_is_refused_with_a_remedy() {
    let database = Scratch::file();
    let stage = Stage::on(database.url());

    for word in ["notify", "notice"] {
        stage.run(&["outbox", word, "on"]).fails("TM1406", 5);
    }
    for words in [["attached", "adopted"], ["failed", "dead"]] {
        let [new, old] = words.map(|word| stage.run(&["outbox", word]).succeeds().stdout.clone());
        assert_eq!(new, old, "{words:?}");
    }
}

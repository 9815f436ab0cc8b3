//! `tidemill outbox stats` and `tidemill outbox notice`.

use crate::{Stage, both_databases};
use serde_json::{Value, json};
use tidemill_store::scratch::Scratch;

const EVENT: &str = "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload)
                     values ('order', 'a', 'paid', 'orders', '{}')";

#[tokio::test]
async fn what_was_not_read_is_told() {
    for database in both_databases().await {
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
            let found =
                told.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{told}"));
            found.trim().to_owned()
        };
        assert_eq!(
            (line("unread"), line("parked"), line("unowned slots")),
            ("1".into(), "0".into(), "256".into())
        );
        assert_eq!(line("wal bytes per event"), "unknown");
        let object: Value = serde_json::from_str(&object).unwrap();
        assert_eq!(object["unread"], json!({ "at_least": 1, "is_exact": true }));
        assert_eq!(object["wal_bytes_per_event"], Value::Null);
        let is_postgres = database.url().starts_with("postgres");
        assert_eq!(object["partitions"].as_array().unwrap().len(), if is_postgres { 3 } else { 0 });
        let slots: Value = serde_json::from_str(&slots).unwrap();
        assert_eq!(slots["items"][12]["unread"]["at_least"], 1);
        assert_eq!(slots["items"].as_array().unwrap().len(), 256);
    }
}

#[tokio::test]
async fn the_trigger_is_made_and_taken_away() {
    let Some(database) = Scratch::postgres().await else { return };
    database.store(None).await.unwrap().close().await;
    let stage = Stage::on(database.url());
    let status = || stage.run(&["outbox", "notice", "status"]).succeeds().stdout.trim().to_owned();

    assert_eq!(status(), "notice  off");
    stage.run(&["outbox", "notice", "on"]).succeeds();
    assert_eq!(status(), "notice  on");
    stage.run(&["outbox", "notice", "off"]).succeeds();
    assert_eq!(status(), "notice  off");
}

#[test]
fn without_notifications_the_trigger_is_refused_with_a_remedy() {
    let database = Scratch::file();
    let stage = Stage::on(database.url());

    let ran = stage.run(&["outbox", "notice", "on"]);

    ran.fails("TM1406", 5);
}

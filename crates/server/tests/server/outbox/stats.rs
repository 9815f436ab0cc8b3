//! How the outbox stands.

use crate::App;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use tidemill_domain::audit::Role;

const PATH: &str = "/api/v1/outbox/stats";

async fn look(app: &App, path: &str) -> Value {
    let answer = app.ask_as(Role::Viewer, Method::GET, path, "").await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {answer:?}");
    answer.json()
}

#[tokio::test]
async fn what_was_not_read_is_told_and_what_is_not_known_is_null() {
    let app = App::closed().await;
    let mut tx = app.store.begin().await.unwrap();
    tx.execute_for_test(
        "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload, created_at, slot)
         values ('order', 'a', 'paid', 'orders', '{}', 1794707000000000, 12)",
    )
    .await
    .unwrap();
    tx.commit().await.unwrap();

    let whole = look(&app, PATH).await;
    let by_slot = look(&app, &format!("{PATH}?slots=true")).await;

    assert_eq!(whole["unread"], json!({ "at_least": 1, "is_exact": true }));
    assert_eq!(
        (&whole["unpublished"], &whole["unpublished_oldest_at"]),
        (&whole["unread"], &whole["oldest_at"])
    );
    assert_eq!((&whole["published_per_second"], &whole["empty_poll_ratio"]), (&Value::Null, &Value::Null));
    assert_eq!(whole["failed_events"]["parked_oldest_at"], Value::Null);
    assert_eq!(whole["oldest_at"], "2026-11-15T01:43:20.000000Z");
    assert_eq!(whole["failed_events"]["parked"], json!({ "at_least": 0, "is_exact": true }));
    assert_eq!((&whole["relays"], &whole["unowned_slots"]), (&json!(0), &json!(256)));
    assert_eq!((&whole["default_rows"], &whole["wal_bytes_per_event"]), (&Value::Null, &Value::Null));
    assert_eq!(whole["slots"], Value::Null);
    assert_eq!(by_slot["slots"].as_array().unwrap().len(), 256);
    assert_eq!(by_slot["slots"][12]["unread"], json!({ "at_least": 1, "is_exact": true }));
    assert_eq!(by_slot["slots"][12]["unpublished_oldest_at"], whole["oldest_at"]);
    assert_eq!(by_slot["slots"][13]["oldest_at"], Value::Null);
}

#[tokio::test]
async fn who_may_not_look_is_refused() {
    let app = App::closed().await;

    let answer = app.ask_as(Role::Requester, Method::GET, PATH, "").await;

    assert_eq!(answer.status, StatusCode::FORBIDDEN);
}

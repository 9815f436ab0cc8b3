//! Callers that hang up: what they asked for is carried out, and nothing is cut off half-way.

use crate::{App, until};
use axum::body::Body;
use axum::http::Request;
use serde_json::json;
use std::time::Duration;
use tidemill_domain::audit::Role;
use tower::ServiceExt;

const PATH: &str = "/api/v1/outbox/events";
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_goes_on_to_its_end_when_its_caller_hangs_up() {
    let app = App::closed().await;
    let token = app.token(Role::Admin).await;
    let event = json!({
        "aggregate_type": "order", "aggregate_id": "a", "event_type": "order.paid", "topic": "orders",
        "payload": { "type": "json", "text": "{}" },
    });
    let request = Request::post(PATH)
        .header("host", "127.0.0.1:7790")
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
        .body(Body::from(event.to_string()))
        .unwrap();
    // Nothing can be written before this ends.
    let writer = app.store.begin().await.unwrap();

    let call = tokio::spawn(app.router.clone().oneshot(request));
    until(PATIENCE, "the change is under way", || app.state.changes_under_way() == 1).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    writer.rollback().await.unwrap();

    until(PATIENCE, "the change has ended", || app.state.changes_under_way() == 0).await;
    let events = app.ask_as(Role::Admin, axum::http::Method::GET, PATH, "").await.json();
    assert_eq!(events["items"].as_array().map(Vec::len), Some(1), "{events}");
}

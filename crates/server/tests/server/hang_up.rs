//! Callers that hang up: what they asked for is carried out, and nothing is cut off half-way.

use crate::{App, until};
use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::{Value, json};
use std::time::Duration;
use tidemill_domain::audit::Role;
use tower::ServiceExt;

const PATIENCE: Duration = Duration::from_secs(30);

/// Sends a change, hangs up while it is under way, and waits for its end.
async fn hang_up(app: &App, path: &str, body: &Value) {
    let token = app.token(Role::Admin).await;
    let request = Request::post(path)
        .header("host", "127.0.0.1:7790")
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
        .body(Body::from(body.to_string()))
        .unwrap();
    // Nothing can be written before this ends.
    let writer = app.store.begin().await.unwrap();

    let call = tokio::spawn(app.router.clone().oneshot(request));
    until(PATIENCE, "the change is under way", || app.state.changes_under_way() == 1).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    writer.rollback().await.unwrap();

    until(PATIENCE, "the change has ended", || app.state.changes_under_way() == 0).await;
}

async fn count(app: &App, path: &str) -> usize {
    let page = app.ask_as(Role::Admin, Method::GET, path, "").await.json();
    page["items"].as_array().unwrap_or_else(|| panic!("{page}")).len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_goes_on_to_its_end_when_its_caller_hangs_up() {
    let app = App::closed().await;
    let event = json!({
        "aggregate_type": "order", "aggregate_id": "a", "event_type": "order.paid", "topic": "orders",
        "payload": { "type": "json", "text": "{}" },
    });

    hang_up(&app, "/api/v1/outbox/events", &event).await;

    assert_eq!(count(&app, "/api/v1/outbox/events").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_launched_when_its_caller_hangs_up() {
    let app = App::closed().await;
    let launch = json!({ "parameters": { "day": "2026-11-15" } });

    hang_up(&app, "/api/v1/jobs/double/executions", &launch).await;

    assert_eq!(count(&app, "/api/v1/executions").await, 1);
}

//! Events, over HTTP: written, listed and looked at; and who publishes them.

use crate::{Answer, App};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use tidemill_domain::audit::Role;

const PATH: &str = "/api/v1/outbox/events";

fn paid(order: &str) -> Value {
    json!({
        "aggregate_type": "order",
        "aggregate_id": order,
        "event_type": "order.paid",
        "topic": "orders",
        "payload": { "type": "json", "text": "{\"secret\":5}" },
        "headers": { "trace": "abc" },
    })
}

async fn add(app: &App, role: Role, event: &Value) -> Answer {
    app.ask_as(role, Method::POST, PATH, &event.to_string()).await
}

async fn look(app: &App, role: Role, path: &str) -> Value {
    let answer = app.ask_as(role, Method::GET, path, "").await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {answer:?}");
    answer.json()
}

fn ids(list: &Value) -> Vec<i64> {
    list["items"].as_array().unwrap().iter().map(|item| item["id"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn an_event_is_written_and_shown_with_what_became_of_it() {
    let app = App::closed().await;

    let added = add(&app, Role::Admin, &paid("order-1")).await;
    let shown = look(&app, Role::Admin, &format!("{PATH}/1")).await;

    assert_eq!((added.status, added.json()), (StatusCode::CREATED, json!({ "id": 1, "slot": 0x6e })));
    assert_eq!((&shown["state"], &shown["owner"]), (&json!("pending"), &Value::Null));
    assert_eq!(shown["aggregate_id"], "order-1");
    assert_eq!(shown["payload"], json!({ "type": "json", "text": "{\"secret\":5}" }));
    assert_eq!(shown["headers"], json!({ "trace": "abc" }));
}

#[tokio::test]
async fn who_wrote_an_event_by_hand_is_in_the_audit_log_and_what_it_says_is_not() {
    let app = App::closed().await;

    add(&app, Role::Admin, &paid("order-1")).await;
    let audit = look(&app, Role::Viewer, "/api/v1/audit?action=event.add").await;

    assert_eq!(
        (&audit["items"][0]["object"], &audit["items"][0]["role"]),
        (&json!("event/1"), &json!("admin"))
    );
    assert!(!audit.to_string().contains("secret"), "{audit}");
}

#[tokio::test]
async fn bytes_and_tombstones_are_written_as_such() {
    let app = App::closed().await;
    for payload in [json!({ "type": "bytes", "base64": "AP8=" }), json!({ "type": "tombstone" })] {
        let mut event = paid("order-1");
        event["payload"] = payload.clone();

        let id = add(&app, Role::Admin, &event).await.json()["id"].clone();

        assert_eq!(look(&app, Role::Admin, &format!("{PATH}/{id}")).await["payload"], payload);
    }
}

#[tokio::test]
async fn events_are_listed_in_pages_without_what_they_say() {
    let app = App::closed().await;
    for order in ["a", "b", "a"] {
        assert_eq!(add(&app, Role::Admin, &paid(order)).await.status, StatusCode::CREATED);
    }

    let first = look(&app, Role::Viewer, &format!("{PATH}?limit=2")).await;
    let second = look(&app, Role::Viewer, &format!("{PATH}?limit=2&before={}", first["next"])).await;
    let of_a = look(&app, Role::Viewer, &format!("{PATH}?aggregate_id=a&topic=orders")).await;

    assert_eq!((ids(&first), ids(&second), ids(&of_a)), (vec![3, 2], vec![1], vec![3, 1]));
    assert_eq!(second["next"], Value::Null);
    assert!(!first.to_string().contains("secret"), "{first}");
}

#[tokio::test]
async fn the_same_request_under_its_key_writes_one_event() {
    let app = App::closed().await;
    let bearer = format!("Bearer {}", app.token(Role::Admin).await);
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", "one")];
    let body = paid("a").to_string();

    let first = app.ask(Method::POST, PATH, &headers, &body).await;
    let again = app.ask(Method::POST, PATH, &headers, &body).await;

    assert_eq!((first.status, first.json()), (again.status, again.json()));
    assert_eq!(ids(&look(&app, Role::Viewer, PATH).await), [1]);
}

#[tokio::test]
async fn what_no_sink_would_take_is_refused_and_nothing_is_written() {
    let app = App::closed().await;
    for (key, value) in [
        ("topic", json!("no topic")),
        ("aggregate_id", json!("")),
        ("payload", json!({ "type": "json", "text": "{" })),
    ] {
        let mut event = paid("a");
        event[key] = value;

        let answer = add(&app, Role::Admin, &event).await;

        assert_eq!((answer.status, &answer.json()["code"]), (StatusCode::BAD_REQUEST, &json!("TM1401")));
    }
    assert_eq!(ids(&look(&app, Role::Viewer, PATH).await), [0; 0]);
}

#[tokio::test]
async fn who_may_not_is_refused_and_what_is_not_there_is_told() {
    let app = App::closed().await;
    // It writes and has the payload.
    for role in [Role::Viewer, Role::Operator] {
        assert_eq!(add(&app, role, &paid("a")).await.status, StatusCode::FORBIDDEN);
    }
    assert_eq!(add(&app, Role::Admin, &paid("a")).await.status, StatusCode::CREATED);

    let shown = app.ask_as(Role::Operator, Method::GET, &format!("{PATH}/1"), "").await;
    let missing = app.ask_as(Role::Admin, Method::GET, &format!("{PATH}/9"), "").await;

    assert_eq!(shown.status, StatusCode::FORBIDDEN);
    assert_eq!((missing.status, &missing.json()["code"]), (StatusCode::NOT_FOUND, &json!("TM1408")));
}

#[tokio::test]
async fn nobody_publishes_yet() {
    let app = App::closed().await;

    assert_eq!(look(&app, Role::Viewer, "/api/v1/outbox/relays").await, json!({ "items": [], "next": null }));
}

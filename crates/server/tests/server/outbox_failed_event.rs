//! Events that a sink has refused, over HTTP: looked at, skipped, edited, replayed, redirected.

use crate::{Answer, App};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use tidemill_domain::audit::Role;
use tidemill_domain::outbox::failed_event::FailedEventState;
use tidemill_domain::outbox::{Aggregate, EventId, Seq, Slot};
use tidemill_store::outbox::failed_event::{NewFailedEvent, Settled, SettledAs};

const PATH: &str = "/api/v1/outbox/failed";

/// A server whose database has three refused events, and a fourth that waits behind the third.
async fn refused() -> App {
    let app = App::closed().await;
    let mut tx = app.store.begin().await.unwrap();
    for (id, aggregate, topic) in
        [(1, "a", "orders"), (2, "b", "orders"), (3, "c", "carts"), (4, "c", "carts")]
    {
        tx.execute_for_test(&format!(
            "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload, headers)
             values ('order', '{aggregate}', 'order.paid', '{topic}', '{{\"secret\":{id}}}', '{{\"trace\":\"t\"}}')"
        ))
        .await
        .unwrap();
        let new = NewFailedEvent {
            event_id: EventId::new(id),
            slot: Slot::of(aggregate),
            seq: Seq::new(id),
            aggregate: Aggregate { kind: "order".into(), id: aggregate.into() },
            event_type: "order.paid".into(),
            attempts: 1,
            state: FailedEventState::Parked,
            error: Some(format!("no to {id}")),
        };
        let now = tx.now().await.unwrap();
        tx.outbox().add_failed_events(&[new], now).await.unwrap();
    }
    tx.commit().await.unwrap();
    app
}

async fn post(app: &App, role: Role, path: &str, body: &Value) -> Answer {
    app.ask_as(role, Method::POST, &format!("{PATH}{path}"), &body.to_string()).await
}

async fn look(app: &App, role: Role, path: &str) -> Value {
    let answer = app.ask_as(role, Method::GET, &format!("{PATH}{path}"), "").await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {answer:?}");
    answer.json()
}

fn ids(list: &Value) -> Vec<i64> {
    list["items"].as_array().unwrap().iter().map(|item| item["id"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn refused_events_are_listed_without_what_they_say() {
    let app = refused().await;

    let all = look(&app, Role::Viewer, "?limit=3").await;
    let rest = look(&app, Role::Viewer, &format!("?after={}", all["next"])).await;
    assert_eq!((ids(&all), ids(&rest), &rest["next"]), (vec![1, 2, 3], vec![4], &Value::Null));
    assert!(!all.to_string().contains("secret") && !all.to_string().contains("trace"));
    let last = &rest["items"][0];
    assert_eq!(
        (&last["state"], &last["behind"], &last["error"]),
        (&json!("held"), &json!(3), &json!("no to 4"))
    );
    for (query, expected) in [
        ("?topic=carts", vec![3, 4]),
        ("?state=held", vec![4]),
        ("?aggregate_id=a&aggregate_type=order", vec![1]),
        ("?error=to%202", vec![2]),
        ("?event_type=order.sent", vec![]),
    ] {
        assert_eq!(ids(&look(&app, Role::Viewer, query).await), expected, "{query}");
    }
    for bad in ["?state=dead", "?slot=256", "?limit=0", "?color=red"] {
        let answer = app.ask_as(Role::Viewer, Method::GET, &format!("{PATH}{bad}"), "").await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{bad}: {answer:?}");
    }
}

#[tokio::test]
async fn what_an_event_says_is_for_those_who_may_see_payloads() {
    let app = refused().await;

    let shown = look(&app, Role::Admin, "/1").await;
    assert_eq!(shown["payload"], json!({ "type": "json", "text": "{\"secret\":1}" }));
    assert_eq!((&shown["headers"], &shown["id"]), (&json!({ "trace": "t" }), &json!(1)));
    for role in [Role::Viewer, Role::Operator] {
        let answer = app.ask_as(role, Method::GET, &format!("{PATH}/1"), "").await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
    }
    let missing = app.ask_as(Role::Admin, Method::GET, &format!("{PATH}/99"), "").await;
    assert_eq!((missing.status, &missing.json()["code"]), (StatusCode::NOT_FOUND, &json!("TM1404")));
}

#[tokio::test]
async fn an_operator_acts_on_one_event_for_a_reason() {
    let app = refused().await;
    let order = json!({ "reason": "the topic is there now" });

    let replayed = post(&app, Role::Operator, "/1/replay", &order).await;
    assert_eq!((replayed.status, &replayed.json()["state"]), (StatusCode::OK, &json!("waiting")));
    let behind = post(&app, Role::Operator, "/4/replay", &order).await;
    assert_eq!((behind.status, &behind.json()["code"]), (StatusCode::CONFLICT, &json!("TM1405")));
    assert!(behind.json()["remedy"].as_str().unwrap().contains("replay event 3"));
    let skipped = post(&app, Role::Operator, "/3/skip", &order).await;
    assert_eq!(skipped.json()["state"], "skipped");
    assert_eq!(look(&app, Role::Viewer, "?topic=carts").await["items"][1]["state"], "waiting");
    let redirect = json!({ "reason": "moved", "topic": "orders.v2" });
    let redirected = post(&app, Role::Operator, "/2/redirect", &redirect).await.json();
    assert_eq!((&redirected["topic"], &redirected["is_redirected"]), (&json!("orders.v2"), &json!(true)));
    assert_eq!(post(&app, Role::Operator, "/99/skip", &order).await.status, StatusCode::NOT_FOUND);
    assert_eq!(
        post(&app, Role::Operator, "/1/skip", &json!({ "reason": " " })).await.status,
        StatusCode::BAD_REQUEST
    );
    assert_eq!(post(&app, Role::Viewer, "/1/skip", &order).await.status, StatusCode::FORBIDDEN);
    let bad = post(&app, Role::Operator, "/2/redirect", &json!({ "reason": "x", "topic": "no topic" })).await;
    assert_eq!((bad.status, &bad.json()["code"]), (StatusCode::BAD_REQUEST, &json!("TM1401")));
    let audit = app.ask_as(Role::Viewer, Method::GET, "/api/v1/audit?action=event.skip", "").await.json();
    assert_eq!(
        (&audit["items"][0]["object"], &audit["items"][0]["reason"]),
        (&json!("event/3"), &order["reason"])
    );
}

#[tokio::test]
async fn an_edit_replaces_what_is_given() {
    let app = refused().await;
    let payload = json!({ "type": "json", "text": "{\"n\":  1}" });

    let denied =
        post(&app, Role::Operator, "/1/edit", &json!({ "reason": "typo", "payload": payload })).await;
    assert_eq!(denied.status, StatusCode::FORBIDDEN);
    let edited = post(&app, Role::Admin, "/1/edit", &json!({ "reason": "typo", "payload": payload })).await;
    assert_eq!((edited.status, &edited.json()["is_edited"]), (StatusCode::OK, &json!(true)));
    let shown = look(&app, Role::Admin, "/1").await;
    assert_eq!((&shown["payload"], &shown["headers"]), (&payload, &json!({ "trace": "t" })));
    let bytes = json!({ "type": "bytes", "base64": "AP8=" });
    let body = json!({ "reason": "typo", "payload": bytes, "headers": {} });
    assert_eq!(post(&app, Role::Admin, "/1/edit", &body).await.status, StatusCode::OK);
    let shown = look(&app, Role::Admin, "/1").await;
    assert_eq!((&shown["payload"], &shown["headers"]), (&bytes, &json!({})));
    let tombstone = json!({ "reason": "typo", "payload": { "type": "tombstone" } });
    assert_eq!(post(&app, Role::Admin, "/1/edit", &tombstone).await.status, StatusCode::OK);
    assert_eq!(look(&app, Role::Admin, "/1").await["payload"], tombstone["payload"]);
    for (bad, code) in [
        (json!({ "reason": "x" }), "TM0504"),
        (json!({ "reason": "x", "payload": { "type": "json", "text": "{" } }), "TM1401"),
        (json!({ "reason": "x", "payload": { "type": "bytes", "base64": "?" } }), "TM0504"),
        (json!({ "reason": "x", "headers": { "": "v" } }), "TM1401"),
    ] {
        let answer = post(&app, Role::Admin, "/1/edit", &bad).await;
        assert_eq!((answer.status, &answer.json()["code"]), (StatusCode::BAD_REQUEST, &json!(code)), "{bad}");
    }
}

#[tokio::test]
async fn many_events_are_changed_at_once_and_the_same_request_only_once() {
    let app = refused().await;
    let bearer = format!("Bearer {}", app.token(Role::Operator).await);
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", "k1")];
    let body = json!({ "reason": "fixed", "filter": { "topic": "orders" }, "limit": 1 }).to_string();
    let path = format!("{PATH}/replay");

    let first = app.ask(Method::POST, &path, &headers, &body).await.json();
    let again = app.ask(Method::POST, &path, &headers, &body).await.json();
    assert_eq!(first, json!({ "changed": [1], "refused": [], "next": 1 }));
    assert_eq!(again, first);
    let audit = app.ask_as(Role::Viewer, Method::GET, "/api/v1/audit?action=event.replay", "").await.json();
    assert_eq!(audit["items"].as_array().unwrap().len(), 1);
    let rest = json!({ "reason": "fixed", "filter": { "topic": "orders" }, "after": 1 });
    let rest = post(&app, Role::Operator, "/replay", &rest).await.json();
    assert_eq!(rest, json!({ "changed": [2], "refused": [], "next": null }));
    let named =
        post(&app, Role::Operator, "/replay", &json!({ "reason": "fixed", "ids": [3, 4, 99] })).await.json();
    assert_eq!(named["changed"], json!([3]));
    let codes: Vec<&Value> = named["refused"].as_array().unwrap().iter().map(|one| &one["code"]).collect();
    assert_eq!(codes, [&json!("TM1405"), &json!("TM1404")]);
    let moved =
        json!({ "topic": "carts.v2", "events": { "reason": "moved", "filter": { "topic": "carts" } } });
    assert_eq!(post(&app, Role::Operator, "/redirect", &moved).await.json()["changed"], json!([3, 4]));
    let skipped =
        post(&app, Role::Operator, "/skip", &json!({ "reason": "no use", "filter": {} })).await.json();
    assert_eq!(skipped["changed"], json!([1, 2, 3, 4]));
    for bad in [
        json!({ "reason": "x" }),
        json!({ "reason": "x", "ids": [] }),
        json!({ "reason": "x", "ids": [1], "filter": {} }),
        json!({ "reason": "x", "filter": { "state": "dead" } }),
    ] {
        assert_eq!(post(&app, Role::Operator, "/skip", &bad).await.status, StatusCode::BAD_REQUEST, "{bad}");
    }
}

#[tokio::test]
async fn the_answer_to_an_order_is_the_same_when_the_event_was_delivered_meanwhile() {
    let app = refused().await;
    let bearer = format!("Bearer {}", app.token(Role::Admin).await);
    let orders = [
        ("/1/replay", json!({ "reason": "fixed" })),
        ("/2/edit", json!({ "reason": "fixed", "payload": { "type": "tombstone" } })),
        ("/3/redirect", json!({ "reason": "fixed", "topic": "carts.v2" })),
    ];
    let send = async |key: &str, path: &str, body: &Value| {
        let headers = [("authorization", bearer.as_str()), ("idempotency-key", key)];
        app.ask(Method::POST, &format!("{PATH}{path}"), &headers, &body.to_string()).await
    };
    let mut answers = Vec::new();
    for (path, body) in &orders {
        answers.push(send(path, path, body).await);
    }

    let mut tx = app.store.begin().await.unwrap();
    let now = tx.now().await.unwrap();
    let delivered =
        [1, 2, 3].map(|id| Settled { event_id: EventId::new(id), revision: 1, what: SettledAs::Delivered });
    assert_eq!(tx.outbox().settle(&delivered, now).await.unwrap().changed, 3);
    tx.commit().await.unwrap();

    for ((path, body), first) in orders.iter().zip(&answers) {
        let again = send(path, path, body).await;
        assert_eq!((first.status, again.status), (StatusCode::OK, StatusCode::OK), "{path}: {again:?}");
        assert_eq!(again.json(), first.json(), "{path}");
        assert_eq!(send("new", path, body).await.status, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn a_token_for_one_topic_does_not_reach_others() {
    let app = refused().await;
    let body = r#"{"name":"orders","role":"operator","scopes":["outbox/orders"]}"#;
    let token = app.ask_as(Role::Admin, Method::POST, "/api/v1/tokens", body).await.json();
    let bearer = format!("Bearer {}", token["secret"].as_str().unwrap());
    let headers = [("authorization", bearer.as_str())];
    let reason = json!("x");
    for (path, body, status) in [
        ("/1/replay", json!({ "reason": reason }), StatusCode::OK),
        ("/3/replay", json!({ "reason": reason }), StatusCode::FORBIDDEN),
        ("/1/redirect", json!({ "reason": reason, "topic": "carts" }), StatusCode::FORBIDDEN),
        ("/replay", json!({ "reason": reason, "filter": { "topic": "orders" } }), StatusCode::OK),
        ("/replay", json!({ "reason": reason, "filter": { "topic": "carts" } }), StatusCode::FORBIDDEN),
        ("/replay", json!({ "reason": reason, "filter": {} }), StatusCode::FORBIDDEN),
        ("/replay", json!({ "reason": reason, "ids": [1] }), StatusCode::FORBIDDEN),
    ] {
        let answer = app.ask(Method::POST, &format!("{PATH}{path}"), &headers, &body.to_string()).await;
        assert_eq!(answer.status, status, "{path} {body}: {answer:?}");
    }
}

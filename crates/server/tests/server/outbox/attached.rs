//! Attached tables, over HTTP.

use crate::{Answer, App};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use tidemill_domain::audit::Role;

const PATH: &str = "/api/v1/outbox/attached";

const TABLE: &str = "create table transfer_events (
    event_id bigserial primary key, aggregate_id text not null, payload text, headers text, status text not null,
    next_retry_at timestamptz not null default '2026-01-01', updated_at timestamptz not null default '2026-01-01'
)";

async fn run(app: &App, sql: &str) {
    let mut tx = app.store.begin().await.unwrap();
    tx.execute_for_test(sql).await.unwrap();
    tx.commit().await.unwrap();
}

async fn attach(app: &App, role: Role, table: &str) -> Answer {
    let body = json!({ "table": table, "topic": "transfers" }).to_string();
    app.ask_as(role, Method::POST, PATH, &body).await
}

async fn order(app: &App, word: &str, ids: &[i64]) -> Value {
    let body = json!({ "ids": ids, "reason": "for a test" }).to_string();
    let path = format!("{PATH}/public/transfer_events/{word}");
    let answer = app.ask_as(Role::Operator, Method::POST, &path, &body).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    answer.json()
}

async fn look(app: &App, path: &str) -> Value {
    let answer = app.ask_as(Role::Viewer, Method::GET, path, "").await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {answer:?}");
    answer.json()
}

#[tokio::test]
async fn a_table_is_attached_its_failed_rows_are_ordered_and_it_is_given_up() {
    let Some(app) = App::on_postgres().await else { return };
    run(&app, TABLE).await;
    run(&app, "insert into transfer_events (aggregate_id, status) values ('a', 'FAILED'), ('b', 'FAILED')")
        .await;

    let attached = attach(&app, Role::Admin, "transfer_events").await;
    assert_eq!(attached.status, StatusCode::CREATED, "{attached:?}");
    assert_eq!(attached.json()["table"], "public.transfer_events");
    assert!(attached.json()["warnings"][0].as_str().unwrap().contains("FAILED"));
    assert_eq!(look(&app, PATH).await["items"][0]["topic"], "transfers");

    let stats = look(&app, "/api/v1/outbox/stats").await;
    let expected = json!({
        "table": "public.transfer_events",
        "pending": { "at_least": 0, "is_exact": true },
        "sending": { "at_least": 0, "is_exact": true },
        "failed": { "at_least": 2, "is_exact": true },
        "oldest_at": null,
    });
    assert_eq!(stats["attached"], json!([expected]));

    let failed = format!("{PATH}/public/transfer_events/failed");
    let page = look(&app, &format!("{failed}?limit=1")).await;
    assert_eq!((&page["items"][0]["id"], &page["next"]), (&json!(1), &json!(1)));
    assert_eq!(order(&app, "skip", &[1]).await["changed"], json!([1]));
    assert_eq!(order(&app, "replay", &[1, 2]).await["changed"], json!([2]));
    assert_eq!(order(&app, "replay", &[1]).await["refused"][0]["code"], "TM1434");
    assert_eq!(look(&app, &failed).await["items"], json!([]));

    let table = format!("{PATH}/public/transfer_events");
    assert_eq!(app.ask_as(Role::Admin, Method::DELETE, &table, "").await.status, StatusCode::OK);
    let again = app.ask_as(Role::Admin, Method::DELETE, &table, "").await;
    assert_eq!((again.status, &again.json()["code"]), (StatusCode::NOT_FOUND, &json!("TM1433")));
}

#[tokio::test]
async fn what_is_missing_in_a_table_is_told_and_bad_names_are_refused() {
    let Some(app) = App::on_postgres().await else { return };
    run(&app, "create table transfer_events (event_id bigint primary key)").await;

    let unfit = attach(&app, Role::Admin, "transfer_events").await;
    let bad = attach(&app, Role::Admin, "a; drop table b").await;

    assert_eq!((unfit.status, &unfit.json()["code"]), (StatusCode::CONFLICT, &json!("TM1431")));
    assert!(unfit.text.contains("the column next_retry_at is missing"), "{unfit:?}");
    assert_eq!((bad.status, &bad.json()["code"]), (StatusCode::BAD_REQUEST, &json!("TM1430")));
}

#[tokio::test]
async fn whoever_is_limited_to_another_topic_does_not_take_a_table_from_its_own() {
    let Some(app) = App::on_postgres().await else { return };
    run(&app, TABLE).await;
    let body = r#"{"name":"limited","role":"admin","scopes":["outbox/others"]}"#;
    let made = app.ask_as(Role::Admin, Method::POST, "/api/v1/tokens", body).await;
    let bearer = format!("Bearer {}", made.json()["secret"].as_str().unwrap());
    let attach_for = async |topic: &str| {
        let body = json!({ "table": "transfer_events", "topic": topic }).to_string();
        app.ask(Method::POST, PATH, &[("authorization", &bearer)], &body).await.status
    };

    assert_eq!(attach_for("transfers").await, StatusCode::FORBIDDEN);
    assert_eq!(attach(&app, Role::Admin, "transfer_events").await.status, StatusCode::CREATED);
    assert_eq!(attach_for("others").await, StatusCode::FORBIDDEN);
    assert_eq!(look(&app, PATH).await["items"][0]["topic"], "transfers");

    // What is nobody's it may attach, and what is its own it may attach again.
    let table = format!("{PATH}/public/transfer_events");
    assert_eq!(app.ask_as(Role::Admin, Method::DELETE, &table, "").await.status, StatusCode::OK);
    assert_eq!(attach_for("others").await, StatusCode::CREATED);
    assert_eq!(attach_for("others").await, StatusCode::CREATED);
}

#[tokio::test]
async fn who_may_not_attach_is_refused_and_sqlite_cannot() {
    let app = App::closed().await;

    assert_eq!(attach(&app, Role::Operator, "transfer_events").await.status, StatusCode::FORBIDDEN);
    let refused = attach(&app, Role::Admin, "transfer_events").await;
    assert_eq!((refused.status, &refused.json()["code"]), (StatusCode::CONFLICT, &json!("TM1432")));
}

//! Renders that one request changes together, over HTTP: by their ids or a filter, in shares.

use crate::render_batch::{app, fail_next};
use crate::{Answer, App};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use tidemill_domain::audit::Role;
use tidemill_domain::render::selection::SELECTED_MAX;

async fn post(app: &App, path: &str, body: &Value) -> Answer {
    app.ask_as(Role::Operator, Method::POST, &format!("/api/v1/renders/{path}"), &body.to_string()).await
}

/// As many renders of `Main` that wait.
async fn order(app: &App, count: usize) {
    let rows: String = (0..count).map(|number| format!("Main,P,{number}\n")).collect();
    let csv = format!("composition,Slot 1 - name,Slot 1 - stack\n{rows}");
    let answer = post(app, "batch", &json!({ "csv": csv })).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
}

async fn audited(app: &App, action: &str) -> Vec<Value> {
    let path = format!("/api/v1/audit?limit=500&action={action}");
    app.ask_as(Role::Viewer, Method::GET, &path, "").await.json()["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn what_is_named_is_changed_and_what_cannot_be_says_why() {
    let app = app().await;
    order(&app, 3).await;
    fail_next(&app).await;

    let body = json!({ "ids": [3, 1, 2, 1, 99], "reason": "template is there" });
    let answer = post(&app, "cancel", &body).await.json();
    assert_eq!(answer["changed"], json!([2, 3]));
    assert_eq!(answer["refused"][0]["detail"], "the render has ended, it is failed");
    assert_eq!(
        (&answer["refused"][1]["id"], &answer["refused"][1]["detail"]),
        (&json!(99), &json!("there is no such render"))
    );

    let answer = post(&app, "retry", &body).await.json();
    assert_eq!(answer["changed"], json!([1, 2, 3]));
    let entries = audited(&app, "render.retry").await;
    assert_eq!(entries.len(), 3, "one for each render: {entries:?}");
    assert!(entries.iter().all(|entry| entry["reason"] == "template is there"));
}

#[tokio::test]
async fn a_filter_finds_only_what_the_action_can_change() {
    let app = app().await;
    order(&app, 3).await;
    fail_next(&app).await;

    let retried =
        post(&app, "retry", &json!({ "filter": { "composition": "Main" }, "reason": "x" })).await.json();
    assert_eq!((&retried["changed"], &retried["refused"]), (&json!([1]), &json!([])));
    let raised = json!({ "by": -3, "filter": { "composition": "Main", "text": "main" } });
    assert_eq!(post(&app, "prioritize", &raised).await.json()["changed"], json!([1, 2, 3]));
    let one = post(&app, "2/prioritize", &json!({ "to": 7, "reason": "first" })).await;
    assert_eq!((one.status, &one.json()["priority"]), (StatusCode::OK, &json!(7)));
    let listed = app.ask_as(Role::Viewer, Method::GET, "/api/v1/renders", "").await.json();
    let priorities: Vec<&Value> =
        listed["items"].as_array().unwrap().iter().map(|one| &one["priority"]).collect();
    assert_eq!(priorities, [-3, 7, -3]);
    assert_eq!(
        post(&app, "cancel", &json!({ "filter": { "late": true }, "reason": "x" })).await.json()["changed"],
        json!([])
    );
    let late = app.ask_as(Role::Viewer, Method::GET, "/api/v1/renders?late=true", "").await.json();
    assert_eq!(late["items"], json!([]));
}

#[tokio::test]
async fn what_a_person_has_rejected_is_retried_only_if_it_is_named() {
    let app = app().await;
    order(&app, 2).await;
    fail_next(&app).await;
    fail_next(&app).await;
    let mut tx = app.store.begin().await.unwrap();
    tx.execute_for_test("update render_queue set error_code = 'TM1557' where id = 1").await.unwrap();
    tx.commit().await.unwrap();

    let by_filter = json!({ "filter": { "status": "failed" }, "reason": "it is back" });
    assert_eq!(post(&app, "retry", &by_filter).await.json()["changed"], json!([2]));
    let of_batch = post(&app, "batches/1/retry", &json!({ "reason": "it is back" })).await;
    assert_eq!(of_batch.json()["retried"], json!(0), "{of_batch:?}");
    let named = json!({ "ids": [1], "reason": "the template is corrected" });
    assert_eq!(post(&app, "retry", &named).await.json()["changed"], json!([1]));
}

#[tokio::test]
async fn a_failed_render_says_what_to_do() {
    let app = app().await;
    order(&app, 1).await;
    fail_next(&app).await;

    let render = app.ask_as(Role::Viewer, Method::GET, "/api/v1/renders/1", "").await.json();

    assert!(render["remedy"].as_str().unwrap().ends_with("then retry"), "{render}");
}

#[tokio::test]
async fn a_request_that_makes_no_sense_changes_nothing() {
    let app = app().await;
    order(&app, 2).await;

    for (path, body, part) in [
        ("cancel", json!({ "reason": "x" }), "either `ids` or `filter`"),
        ("cancel", json!({ "reason": "x", "ids": [1], "filter": {} }), "either `ids` or `filter`"),
        ("cancel", json!({ "reason": "x", "filter": {} }), "the filter has no condition"),
        (
            "cancel",
            json!({ "reason": "x", "filter": { "text": " ", "late": false } }),
            "or name renders in `ids`",
        ),
        ("retry", json!({ "reason": "x", "filter": {} }), "the filter has no condition"),
        ("prioritize", json!({ "by": 1, "filter": {} }), "the filter has no condition"),
        ("cancel", json!({ "reason": "x", "ids": [] }), "empty or too long"),
        ("cancel", json!({ "reason": "x", "ids": vec![1; SELECTED_MAX + 1] }), "empty or too long"),
        ("cancel", json!({ "reason": " ", "ids": [1] }), "reason"),
        ("cancel", json!({ "reason": "x", "filter": { "status": "done" } }), "unknown status"),
        (
            "retry",
            json!({ "reason": "x", "filter": { "status": "completed" } }),
            "retry is not possible for renders that are completed",
        ),
        ("prioritize", json!({ "ids": [1] }), "either `to` or `by`"),
        ("prioritize", json!({ "ids": [1], "to": 1, "by": 1 }), "either `to` or `by`"),
        ("1/prioritize", json!({}), "either `to` or `by`"),
    ] {
        let answer = post(&app, path, &body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path} {body}: {answer:?}");
        assert!(answer.text.contains(part), "{path} {body}: {}", answer.text);
    }
    let denied =
        app.ask_as(Role::Viewer, Method::POST, "/api/v1/renders/cancel", r#"{"ids":[1],"reason":"x"}"#).await;
    assert_eq!(denied.status, StatusCode::FORBIDDEN);
    assert!(audited(&app, "render.cancel").await.is_empty());
}

#[tokio::test]
async fn no_more_than_a_thousand_are_changed_at_once() {
    let app = app().await;
    order(&app, SELECTED_MAX).await;
    let cancel = json!({ "filter": { "status": "pending" }, "reason": "wrong show" });
    let body = json!({ "gfx_data": { "single_fields": { "title": "One more" } }, "composition": "Lower" });
    assert_eq!(
        app.ask_as(Role::Operator, Method::POST, "/api/v1/renders", &body.to_string()).await.status,
        StatusCode::CREATED
    );

    let refused = post(&app, "cancel", &cancel).await;
    assert!(refused.text.contains("more than 1000 renders match"), "{refused:?}");
    let narrow = json!({ "filter": { "composition": "Main" }, "reason": "wrong show" });
    let done = post(&app, "cancel", &narrow).await.json();

    assert_eq!(done["changed"].as_array().map(Vec::len), Some(SELECTED_MAX));
}

#[tokio::test]
async fn many_are_changed_in_shares_and_a_failure_names_those_that_were_not_tried() {
    let app = app().await;
    order(&app, 250).await;
    let mut tx = app.store.begin().await.unwrap();
    let broken = "create trigger broken before update on render_queue when new.id = 150
                  begin select raise(abort, 'the disk is broken'); end";
    tx.execute_for_test(broken).await.unwrap();
    tx.commit().await.unwrap();
    let bearer = format!("Bearer {}", app.token(Role::Operator).await);
    let headers =
        [("authorization", &*bearer), ("content-type", "application/json"), ("idempotency-key", "many-1")];
    let body = json!({ "filter": { "status": "pending" }, "by": 1 }).to_string();
    let raise = async || app.ask(Method::POST, "/api/v1/renders/prioritize", &headers, &body).await;

    let first = raise().await;
    let answer = first.json();
    assert_eq!((first.status, answer["changed"].as_array().map(Vec::len)), (StatusCode::OK, Some(100)));
    assert_eq!(answer["not_tried"].as_array().map(Vec::len), Some(150), "{answer}");
    assert_eq!(audited(&app, "render.prioritize").await.len(), 100);
    assert_eq!(raise().await.json(), answer, "the same request raises nothing twice");

    let mut tx = app.store.begin().await.unwrap();
    tx.execute_for_test("drop trigger broken").await.unwrap();
    tx.commit().await.unwrap();
    let rest = post(&app, "prioritize", &json!({ "ids": answer["not_tried"], "by": 1 })).await.json();
    assert_eq!((rest["changed"].as_array().map(Vec::len), &rest["not_tried"]), (Some(150), &json!([])));
}

#[tokio::test]
async fn a_token_for_other_compositions_changes_none_of_them() {
    let app = app().await;
    let body =
        json!({ "gfx_data": { "single_fields": { "title": "Good evening" } }, "composition": "Lower" });
    app.ask_as(Role::Operator, Method::POST, "/api/v1/renders", &body.to_string()).await;
    // More than one transaction changes.
    let lower: String = (0..120).map(|number| format!("Lower,{number}\n")).collect();
    let csv = json!({ "csv": format!("composition,Single - title\n{lower}") });
    assert_eq!(post(&app, "batch", &csv).await.status, StatusCode::CREATED);
    order(&app, 1).await;
    let made = json!({ "name": "cues", "role": "operator", "scopes": ["render/Lower"] });
    let made = app.ask_as(Role::Admin, Method::POST, "/api/v1/tokens", &made.to_string()).await;
    let limited = made.json()["secret"].as_str().unwrap().to_owned();
    let cancel = async |filter: Value| {
        let body = json!({ "filter": filter, "reason": "x" }).to_string();
        let headers =
            [("authorization", &*format!("Bearer {limited}")), ("content-type", "application/json")];
        app.ask(Method::POST, "/api/v1/renders/cancel", &headers, &body).await
    };

    assert_eq!(cancel(json!({ "status": "pending" })).await.status, StatusCode::FORBIDDEN);
    assert!(audited(&app, "render.cancel").await.is_empty(), "all or none");
    assert_eq!(
        cancel(json!({ "composition": "Lower" })).await.json()["changed"].as_array().map(Vec::len),
        Some(121)
    );
}

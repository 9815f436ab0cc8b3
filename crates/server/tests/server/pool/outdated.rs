//! Attempts that are outdated.

use super::api::{check, request};
use crate::App;
use axum::http::{Method, StatusCode};
use serde_json::json;

#[tokio::test]
async fn an_older_attempt_cannot_cancel_what_a_newer_one_has() {
    let app = App::adw().await;
    let (first, second) = (app.leased("run-1", 8).await, app.leased("run-1", 8).await);
    let path = format!("/api/v1/requests/{}", first["id"].as_str().unwrap());
    let cancel = async |query: &str| app.ask(Method::DELETE, &format!("{path}{query}"), &[], "").await;

    check(&cancel(&format!("?epoch={}", first["epoch"])).await, StatusCode::CONFLICT, "TM1207");
    let without = cancel("").await;
    check(&without, StatusCode::BAD_REQUEST, "TM0504");
    assert!(without.json()["detail"].as_str().unwrap().starts_with("epoch: "), "{without:?}");
    assert_eq!(app.usage("4").await, 8);

    assert_eq!(cancel(&format!("?epoch={}", second["epoch"])).await.json()["units"], 8);
    assert_eq!(cancel(&format!("?epoch={}", second["epoch"])).await.json()["units"], 0);
}

#[tokio::test]
async fn who_waited_without_an_epoch_cannot_cancel_what_was_granted_since() {
    let app = App::adw().await;
    let other = app.leased("other", 949).await;
    let wanted = request("run-1", json!([{ "pool": "ADW", "parallel": 8 }]));
    let waits = app.make(&wanted).await.json();
    let path = format!("/api/v1/requests/{}", waits["id"].as_str().unwrap());
    let freed = format!("/api/v1/pool-leases/{}?epoch={}", other["id"].as_str().unwrap(), other["epoch"]);
    app.ask(Method::DELETE, &freed, &[], "").await;
    assert_eq!(app.make(&wanted).await.status, StatusCode::OK, "a newer attempt claims the units");

    check(&app.ask(Method::DELETE, &path, &[], "").await, StatusCode::BAD_REQUEST, "TM0504");

    assert_eq!(app.usage("4").await, 8);
}

#[tokio::test]
async fn a_request_whose_leases_have_different_epochs_is_not_cancelled_by_one() {
    let app = App::adw().await;
    app.pool("ERP", 5, 10).await;
    let both = json!([{ "pool": "ADW", "parallel": 8 }, { "pool": "ERP", "parallel": 4 }]);
    let made = app.make(&request("run-1", both)).await.json();
    let leases = made["leases"].as_array().unwrap();
    // A newer attempt takes over one of the two.
    let newer = app.leased("run-1", 8).await;
    assert!(newer["epoch"].as_i64() > leases[0]["epoch"].as_i64());

    for (lease, epoch) in [(&leases[0], &newer["epoch"]), (&leases[1], &leases[1]["epoch"])] {
        let path = format!("/api/v1/requests/{}?epoch={epoch}", lease["id"].as_str().unwrap());
        check(&app.ask(Method::DELETE, &path, &[], "").await, StatusCode::CONFLICT, "TM1207");
    }
    assert_eq!((app.usage("4").await, app.usage("5").await), (json!(8), json!(4)));
}

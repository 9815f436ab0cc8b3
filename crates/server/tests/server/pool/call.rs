//! Calls that are repeated, and keys that are used twice.

use super::api::{check, request};
use super::{INVOKE, acquire, release};
use crate::{Answer, App};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

const UNPROCESSABLE: StatusCode = StatusCode::UNPROCESSABLE_ENTITY;

impl App {
    async fn keyed(&self, method: Method, path: &str, key: &str, body: &str) -> Answer {
        self.ask(method, path, &[("idempotency-key", key)], body).await
    }

    /// The route of a lease or a request, with the epoch of the lease.
    async fn delete(&self, route: &str, lease: &Value, epoch: &Value, key: &str) -> Answer {
        let path = format!("/api/v1/{route}/{}?epoch={epoch}", lease["id"].as_str().unwrap());
        self.keyed(Method::DELETE, &path, key, "").await
    }
}

#[tokio::test]
async fn a_key_of_another_request_is_refused_and_changes_nothing() {
    let app = App::adw().await;
    app.pool("ERP", 5, 10).await;
    let post = async |path: &str, key: &str, body: Value| {
        app.keyed(Method::POST, path, key, &body.to_string()).await
    };
    let other_pool = |mut body: Value| {
        body["src_db_id"] = json!(5);
        body
    };
    let first = post("/acquire", "k1", acquire("run-1", 8)).await;
    assert_eq!(first.json()["allowed"], true, "{first:?}");

    for (path, other) in [
        ("/acquire", acquire("run-2", 8)),
        ("/acquire", acquire("run-1", 4)),
        ("/acquire", other_pool(acquire("run-1", 8))),
        ("/release", release("run-1")),
        ("/api/v1/pools", json!({ "name": "CRM", "max_units": 1 })),
    ] {
        let refused = post(path, "k1", other).await;
        check(&refused, UNPROCESSABLE, "TM0507");
        assert!(refused.json()["remedy"].as_str().unwrap().contains("new key"), "{refused:?}");
    }
    assert_eq!((app.usage("4").await, app.usage("5").await), (json!(8), json!(0)));
    assert_eq!(post("/acquire", "k1", acquire("run-1", 8)).await.text, first.text);

    app.acquire("run-2", 8).await;
    let given = post("/release", "k2", release("run-1")).await;
    assert_eq!(given.json()["released_connections"], 8, "{given:?}");
    for other in [release("run-2"), other_pool(release("run-1"))] {
        check(&post("/release", "k2", other).await, UNPROCESSABLE, "TM0507");
    }
    assert_eq!(post("/release", "k2", release("run-1")).await.text, given.text);
    assert_eq!(app.usage("4").await, 8);
}

#[tokio::test]
async fn a_key_of_another_route_is_refused() {
    let app = App::open().await;
    let pool = json!({ "name": "ADW", "max_units": 100 }).to_string();
    let made = app.keyed(Method::POST, "/api/v1/pools", "k", &pool).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");

    let wanted = request("run-1", json!([{ "pool": "ADW", "parallel": 8 }])).to_string();
    check(&app.keyed(Method::POST, "/api/v1/requests", "k", &wanted).await, UNPROCESSABLE, "TM0507");

    let shown = app.ask(Method::GET, "/api/v1/pools/ADW", &[], "").await.json();
    assert_eq!(shown["in_use"], 0);
}

#[tokio::test]
async fn leases_and_requests_are_given_back_by_the_key_of_their_own_call_only() {
    let app = App::adw().await;
    let (one, two) = (app.leased("run-1", 8).await, app.leased("run-2", 8).await);
    let given = app.delete("pool-leases", &one, &one["epoch"], "k").await;
    assert_eq!(given.json()["units"], 8, "{given:?}");

    for (route, lease) in [("pool-leases", &two), ("requests", &two), ("requests", &one)] {
        check(&app.delete(route, lease, &lease["epoch"], "k").await, UNPROCESSABLE, "TM0507");
    }
    assert_eq!(app.delete("pool-leases", &one, &one["epoch"], "k").await.text, given.text);
    assert_eq!(app.usage("4").await, 8);

    let cancelled = app.delete("requests", &two, &two["epoch"], "k2").await;
    let again = app.delete("requests", &two, &two["epoch"], "k2").await;
    assert_eq!((&cancelled.json()["units"], &cancelled.text), (&json!(8), &again.text));
    check(&app.delete("requests", &one, &one["epoch"], "k2").await, UNPROCESSABLE, "TM0507");
}

#[tokio::test]
async fn polls_of_one_request_share_a_key_however_long_each_waits() {
    let app = App::adw().await;
    let other = app.leased("other", 949).await;
    let mut wanted = request("run-1", json!([{ "pool": "ADW", "parallel": 8 }]));
    let ask =
        async |wanted: &Value| app.keyed(Method::POST, "/api/v1/requests", "k", &wanted.to_string()).await;

    assert_eq!(ask(&wanted).await.status, StatusCode::ACCEPTED);
    wanted["wait_seconds"] = json!(1);
    assert_eq!(ask(&wanted).await.status, StatusCode::ACCEPTED);
    app.delete("pool-leases", &other, &other["epoch"], "k2").await;

    assert_eq!(ask(&wanted).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_key_whose_request_failed_is_free_again() {
    let app = App::adw().await;
    let ask = async |pool: &str, run: &str| {
        let wanted = request(run, json!([{ "pool": pool, "parallel": 8 }])).to_string();
        app.keyed(Method::POST, "/api/v1/requests", "k", &wanted).await
    };

    check(&ask("ADV", "run-1").await, StatusCode::NOT_FOUND, "TM1201");
    assert_eq!(ask("ADW", "run-1").await.status, StatusCode::OK);
    check(&ask("ADW", "run-2").await, UNPROCESSABLE, "TM0507");
}

#[tokio::test]
async fn an_invocation_with_the_id_of_another_one_is_a_call_of_its_own() {
    let app = App::adw().await;
    for run in ["run-1", "run-2"] {
        app.acquire(run, 8).await;
    }
    let send = async |run: &str| {
        let mut given = release(run);
        given["action"] = json!("release");
        app.post_with(INVOKE, &[("amz-sdk-invocation-id", "7571ddfa")], &given).await
    };

    let first = send("run-1").await;
    assert_eq!((&first.json()["released"], &first.text), (&json!(true), &send("run-1").await.text));
    assert_eq!(send("run-2").await.json()["released"], true);
    assert_eq!(app.usage("4").await, 0);
}

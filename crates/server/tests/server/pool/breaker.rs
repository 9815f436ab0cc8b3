//! The circuit breaker by HTTP, from the first refusal to the whole limit.

use crate::{Answer, App};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;

impl App {
    async fn ask_units(&self, run: &str) -> Answer {
        let body = json!({
            "holder": { "dag_id": "nightly", "run_id": run },
            "pools": [{ "pool": "ADW", "parallel": 8, "min": 2 }],
        });
        self.ask(Method::POST, "/api/v1/requests", &[], &body.to_string()).await
    }

    async fn leave(&self, lease: &Value, with: &str) {
        let (id, epoch) = (lease["id"].as_str().unwrap(), &lease["epoch"]);
        let path = format!("/api/v1/pool-leases/{id}?epoch={epoch}{with}");
        let answer = self.ask(Method::DELETE, &path, &[], "").await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    }

    async fn shown(&self) -> Value {
        self.ask(Method::GET, "/api/v1/pools/ADW", &[], "").await.json()
    }
}

fn lease(answer: &Answer) -> Value {
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    answer.json()["leases"][0].clone()
}

#[tokio::test]
async fn a_refusal_opens_it_one_request_tests_the_database_and_the_limit_rises() {
    let app = App::adw().await;
    let first = lease(&app.ask_units("a").await);
    for run in ["b", "c", "d", "e"] {
        lease(&app.ask_units(run).await);
    }
    assert_eq!(app.shown().await["breaker"]["state"], "closed");

    app.leave(&first, "&outcome=failed&error=java.sql.SQLException:%20ORA-12519,%20TNS").await;

    let pool = app.shown().await;
    assert_eq!((&pool["state"], &pool["limit"]), (&json!("breaker open"), &json!(20)));
    let breaker = &pool["breaker"];
    assert_eq!((&breaker["state"], &breaker["reason"]), (&json!("open"), &json!("ORA-12519")));
    assert_eq!(
        (&breaker["effective_limit"], &breaker["until"]),
        (&json!(20), &json!("2026-11-15T02:00:30.000000Z"))
    );
    let waits = app.ask_units("f").await;
    assert_eq!(
        (waits.status, &waits.json()["waits"]["reason"]),
        (StatusCode::ACCEPTED, &json!("breaker_open"))
    );
    assert_eq!(app.ask_units("g").await.status, StatusCode::ACCEPTED);

    app.clock.advance(Duration::from_secs(30));
    let tests = lease(&app.ask_units("f").await);
    assert_eq!(tests["parallel"], 2, "the smallest that it accepts");
    assert_eq!(app.ask_units("g").await.status, StatusCode::ACCEPTED);
    app.leave(&tests, "&outcome=ok").await;
    assert_eq!(app.shown().await["breaker"]["state"], "ramping");
    app.clock.advance(Duration::from_secs(60));
    assert_eq!(app.shown().await["limit"], 20 + 2 * 48, "5 % of 950 every half minute");
    app.clock.advance(Duration::from_secs(600));
    assert_eq!(
        (&app.shown().await["breaker"]["state"], &app.shown().await["limit"]),
        (&json!("closed"), &json!(950))
    );
    assert_eq!(app.ask_units("g").await.status, StatusCode::OK);

    let log = app.ask(Method::GET, "/api/v1/audit?action=breaker.open", &[], "").await.json();
    assert_eq!(log["items"].as_array().unwrap().len(), 1, "{log}");
    assert_eq!(log["items"][0]["actor"], "tidemill", "{log}");
    let events = app.ask(Method::GET, "/api/v1/pools/ADW/events", &[], "").await.text;
    let opened = "breaker opened with a pause of 30s: the database refused connections";
    assert!(events.contains(opened), "{events}");
}

#[tokio::test]
async fn an_operator_opens_and_closes_it() {
    let app = App::adw().await;
    let order = async |verb: &str, body: &str| {
        app.ask(Method::POST, &format!("/api/v1/pools/ADW/breaker/{verb}"), &[], body).await
    };

    let opened = order("open", r#"{"reason":"the database restarts"}"#).await;
    assert_eq!(opened.status, StatusCode::OK, "{opened:?}");
    let breaker = &opened.json()["breaker"];
    assert_eq!((&breaker["state"], &breaker["until"]), (&json!("open"), &Value::Null));
    assert_eq!(breaker["reason"], "the database restarts");
    assert_eq!(order("open", "{}").await.status, StatusCode::UNPROCESSABLE_ENTITY, "it needs a reason");
    app.clock.advance(Duration::from_secs(86_400));
    assert_eq!(app.ask_units("a").await.status, StatusCode::ACCEPTED);

    assert_eq!(order("close", r#"{"reason":"it is back"}"#).await.json()["breaker"]["state"], "closed");
    assert_eq!(app.ask_units("a").await.status, StatusCode::OK);
    let missing = app.ask(Method::POST, "/api/v1/pools/ERP/breaker/open", &[], r#"{"reason":"x"}"#).await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_release_of_the_agent_reports_a_refusal_too() {
    for body in [json!({ "outcome": "refused" }), json!({ "outcome": "failed", "error": "FATAL: 53300" })] {
        let app = App::adw().await;
        app.acquire("a", 8).await;
        let mut release = json!({ "dag_id": "batch_001", "dag_run_id": "a", "src_db_id": 4 });
        release.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        let answer = app.post("/release", &release).await;
        assert_eq!(answer.json()["released"], true, "{answer:?}");
        assert_eq!(app.shown().await["breaker"]["state"], "open", "{body}");
        let status = app.ask(Method::GET, "/status", &[], "").await.json();
        assert_eq!(status["sources"]["4"]["breaker"], "open", "{status}");
    }
    let app = App::adw().await;
    let held = lease(&app.ask_units("a").await);
    let path = format!("/api/v1/pool-leases/{}?epoch=1&outcome=well", held["id"].as_str().unwrap());
    assert_eq!(app.ask(Method::DELETE, &path, &[], "").await.status, StatusCode::BAD_REQUEST);
}

//! The EMR Batch Agent API, with the examples of its description.

use super::{acquire, release};
use crate::{App, Choices};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;
use tidemill_server::access::Authentication;
use tidemill_server::api::pool::emr_agent::{EmrAgentOptions, UnknownPool};

/// These fields of an answer.
fn fields(answer: &Value, names: &[&str]) -> Value {
    names
        .iter()
        .map(|name| ((*name).to_owned(), answer[*name].clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[tokio::test]
async fn the_documents_grant_is_what_the_server_says() {
    let app = App::compatible().await;
    app.acquire("before", 72).await;

    let answer = app.post("/acquire", &acquire("run-1", 8)).await;

    let document = r#"{"allowed":true,"current_usage":72,"after_usage":80,"available":920,"#;
    assert!(answer.text.starts_with(document), "{}", answer.text);
    let ours = answer.json();
    assert_eq!((&ours["granted_parallel"], &ours["granted_units"]), (&json!(8), &json!(8)));
    assert!(ours["lease_id"].is_string() && ours["epoch"].is_number() && ours["duplicate"].is_null());
    assert_eq!(answer.header("content-type"), "application/json");
}

#[tokio::test]
async fn what_is_available_is_what_would_be_granted_unless_somebody_wants_the_documents_number() {
    let app = App::adw().await;

    let answer = app.acquire("run-1", 80).await;

    assert_eq!(
        fields(&answer, &["available", "available_to_max"]),
        json!({ "available": 870, "available_to_max": 920 })
    );
}

#[tokio::test]
async fn the_documents_status_is_what_the_server_says() {
    let app = App::adw().await;
    app.pool("ERP", 5, 500).await;
    app.pool("CRM", 10, 100).await;
    app.acquire("run-1", 720).await;

    let answer = app.ask(Method::GET, "/status", &[], "").await;

    let document = r#"{"sources":{"4":{"name":"ADW","max_connections":1000,"threshold":950,"current_usage":720,"available":230,"active_batches":1,"waiting_batches":0,"#;
    assert!(answer.text.starts_with(document), "{}", answer.text);
    let status = answer.json();
    assert_eq!(status["sources"].as_object().unwrap().keys().collect::<Vec<_>>(), ["4", "5", "10"]);
    assert_eq!(status["timestamp"], "2026-11-15T02:00:00Z");
    let one = app.ask(Method::GET, "/status?src_db_id=5", &[], "").await.json();
    assert_eq!(one["sources"].as_object().unwrap().keys().collect::<Vec<_>>(), ["5"]);
    let none = app.ask(Method::GET, "/status?src_db_id=9", &[], "").await.json();
    assert_eq!(none["sources"], json!({}));
}

#[tokio::test]
async fn the_documents_release_is_what_the_server_says_and_a_second_one_finds_nothing() {
    let app = App::adw().await;
    app.acquire("run-1", 8).await;
    app.acquire("run-2", 72).await;

    let first = app.post("/release", &release("run-1")).await;
    assert_eq!(first.text, r#"{"released":true,"released_connections":8,"current_usage":72}"#);

    let second = app.release("run-1").await;
    let nothing = json!({ "released": false, "released_connections": 0, "current_usage": 72 });
    assert_eq!(fields(&second, &["released", "released_connections", "current_usage"]), nothing);
}

#[tokio::test]
async fn the_same_run_that_asks_again_holds_once() {
    let app = App::adw().await;
    let first = app.acquire("run-1", 8).await;

    let second = app.acquire("run-1", 8).await;

    assert_eq!((&second["allowed"], &second["duplicate"]), (&json!(true), &json!(true)));
    assert_eq!(second["lease_id"], first["lease_id"]);
    assert!(second["epoch"].as_i64() > first["epoch"].as_i64());
    assert_eq!(app.usage("4").await, 8);
}

#[tokio::test]
async fn less_shrinks_and_more_queues_for_the_difference() {
    let app = App::adw().await;
    app.acquire("other", 940).await;
    app.acquire("run-1", 8).await;

    assert_eq!(app.acquire("run-1", 4).await["granted_parallel"], 4);
    assert_eq!(app.usage("4").await, 944);
    let more = app.acquire("run-1", 32).await;
    assert_eq!(
        fields(&more, &["allowed", "granted_parallel", "upgrade_pending"]),
        json!({ "allowed": true, "granted_parallel": 4, "upgrade_pending": true })
    );
}

#[tokio::test]
async fn two_dags_whose_runs_have_the_same_name_hold_each_its_own() {
    let app = App::adw().await;
    let mut other = acquire("scheduled__2026-11-15", 8);
    other["dag_id"] = json!("batch_002");
    app.acquire("scheduled__2026-11-15", 8).await;
    app.post("/acquire", &other).await;

    assert_eq!(app.usage("4").await, 16);
    app.release("scheduled__2026-11-15").await;
    assert_eq!(app.usage("4").await, 8);
}

#[tokio::test]
async fn who_does_not_fit_gets_less_as_the_document_says_it() {
    let app = App::adw().await;
    app.acquire("other", 940).await;

    let answer = app.post("/acquire", &acquire("run-1", 16)).await;

    let document = r#"{"allowed":true,"downgraded":true,"original_parallel":16,"adjusted_parallel":8,"reason":"partial_capacity_available","#;
    assert!(answer.text.starts_with(document), "{}", answer.text);
    assert_eq!(app.usage("4").await, 948);
}

#[tokio::test]
async fn who_waits_keeps_its_ticket_between_its_polls() {
    let app = App::adw().await;
    app.acquire("other", 949).await;

    let first = app.acquire("run-1", 8).await;
    let second = app.acquire("run-2", 8).await;
    let again = app.acquire("run-1", 8).await;

    assert_eq!(first["reason"], "connection_limit_exceeded");
    assert_eq!(
        fields(&first, &["allowed", "current_usage", "requested", "queue_position", "detail"]),
        json!({ "allowed": false, "current_usage": 949, "requested": 8, "queue_position": 1, "detail": "pool_full" })
    );
    assert!((30..=300).contains(&first["wait_seconds"].as_u64().unwrap()), "{first}");
    assert_eq!((&second["queue_position"], &again["queue_position"]), (&json!(2), &json!(1)));
    assert_eq!(second["detail"], "behind_in_queue");
    app.release("other").await;
    let granted = app.acquire("run-1", 8).await;
    assert_eq!((&granted["allowed"], &granted["granted_parallel"]), (&json!(true), &json!(8)));
    // The units of the other one are set aside until it asks again.
    assert_eq!(app.usage("4").await, 16);
    assert_eq!(app.acquire("run-2", 8).await["allowed"], true);
}

#[tokio::test]
async fn who_stays_on_the_line_is_told_when_another_gives_back() {
    let app = App::adw().await;
    app.acquire("other", 949).await;
    let mut wanted = acquire("run-1", 8);
    wanted["wait_seconds"] = json!(50);

    let waits = app.post("/acquire", &wanted);
    let gives_back = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        app.release("other").await
    };
    let both = async { tokio::join!(waits, gives_back) };
    let (granted, _) =
        tokio::time::timeout(Duration::from_secs(45), both).await.expect("told before its time is over");

    assert_eq!(granted.json()["allowed"], true, "{granted:?}");
}

#[tokio::test]
async fn who_waits_and_releases_leaves_the_queue() {
    let app = App::adw().await;
    app.acquire("other", 949).await;
    app.acquire("run-1", 8).await;

    let answer = app.release("run-1").await;

    assert_eq!(
        fields(&answer, &["released", "cancelled_waiting"]),
        json!({ "released": false, "cancelled_waiting": true })
    );
    let status = app.ask(Method::GET, "/status", &[], "").await.json();
    assert_eq!(status["sources"]["4"]["waiting_batches"], 0);
}

#[tokio::test]
async fn what_no_pool_ever_has_is_refused_at_once() {
    let app = App::adw().await;
    let mut wanted = acquire("run-1", 2000);
    wanted["min_parallel"] = json!(1000);
    wanted["wait_seconds"] = json!(50);

    let answer = app.post("/acquire", &wanted).await.json();

    assert_eq!(
        fields(&answer, &["allowed", "reason", "wait_seconds", "requested"]),
        json!({ "allowed": false, "reason": "exceeds_pool", "wait_seconds": null, "requested": 2000 })
    );
}

#[tokio::test]
async fn an_unknown_pool_is_refused_and_a_release_to_it_gives_nothing_back() {
    let app = App::adw().await;
    let mut wanted = acquire("run-1", 8);
    wanted["src_db_id"] = json!(9);

    let answer = app.post("/acquire", &wanted).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(
        fields(&answer.json(), &["allowed", "reason", "wait_seconds"]),
        json!({ "allowed": false, "reason": "unknown_pool", "wait_seconds": null })
    );

    wanted["src_db_id"] = json!("9");
    let answer = app.post("/release", &wanted).await.json();
    assert_eq!(
        fields(&answer, &["released", "released_connections", "reason"]),
        json!({ "released": false, "released_connections": 0, "reason": "unknown_pool" })
    );
}

#[tokio::test]
async fn an_installation_may_let_unknown_pools_through() {
    let emr_agent = EmrAgentOptions { unknown: UnknownPool::Allow, ..EmrAgentOptions::default() };
    let choices = Choices { emr_agent, ..Choices::default() };
    let app = App::choosing(Authentication::None, "", choices).await;

    let answer = app.acquire("run-1", 8).await;

    assert_eq!(
        fields(&answer, &["allowed", "reason", "granted_parallel", "lease_id"]),
        json!({ "allowed": true, "reason": "unknown_pool", "granted_parallel": 8, "lease_id": null })
    );
}

#[tokio::test]
async fn a_paused_pool_says_so() {
    let app = App::adw().await;
    let paused = app.ask(Method::POST, "/api/v1/pools/ADW/pause", &[], r#"{"reason":"patch day"}"#).await;
    assert_eq!((paused.status, &paused.json()["pause"]["reason"]), (StatusCode::OK, &json!("patch day")));

    assert_eq!(
        fields(&app.acquire("run-1", 8).await, &["allowed", "reason"]),
        json!({ "allowed": false, "reason": "pool_paused" })
    );

    app.ask(Method::POST, "/api/v1/pools/ADW/resume", &[], "{}").await;
    assert_eq!(app.acquire("run-1", 8).await["allowed"], true);
}

#[tokio::test]
async fn a_limit_that_is_lowered_takes_nothing_away() {
    let app = App::adw().await;
    app.acquire("run-1", 100).await;
    let changed = app.ask(Method::PATCH, "/api/v1/pools/ADW", &[], r#"{"max_units":80}"#).await;
    assert_eq!(changed.status, StatusCode::OK, "{changed:?}");

    let answer = app.acquire("run-2", 8).await;

    assert_eq!(
        fields(&answer, &["allowed", "current_usage", "over_by", "detail"]),
        json!({ "allowed": false, "current_usage": 100, "over_by": 24, "detail": "capacity_shrunk" })
    );
}

#[tokio::test]
async fn the_batch_spec_tells_pool_table_hint_and_sessions() {
    let app = App::adw().await;
    let spec = json!({
        "athenaMetaData": { "athenaMetaId": 323, "srcDbId": 4, "srcDbTp": "oracle", "tableName": "SALES_ORDER" },
        "rsrcSpecData": { "rsrcSpecId": 76, "hint": "/*+ PARALLEL(16) FULL(A) */", "prttCnt": 3 },
    });
    let wanted = json!({ "dag_id": "d", "dag_run_id": "r", "batch_spec": spec });

    let answer = app.post("/acquire", &wanted).await.json();

    assert_eq!(
        fields(&answer, &["granted_parallel", "granted_units", "hint_override"]),
        json!({ "granted_parallel": 16, "granted_units": 16, "hint_override": "/*+ PARALLEL(16) FULL(A) */" })
    );
    let holders = app.ask(Method::GET, "/api/v1/pools/ADW/holders", &[], "").await.json();
    assert_eq!(holders["items"][0]["table"], "SALES_ORDER");

    let by_sessions = json!({ "name": "PX", "external_id": 6, "max_units": 1000, "weight": "sessions" });
    app.ask(Method::POST, "/api/v1/pools", &[], &by_sessions.to_string()).await;
    let mut wanted = wanted;
    wanted["src_db_id"] = json!(6);
    assert_eq!(app.post("/acquire", &wanted).await.json()["granted_units"], 3);
}

#[tokio::test]
async fn a_pool_that_grants_sessions_lowers_them_and_not_the_degree() {
    let app = App::open().await;
    let pool = json!({
        "name": "PX", "external_id": 6, "max_units": 6, "threshold_percent": 100, "weight": "sessions",
        "default_units": 2, "min_units": 1,
    });
    app.ask(Method::POST, "/api/v1/pools", &[], &pool.to_string()).await;
    let ask = async |run: &str, sessions: u32, more: Value| {
        let spec = json!({ "rsrcSpecData": { "prttCnt": sessions } });
        let mut wanted = json!({ "dag_id": "d", "dag_run_id": run, "src_db_id": 6, "batch_spec": spec });
        wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        app.post("/acquire", &wanted).await.json()
    };
    let parallel = ["downgraded", "original_parallel", "adjusted_parallel", "granted_parallel"];
    let rest = ["granted_sessions", "granted_units", "hint_override"];
    let told = |answer: &Value| (fields(answer, &parallel), fields(answer, &rest));

    let whole = ask("whole", 3, json!({ "parallel_hint": 8 })).await;
    assert_eq!((&whole["granted_parallel"], &whole["granted_sessions"]), (&json!(8), &json!(3)), "{whole}");

    let hint = "/*+ PARALLEL(16) */";
    let lowered = ask("lowered", 4, json!({ "hint": hint })).await;
    let expected = (
        json!({ "downgraded": true, "original_parallel": 16, "adjusted_parallel": 16, "granted_parallel": 16 }),
        json!({ "granted_sessions": 2, "granted_units": 2, "hint_override": hint }),
    );
    assert_eq!(told(&lowered), expected);
    assert_eq!(told(&ask("lowered", 4, json!({})).await), expected, "as its lease has it");

    let default = ask("default", 2, json!({})).await;
    assert_eq!(
        fields(&default, &["downgraded", "original_parallel", "adjusted_parallel", "granted_sessions"]),
        json!({ "downgraded": true, "original_parallel": 2, "adjusted_parallel": 2, "granted_sessions": 1 })
    );
}

#[tokio::test]
async fn the_number_of_the_request_comes_before_the_hint_and_the_hint_before_the_pool() {
    let app = App::adw().await;
    let ask = async |run: &str, more: Value| {
        let mut wanted = json!({ "dag_id": "d", "dag_run_id": run, "src_db_id": 4 });
        wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        app.post("/acquire", &wanted).await.json()["granted_parallel"].clone()
    };

    assert_eq!(ask("1", json!({ "parallel_hint": "4", "hint": "/*+ PARALLEL(16) */" })).await, 4);
    assert_eq!(ask("2", json!({ "hint": "/*+ PARALLEL(16) */" })).await, 16);
    assert_eq!(ask("3", json!({ "hint": "/*+ NO_PARALLEL */" })).await, 1);
    assert_eq!(ask("4", json!({ "hint": "/*+ FULL(A) */" })).await, 8);
    assert_eq!(ask("5", json!({})).await, 8);
}

#[tokio::test]
async fn the_hint_to_run_with_is_what_was_granted() {
    let app = App::adw().await;
    app.acquire("other", 940).await;
    let mut wanted = acquire("run-1", 16);
    wanted["hint"] = json!("/*+ PARALLEL(16) FULL(A) */");

    let answer = app.post("/acquire", &wanted).await.json();

    assert_eq!(
        fields(&answer, &["adjusted_parallel", "hint_override"]),
        json!({ "adjusted_parallel": 8, "hint_override": "/*+ PARALLEL(8) FULL(A) */" })
    );
    // Nobody could run this one with less, so it waits for all of it.
    let mut unreadable = acquire("run-2", 16);
    unreadable["hint"] = json!("/*+ PARALLEL(16 */");
    assert_eq!(app.post("/acquire", &unreadable).await.json()["allowed"], false);
}

#[tokio::test]
async fn a_hint_that_cannot_be_lowered_counts_whole_whatever_the_number_says() {
    let app = App::adw().await;
    let mut wanted = acquire("run-1", 4);
    wanted["hint"] = json!("/*+ PARALLEL(16 */");

    let answer = app.post("/acquire", &wanted).await.json();

    assert_eq!(
        fields(&answer, &["granted_parallel", "hint_override"]),
        json!({ "granted_parallel": 16, "hint_override": "/*+ PARALLEL(16 */" })
    );
}

#[tokio::test]
async fn what_a_statement_runs_with_outside_of_hints_counts_with_a_warning() {
    let app = App::adw().await;
    let ask = async |run: &str, parallel: u32, hint: &str| {
        let mut wanted = acquire(run, parallel);
        wanted["hint"] = json!(hint);
        let mut answer = app.post("/acquire", &wanted).await.json();
        let warnings = answer["warnings"].take();
        let names: Option<Vec<Value>> =
            warnings.as_array().map(|all| all.iter().map(|warning| warning["name"].clone()).collect());
        (answer["allowed"] == true, answer["granted_parallel"].clone(), names)
    };
    let names = |names: &[&str]| Some(names.iter().map(|name| json!(name)).collect::<Vec<_>>());

    let create = "CREATE TABLE t PARALLEL (DEGREE 8 INSTANCES 2) AS SELECT * FROM s";
    assert_eq!(ask("1", 4, create).await, (true, json!(16), names(&["instances", "clause", "hint_counts"])));
    assert_eq!(ask("2", 16, "/*+ PARALLEL(4) */").await, (true, json!(16), names(&["number_counts"])));
    assert_eq!(ask("3", 4, "/*+ PARALLEL(4) */").await, (true, json!(4), None));
    assert_eq!(
        ask("4", 940, create).await.2,
        names(&["instances", "clause", "number_counts"]),
        "also while it waits"
    );
}

#[tokio::test]
async fn who_asks_again_without_a_hint_is_told_that_of_its_lease() {
    let app = App::adw().await;
    app.acquire("other", 940).await;
    let mut wanted = acquire("run-1", 16);
    wanted["hint"] = json!("/*+ PARALLEL(16) FULL(A) */");
    app.post("/acquire", &wanted).await;

    let again = app.acquire("run-1", 16).await;

    assert_eq!(
        fields(&again, &["duplicate", "adjusted_parallel", "hint_override"]),
        json!({ "duplicate": true, "adjusted_parallel": 8, "hint_override": "/*+ PARALLEL(8) FULL(A) */" })
    );
}

#[tokio::test]
async fn one_address_does_all_when_the_body_says_what() {
    let app = App::adw().await;
    let mut wanted = acquire("run-1", 8);
    wanted["action"] = json!("acquire");

    assert_eq!(app.post("/", &wanted).await.json()["allowed"], true);
    wanted["action"] = json!("release");
    assert_eq!(app.post("/", &wanted).await.json()["released"], true);
    assert_eq!(
        app.post("/", &json!({ "action": "status" })).await.json()["sources"]["4"]["current_usage"],
        0
    );
}

#[tokio::test]
async fn the_same_call_again_is_answered_the_same() {
    let app = App::adw().await;
    let headers = [("idempotency-key", "k-1")];

    let first = app.post_with("/acquire", &headers, &acquire("run-1", 8)).await;
    let again = app.post_with("/acquire", &headers, &acquire("run-1", 8)).await;
    assert_eq!(first.text, again.text);

    let headers = [("idempotency-key", "k-2")];
    let first = app.post_with("/release", &headers, &release("run-1")).await;
    let again = app.post_with("/release", &headers, &release("run-1")).await;
    assert_eq!((first.json()["released"].as_bool(), &first.text), (Some(true), &again.text));
}

#[tokio::test]
async fn a_bad_request_names_its_field() {
    let app = App::adw().await;
    for (body, field) in [
        (json!({}), "src_db_id"),
        (json!([]), "request"),
        (json!({ "src_db_id": 4, "dag_run_id": "r" }), "dag_id"),
        (json!({ "src_db_id": " 4", "dag_id": "d", "dag_run_id": "r" }), "src_db_id"),
        (json!({ "src_db_id": 4, "dag_id": "d", "dag_run_id": "r", "parallel_hint": 0 }), "parallel_hint"),
        (json!({ "src_db_id": 4, "dag_id": "d", "dag_run_id": "r", "wait_seconds": 51 }), "wait_seconds"),
        (json!({ "src_db_id": 4, "dag_id": "d\u{0}", "dag_run_id": "r" }), "dag_id"),
        (json!({ "action": "release", "src_db_id": 4, "dag_id": "d", "dag_run_id": "r" }), "action"),
    ] {
        let answer = app.post("/acquire", &body).await;
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (StatusCode::BAD_REQUEST, &json!("TM0504")),
            "{body}"
        );
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.starts_with(&format!("{field}: ")), "{detail}");
    }
    let answer = app.ask(Method::POST, "/acquire", &[], "{not json").await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    let answer = app.ask(Method::POST, "/acquire", &[], &"x".repeat(2 << 20)).await;
    assert_eq!((answer.status, &answer.json()["code"]), (StatusCode::PAYLOAD_TOO_LARGE, &json!("TM0506")));
    assert_eq!(app.usage("4").await, 0);
}

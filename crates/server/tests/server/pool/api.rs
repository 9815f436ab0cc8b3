//! The typed API of pools.

use crate::{Answer, App};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;
use tidemill_domain::access::Token;
use tidemill_domain::audit::{Actor, Role};
use tidemill_domain::time::Timestamp;
use tidemill_store::token::NewToken;

pub(super) fn request(run: &str, pools: Value) -> Value {
    json!({ "holder": { "dag_id": "nightly", "run_id": run }, "pools": pools })
}

impl App {
    pub(super) async fn make(&self, request: &Value) -> Answer {
        self.ask(Method::POST, "/api/v1/requests", &[], &request.to_string()).await
    }

    /// The only lease of a request that is granted at once.
    pub(super) async fn leased(&self, run: &str, parallel: u32) -> Value {
        let made = self.make(&request(run, json!([{ "pool": "ADW", "parallel": parallel }]))).await;
        assert_eq!(made.status, StatusCode::OK, "{made:?}");
        made.json()["leases"][0].clone()
    }
}

pub(super) fn check(answer: &Answer, status: StatusCode, code: &str) {
    assert_eq!((answer.status, &answer.json()["code"]), (status, &json!(code)), "{answer:?}");
}

#[tokio::test]
async fn a_pool_is_made_changed_and_removed() {
    let app = App::open().await;
    let body = json!({
        "name": "ADW", "external_id": 4, "max_units": 1000, "weight": "sessions", "policy": "fifo",
        "capacity": [{ "window": "22:00-06:00", "max_units": 2000 }], "zone": "Asia/Seoul", "lease_for": "10m",
    });
    let made = app.ask(Method::POST, "/api/v1/pools", &[], &body.to_string()).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    for (field, value) in body.as_object().unwrap() {
        assert_eq!(&made.json()[field], value, "{field}");
    }

    let changed = app
        .ask(
            Method::PATCH,
            "/api/v1/pools/ADW",
            &[],
            r#"{"max_units":500,"external_id":null,"reason":"smaller host"}"#,
        )
        .await;
    assert_eq!(changed.status, StatusCode::OK, "{changed:?}");
    let shown = app.ask(Method::GET, "/api/v1/pools/ADW", &[], "").await.json();
    assert_eq!(
        (&shown["max_units"], &shown["limit"], &shown["external_id"]),
        (&json!(500), &json!(475), &Value::Null)
    );
    assert_eq!(shown["policy"], "fifo", "what is not given stays");
    let none = json!({ "count": 0, "median_error_seconds": null, "p90_held_percent": null });
    assert_eq!((&shown["estimates"], &shown["audit"]), (&none, &Value::Null));
    let log = app.ask(Method::GET, "/api/v1/audit?action=pool.set", &[], "").await.json();
    let entry = &log["items"][0];
    assert_eq!(entry["reason"], "smaller host");
    assert_eq!(
        (&entry["from"], &entry["to"]),
        (&json!("external_id 4, max_units 1000"), &json!("external_id none, max_units 500"))
    );

    assert_eq!(app.ask(Method::GET, "/api/v1/pools", &[], "").await.json()["items"][0]["name"], "ADW");
    assert_eq!(app.ask(Method::DELETE, "/api/v1/pools/ADW", &[], "").await.status, StatusCode::OK);
    for method in [Method::GET, Method::DELETE] {
        check(&app.ask(method, "/api/v1/pools/ADW", &[], "").await, StatusCode::NOT_FOUND, "TM1201");
    }
    check(&app.ask(Method::PATCH, "/api/v1/pools/ADW", &[], "{}").await, StatusCode::NOT_FOUND, "TM1201");
}

#[tokio::test]
async fn names_and_numbers_are_taken_once() {
    let app = App::adw().await;
    let make = async |body: Value| app.ask(Method::POST, "/api/v1/pools", &[], &body.to_string()).await;

    check(&make(json!({ "name": "ADW", "max_units": 1 })).await, StatusCode::CONFLICT, "TM1202");
    check(
        &make(json!({ "name": "B", "external_id": 4, "max_units": 1 })).await,
        StatusCode::CONFLICT,
        "TM1202",
    );
    app.pool("ERP", 5, 10).await;
    check(
        &app.ask(Method::PATCH, "/api/v1/pools/ERP", &[], r#"{"external_id":4}"#).await,
        StatusCode::CONFLICT,
        "TM1202",
    );
}

#[tokio::test]
async fn settings_that_make_no_sense_are_refused_by_name() {
    let app = App::open().await;
    for (field, value) in [
        ("threshold_percent", json!(101)),
        ("default_units", json!(0)),
        ("min_units", json!(0)),
        ("weight", json!("heavy")),
        ("policy", json!("random")),
        ("zone", json!("Moon/Base")),
        ("capacity", json!([{ "window": "late", "max_units": 1 }])),
        ("lease_for", json!("1s")),
        ("max_hold", json!("long")),
        ("server_sets", json!(9)),
        ("name", json!("a b")),
    ] {
        let mut body = json!({ "name": "ADW", "max_units": 10 });
        body[field] = value;
        let answer = app.ask(Method::POST, "/api/v1/pools", &[], &body.to_string()).await;
        check(&answer, StatusCode::BAD_REQUEST, "TM1206");
        assert!(answer.json()["detail"].as_str().unwrap().starts_with(&format!("{field}: ")), "{answer:?}");
    }
    let without = app.ask(Method::POST, "/api/v1/pools", &[], r#"{"name":"ADW"}"#).await;
    check(&without, StatusCode::BAD_REQUEST, "TM1206");
    let misspelt =
        app.ask(Method::POST, "/api/v1/pools", &[], r#"{"name":"ADW","max_units":1,"treshold":5}"#).await;
    check(&misspelt, StatusCode::UNPROCESSABLE_ENTITY, "TM0504");
}

#[tokio::test]
async fn a_pool_in_use_stays() {
    let app = App::adw().await;
    app.leased("run-1", 8).await;

    check(&app.ask(Method::DELETE, "/api/v1/pools/ADW", &[], "").await, StatusCode::CONFLICT, "TM1203");
}

#[tokio::test]
async fn units_are_leased_kept_alive_and_given_back() {
    let app = App::adw().await;
    let lease = app.leased("run-1", 8).await;
    let path = format!("/api/v1/pool-leases/{}", lease["id"].as_str().unwrap());
    assert_eq!((&lease["parallel"], &lease["units"]), (&json!(8), &json!(8)));

    let shown = app.ask(Method::GET, &path, &[], "").await.json();
    assert_eq!((&shown["state"], &shown["holder"]["run_id"]), (&json!("running"), &json!("run-1")));
    let beat = json!({ "epoch": lease["epoch"] }).to_string();
    assert_eq!(app.ask(Method::POST, &format!("{path}/heartbeat"), &[], &beat).await.status, StatusCode::OK);
    let older = json!({ "epoch": lease["epoch"].as_i64().unwrap() - 1 }).to_string();
    check(
        &app.ask(Method::POST, &format!("{path}/heartbeat"), &[], &older).await,
        StatusCode::CONFLICT,
        "TM1207",
    );

    let given =
        app.ask(Method::DELETE, &format!("{path}?epoch={}&failed=true", lease["epoch"]), &[], "").await;
    assert_eq!((&given.json()["released"], &given.json()["in_use"]), (&json!(true), &json!(0)), "{given:?}");
    let shown = app.ask(Method::GET, &path, &[], "").await.json();
    assert_eq!((&shown["state"], &shown["ending"]), (&json!("released"), &json!("released_failed")));
    check(
        &app.ask(Method::POST, &format!("{path}/heartbeat"), &[], &beat).await,
        StatusCode::CONFLICT,
        "TM1207",
    );
}

#[tokio::test]
async fn an_older_attempt_gives_nothing_back() {
    let app = App::adw().await;
    let first = app.leased("run-1", 8).await;
    let second = app.leased("run-1", 8).await;
    assert_eq!(first["id"], second["id"]);
    let path = format!("/api/v1/pool-leases/{}", first["id"].as_str().unwrap());

    let ghost = app.ask(Method::DELETE, &format!("{path}?epoch={}", first["epoch"]), &[], "").await;

    check(&ghost, StatusCode::CONFLICT, "TM1207");
    assert_eq!(app.usage("4").await, 8);
}

#[tokio::test]
async fn an_operator_takes_a_lease_away_for_a_reason() {
    let app = App::adw().await;
    let lease = app.leased("run-1", 8).await;
    let path = format!("/api/v1/pool-leases/{}/release", lease["id"].as_str().unwrap());

    let without = app.ask(Method::POST, &path, &[], r#"{"reason":" "}"#).await;
    assert_eq!(without.status, StatusCode::BAD_REQUEST);
    let taken = app.ask(Method::POST, &path, &[], r#"{"reason":"cluster was ended"}"#).await;

    assert_eq!((taken.status, &taken.json()["units"]), (StatusCode::OK, &json!(8)), "{taken:?}");
    assert_eq!(app.usage("4").await, 0);
    let log = app.ask(Method::GET, "/api/v1/audit?action=pool.release", &[], "").await.json();
    assert_eq!(
        (&log["items"][0]["object"], &log["items"][0]["reason"]),
        (&json!("pool/ADW"), &json!("cluster was ended"))
    );
    let events = app.ask(Method::GET, "/api/v1/pools/ADW/events", &[], "").await.json();
    assert_eq!(events["items"][0]["message"], "nightly was released by local: cluster was ended");
    check(&app.ask(Method::POST, &path, &[], r#"{"reason":"again"}"#).await, StatusCode::CONFLICT, "TM1207");
}

#[tokio::test]
async fn several_pools_are_had_together_or_not_at_all() {
    let app = App::adw().await;
    app.pool("ERP", 5, 10).await;
    let both = json!([{ "pool": "ADW", "parallel": 8 }, { "pool": "ERP", "parallel": 8, "min": 8 }]);
    let holds = app.make(&request("other", json!([{ "pool": "ERP", "parallel": 6 }]))).await.json();

    let waits = app.make(&request("run-1", both.clone())).await;
    assert_eq!(waits.status, StatusCode::ACCEPTED, "{waits:?}");
    assert_eq!((&waits.json()["state"], &waits.json()["waits"]["pool"]), (&json!("waiting"), &json!("ERP")));
    assert_eq!(waits.json()["waits"]["reason"], "pool_full");
    assert_eq!(app.usage("4").await, 0, "nothing is held of one while the other is waited for");

    let other = format!("/api/v1/requests/{}?epoch=1", holds["id"].as_str().unwrap());
    assert_eq!(app.ask(Method::DELETE, &other, &[], "").await.json()["units"], 6);
    let granted = app.make(&request("run-1", both)).await;
    assert_eq!(
        (granted.status, granted.json()["leases"].as_array().unwrap().len()),
        (StatusCode::OK, 2),
        "{granted:?}"
    );

    let path = format!("/api/v1/requests/{}", granted.json()["id"].as_str().unwrap());
    let tickets = app.ask(Method::GET, &path, &[], "").await.json();
    assert_eq!(tickets["items"].as_array().unwrap().len(), 2);
    let cancelled = app.ask(Method::DELETE, &format!("{path}?epoch=1"), &[], "").await;
    assert_eq!(cancelled.json()["units"], 16, "{cancelled:?}");
    assert_eq!((app.usage("4").await, app.usage("5").await), (json!(0), json!(0)));
}

#[tokio::test]
async fn a_request_waits_on_the_line_for_a_while() {
    let app = App::adw().await;
    let held = app.leased("other", 949).await;
    let mut wanted = request("run-1", json!([{ "pool": "ADW", "parallel": 8 }]));
    wanted["wait_seconds"] = json!(30);

    let path = format!("/api/v1/pool-leases/{}?epoch={}", held["id"].as_str().unwrap(), held["epoch"]);
    let gives_back = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        app.ask(Method::DELETE, &path, &[], "").await
    };
    let (made, _) = tokio::join!(app.make(&wanted), gives_back);

    assert_eq!((made.status, &made.json()["state"]), (StatusCode::OK, &json!("running")));
}

#[tokio::test]
async fn a_waiting_request_is_given_up() {
    let app = App::adw().await;
    app.leased("other", 949).await;
    let waits = app.make(&request("run-1", json!([{ "pool": "ADW", "parallel": 8 }]))).await.json();
    let queue = app.ask(Method::GET, "/api/v1/pools/ADW/queue", &[], "").await.json();
    assert_eq!((&queue["items"][0]["id"], &queue["items"][0]["reason"]), (&waits["id"], &json!("pool_full")));
    let lease = format!("/api/v1/pool-leases/{}", waits["id"].as_str().unwrap());
    let told = app.ask(Method::GET, &lease, &[], "").await.json();
    for name in ["eta_p50", "eta_p90"] {
        let instant = |value: &Value| value[name].as_str().map(|text| text.parse::<Timestamp>().unwrap());
        assert!(instant(&waits["waits"]).is_some(), "{waits}");
        assert_eq!(instant(&told), instant(&waits["waits"]), "what it was told when it came");
        assert_eq!((&queue["items"][0]["overtaken"], &told["overtaken"]), (&json!(0), &json!(0)));
    }

    let path = format!("/api/v1/requests/{}", waits["id"].as_str().unwrap());
    let given_up = app.ask(Method::DELETE, &path, &[], "").await.json();

    assert_eq!((&given_up["cancelled_waiting"], &given_up["units"]), (&json!(true), &json!(0)));
    assert_eq!(app.ask(Method::GET, "/api/v1/pools/ADW/queue", &[], "").await.json()["items"], json!([]));
}

#[tokio::test]
async fn requests_that_cannot_be_served_are_refused() {
    let app = App::adw().await;
    let one = |part: Value| request("run-1", json!([part]));

    check(&app.make(&one(json!({ "pool": "none", "parallel": 1 }))).await, StatusCode::NOT_FOUND, "TM1201");
    check(
        &app.make(&one(json!({ "pool": "ADW", "parallel": 2000, "min": 1000 }))).await,
        StatusCode::BAD_REQUEST,
        "TM1205",
    );
    for (bad, field) in [
        (request("run-1", json!([])), "pools"),
        (request("run-1", json!([{ "pool": "ADW" }, { "pool": "ADW" }])), "pools"),
        (request("", json!([{ "pool": "ADW" }])), "holder"),
        (one(json!({ "pool": "ADW", "parallel": 0 })), "parallel"),
        (one(json!({ "pool": "ADW", "parallel": 5, "min": 8 })), "min"),
        (
            json!({ "wait_seconds": 51, "pools": [], "holder": { "dag_id": "d", "run_id": "r" } }),
            "wait_seconds",
        ),
        (
            json!({ "class": "urgent", "pools": [{ "pool": "ADW" }], "holder": { "dag_id": "d", "run_id": "r" } }),
            "class",
        ),
        (
            json!({ "hint": "\u{0}", "pools": [{ "pool": "ADW" }], "holder": { "dag_id": "d", "run_id": "r" } }),
            "hint",
        ),
        (
            json!({ "heartbeat_seconds": 0, "pools": [{ "pool": "ADW" }], "holder": { "dag_id": "d", "run_id": "r" } }),
            "heartbeat_seconds",
        ),
    ] {
        let answer = app.make(&bad).await;
        check(&answer, StatusCode::BAD_REQUEST, "TM0504");
        assert!(answer.json()["detail"].as_str().unwrap().starts_with(field), "{answer:?}");
    }
    for path in ["/api/v1/pool-leases/x", "/api/v1/requests/018f3c5e-1d2b-7cc3-9b1a-6f0a4e7d2c11"] {
        check(&app.ask(Method::GET, path, &[], "").await, StatusCode::NOT_FOUND, "TM1207");
    }
    assert_eq!(app.usage("4").await, 0);
}

#[tokio::test]
async fn the_hint_of_a_request_is_lowered_with_its_grant() {
    let app = App::adw().await;
    app.leased("other", 940).await;
    let mut wanted = request("run-1", json!([{ "pool": "ADW" }]));
    wanted["hint"] = json!("/*+ PARALLEL(16) */");

    let lease = app.make(&wanted).await.json()["leases"][0].clone();

    assert_eq!(
        (&lease["asked"], &lease["parallel"], &lease["hint"]),
        (&json!(16), &json!(8), &json!("/*+ PARALLEL(8) */"))
    );
    // Nobody could run this one with less, so the number does not make it less, and it waits.
    let mut unreadable = request("run-2", json!([{ "pool": "ADW", "parallel": 2 }]));
    unreadable["hint"] = json!("/*+ PARALLEL(16 */");
    assert_eq!(app.make(&unreadable).await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn the_answer_warns_of_clauses_and_of_a_number_that_is_not_that_of_the_hint() {
    let app = App::adw().await;
    let ask = async |run: &str, pool: Value, hint: &str| {
        let mut wanted = request(run, json!([pool]));
        wanted["hint"] = json!(hint);
        app.make(&wanted).await
    };
    let names = |answer: &Value| -> Vec<String> {
        let warnings = answer["warnings"].as_array().unwrap();
        warnings.iter().map(|warning| warning["name"].as_str().unwrap().to_owned()).collect()
    };

    let create = "CREATE INDEX i ON t (a) PARALLEL 8";
    let whole = ask("1", json!({ "pool": "ADW", "parallel": 2 }), create).await.json();
    assert_eq!((&whole["leases"][0]["parallel"], &whole["leases"][0]["hint"]), (&json!(8), &json!(create)));
    assert_eq!(names(&whole), ["clause", "hint_counts"]);
    let other = ask("2", json!({ "pool": "ADW", "parallel": 16 }), "/*+ PARALLEL(4) */").await.json();
    assert_eq!(
        (&other["leases"][0]["parallel"], names(&other)),
        (&json!(16), vec!["number_counts".to_owned()])
    );
    assert_eq!(names(&ask("3", json!({ "pool": "ADW" }), "/*+ PARALLEL(4) */").await.json()), [""; 0]);

    app.leased("other", 920).await;
    let waits = ask("4", json!({ "pool": "ADW" }), "ALTER INDEX i REBUILD PARALLEL 8").await;
    assert_eq!((waits.status, names(&waits.json())), (StatusCode::ACCEPTED, vec!["clause".to_owned()]));
    let refused =
        ask("5", json!({ "pool": "ADW", "parallel": 8 }), "ALTER INDEX i REBUILD PARALLEL 2000").await;
    assert!(refused.json()["detail"].as_str().unwrap().contains("it cannot be lowered"), "{refused:?}");
}

#[tokio::test]
async fn a_caller_who_is_limited_to_some_pools_uses_no_others() {
    let app = App::closed().await;
    for (name, id) in [("etl-a", 1), ("other", 2)] {
        let body = json!({ "name": name, "external_id": id, "max_units": 100 }).to_string();
        app.ask_as(Role::Admin, Method::POST, "/api/v1/pools", &body).await;
    }
    let token = Token::from_random(&[9; 16], &[9; 32]);
    let new = NewToken {
        name: "etl".into(),
        role: Role::Requester,
        scopes: vec!["pool/etl*".into()],
        valid_for: Some(Duration::from_secs(3600)),
    };
    let mut tx = app.store.begin().await.unwrap();
    tx.tokens().create(&token, &new, &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
    let bearer = format!("Bearer {}", token.expose());
    let headers = [("authorization", bearer.as_str())];
    let ask = async |path: &str, body: Value| app.ask(Method::POST, path, &headers, &body.to_string()).await;
    let run = |id: i64| json!({ "dag_id": "d", "dag_run_id": "r", "src_db_id": id, "action": "acquire" });

    assert_eq!(ask("/acquire", run(1)).await.json()["allowed"], true);
    check(&ask("/acquire", run(2)).await, StatusCode::FORBIDDEN, "TM0502");
    let lambda = ask(super::INVOKE, run(2)).await;
    assert_eq!((lambda.status.as_u16(), lambda.header("x-amzn-errortype")), (403, "AccessDeniedException"));
    check(
        &ask("/api/v1/requests", request("r", json!([{ "pool": "other" }]))).await,
        StatusCode::FORBIDDEN,
        "TM0502",
    );
    let status = app.ask(Method::GET, "/status", &headers, "").await.json();
    assert_eq!(status["sources"].as_object().unwrap().keys().collect::<Vec<_>>(), ["1"]);

    // Who leaves one queue of a request for two pools leaves both.
    let paused = json!({ "reason": "maintenance" }).to_string();
    app.ask_as(Role::Admin, Method::POST, "/api/v1/pools/other/pause", &paused).await;
    let both = json!([{ "pool": "etl-a", "parallel": 20 }, { "pool": "other", "parallel": 20 }]);
    let both = request("both", both).to_string();
    app.ask_as(Role::Admin, Method::POST, "/api/v1/requests", &both).await;
    let mut tx = app.store.read().await.unwrap();
    let mut tickets = tx.pools().tickets_of_run("both", 10).await.unwrap();
    tickets.retain(|record| record.pool.as_str() == "etl-a");
    tx.rollback().await.unwrap();
    let path = format!("/api/v1/pool-leases/{}?epoch=1", tickets[0].ticket.id);
    check(&app.ask(Method::DELETE, &path, &headers, "").await, StatusCode::FORBIDDEN, "TM0502");
}

#[tokio::test]
async fn demand_is_what_is_in_use_and_what_waits_also_for_keda() {
    let app = App::adw().await;
    let get = async |path: &str| app.ask(Method::GET, path, &[], "").await;
    let idle = get("/api/v1/pools/ADW/demand/keda").await.json();
    let expected =
        json!({ "metricName": "tidemill-ADW", "metricValue": 0, "targetSize": 1, "isActive": false });
    assert_eq!(idle, expected);

    app.leased("run-1", 900).await;
    let waits = request("run-2", json!([{ "pool": "ADW", "parallel": 200, "min": 200 }]));
    assert_eq!(app.make(&waits).await.status, StatusCode::ACCEPTED);

    // No run has ended yet, so nothing says that one of them soon will.
    let later = json!({ "p50": 1100, "p90": 1100 });
    let demand = json!({ "pool": "ADW", "now": 1100, "in_5_min": later, "in_15_min": later });
    assert_eq!(get("/api/v1/pools/ADW/demand").await.json(), demand);
    let keda = get("/api/v1/pools/ADW/demand/keda?target_size=50").await.json();
    let expected =
        json!({ "metricName": "tidemill-ADW", "metricValue": 1100, "targetSize": 50, "isActive": true });
    assert_eq!(keda, expected);

    check(&get("/api/v1/pools/none/demand").await, StatusCode::NOT_FOUND, "TM1201");
    check(&get("/api/v1/pools/none/demand/keda").await, StatusCode::NOT_FOUND, "TM1201");
    let no_size = get("/api/v1/pools/ADW/demand/keda?target_size=0").await;
    assert_eq!(no_size.status, StatusCode::BAD_REQUEST, "{no_size:?}");
}

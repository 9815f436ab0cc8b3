//! Jobs over HTTP: launched, watched, stopped, restarted, given up.

mod limit;
mod log;

use crate::{Answer, App};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidemill_domain::audit::Role;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::parameter::{ParameterSpec, ParameterType};
use tidemill_engine::item::{ItemsReader, ItemsWriter};
use tidemill_engine::job::{Job, Rejects, RepeatStatus, Step};

/// The jobs of the server under test: one that works, one that fails at first, one that goes on until it is stopped,
/// one that leaves something out.
pub(crate) fn jobs() -> [Job; 4] {
    let numbers = |name: &str| Step::chunk(name, 10).reader(ItemsReader::new("numbers", 1..=25_i64));
    let double = numbers("double").process(|n: &i64| Ok(Some(n * 2))).writer(ItemsWriter::default());
    let is_mended = Arc::new(AtomicBool::new(false));
    let stumble = move |n: &i64| {
        // Fails once; whoever tries again gets through.
        if *n == 15 && !is_mended.swap(true, Ordering::Relaxed) {
            return Err(ItemError::new(ErrorKind::VALIDATION, "stumbled over 15"));
        }
        Ok(Some(*n))
    };
    let picky = |n: &i64| match n % 10 {
        3 => Err(ItemError::new(ErrorKind::VALIDATION, "a 3 at the end")),
        _ => Ok(Some(*n)),
    };
    let limit = ParameterSpec {
        name: "limit".into(),
        kind: ParameterType::Long,
        is_required: false,
        is_identifying: false,
        accepted: Default::default(),
    };
    let day = ParameterSpec {
        name: "day".into(),
        kind: ParameterType::Date,
        is_required: true,
        is_identifying: true,
        accepted: Default::default(),
    };
    [
        Job::new("double").step(double.build()).parameter(day).parameter(limit),
        Job::new("stumble").step(numbers("walk").process(stumble).writer(ItemsWriter::default()).build()),
        Job::new("endless").step(Step::tasklet("wait", |_| async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(RepeatStatus::Continuable)
        })),
        Job::new("picky").step(
            numbers("pick")
                .process(picky)
                .writer(ItemsWriter::default())
                .skip([ErrorKind::VALIDATION], 5)
                .rejects(Rejects::table())
                .build(),
        ),
    ]
}

async fn launch(app: &App, job: &str, body: Value) -> Answer {
    let path = format!("/api/v1/jobs/{job}/executions");
    app.ask_as(Role::Operator, Method::POST, &path, &body.to_string()).await
}

async fn look(app: &App, path: &str) -> Value {
    let answer = app.ask_as(Role::Viewer, Method::GET, path, "").await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {answer:?}");
    answer.json()
}

/// Looks until the execution is in this status.
async fn wait_for(app: &App, id: i64, status: &str) -> Value {
    for _ in 0..24_000 {
        let execution = look(app, &format!("/api/v1/executions/{id}")).await["execution"].clone();
        if execution["status"] == status {
            return execution;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("execution {id} is not {status}: {}", look(app, &format!("/api/v1/executions/{id}")).await);
}

fn id(answer: &Answer) -> i64 {
    answer.json()["id"].as_i64().unwrap_or_else(|| panic!("{answer:?}"))
}

#[track_caller]
fn check(answer: &Answer, status: StatusCode, code: &str) {
    assert_eq!((answer.status, answer.json()["code"].as_str()), (status, Some(code)), "{answer:?}");
}

#[tokio::test]
async fn a_job_is_launched_and_runs_to_its_end() {
    let app = App::closed().await;

    let launched = launch(&app, "double", json!({ "parameters": { "day": "2026-11-15", "limit": 5 } })).await;

    assert_eq!(launched.status, StatusCode::ACCEPTED, "{launched:?}");
    let id = id(&launched);
    assert_eq!(launched.header("location"), format!("/api/v1/executions/{id}"));
    let done = wait_for(&app, id, "COMPLETED").await;
    assert_eq!((&done["job"], &done["launched_by"]), (&json!("double"), &json!("the operator")));
    let steps = look(&app, &format!("/api/v1/executions/{id}/steps")).await;
    assert_eq!(steps["items"][0]["counters"]["read"], 25);
    assert_eq!(steps["items"][0]["total_items"], 25);
    let detail = look(&app, &format!("/api/v1/executions/{id}")).await;
    assert_eq!(
        detail["parameters"],
        json!([
            { "name": "day", "value": "2026-11-15", "type": "date", "is_identifying": true },
            { "name": "limit", "value": "5", "type": "long", "is_identifying": false },
        ])
    );
    let step = &steps["items"][0]["id"];
    let context = look(&app, &format!("/api/v1/executions/{id}/steps/{step}/context")).await;
    assert_eq!(context["values"]["batch.stepType"], "chunk");
    assert_eq!(look(&app, &format!("/api/v1/executions/{id}/context")).await["values"], json!({}));
    let log = look(&app, "/api/v1/audit?action=execution.launch").await;
    assert_eq!(log["items"][0]["object"], format!("execution/{id}"));
}

#[tokio::test]
async fn what_is_complete_is_not_launched_again() {
    let app = App::closed().await;
    let day = json!({ "parameters": { "day": "2026-11-15" } });
    let first = id(&launch(&app, "double", day.clone()).await);
    wait_for(&app, first, "COMPLETED").await;

    let refused = launch(&app, "double", day.clone()).await;
    check(&refused, StatusCode::CONFLICT, "TM1004");
    let reason =
        format!("nothing to do: this instance completed on 2026-11-15T02:00:00Z (execution {first})");
    assert!(refused.json()["detail"].as_str().unwrap().ends_with(&reason), "{refused:?}");

    let executions = look(&app, "/api/v1/executions?job=double").await;
    assert_eq!(executions["items"].as_array().unwrap().len(), 1);
    let other = launch(&app, "double", json!({ "parameters": { "day": "2026-11-16" } })).await;
    assert_eq!(other.status, StatusCode::ACCEPTED);
    let instances = look(&app, "/api/v1/jobs/double/instances?limit=1").await;
    let next = instances["next"].as_i64().unwrap();
    assert_eq!(instances["items"][0]["parameters"][0]["value"], "2026-11-16");
    let older = look(&app, &format!("/api/v1/jobs/double/instances?limit=1&before={next}")).await;
    assert_eq!((&older["items"][0]["last"]["status"], &older["next"]), (&json!("COMPLETED"), &Value::Null));
}

#[tokio::test]
async fn what_is_complete_runs_again_as_a_new_instance() {
    let app = App::closed().await;
    let day = |next: bool| json!({ "parameters": { "day": "2026-11-15" }, "next": next });
    let first = id(&launch(&app, "double", day(false)).await);
    wait_for(&app, first, "COMPLETED").await;

    let second = id(&launch(&app, "double", day(true)).await);
    let third = id(&launch(&app, "double", day(true)).await);

    for (execution, number) in [(second, "1"), (third, "2")] {
        assert_eq!(wait_for(&app, execution, "COMPLETED").await["exit_code"], "COMPLETED");
        let parameters = look(&app, &format!("/api/v1/executions/{execution}")).await["parameters"].clone();
        assert_eq!((&parameters[1]["name"], &parameters[1]["value"]), (&json!("run.id"), &json!(number)));
    }
    let given = json!({ "parameters": { "day": "2026-11-15", "run.id": 7 }, "next": true });
    check(&launch(&app, "double", given).await, StatusCode::BAD_REQUEST, "TM1007");
}

#[tokio::test]
async fn without_identifying_parameters_the_second_execution_says_that_there_was_nothing_to_do() {
    let app = App::closed().await;
    let first = id(&launch(&app, "picky", json!({})).await);
    wait_for(&app, first, "COMPLETED").await;

    let message =
        format!("nothing to do: this instance completed on 2026-11-15T02:00:00Z (execution {first})");
    for _ in 0..2 {
        let noop = id(&launch(&app, "picky", json!({})).await);
        let execution = wait_for(&app, noop, "COMPLETED").await;
        assert_eq!(
            (&execution["exit_code"], &execution["exit_description"]),
            (&json!("NOOP"), &json!(message))
        );
    }
}

#[tokio::test]
async fn the_same_key_launches_once_and_answers_with_the_same_execution() {
    let app = App::closed().await;
    let bearer = format!("Bearer {}", app.token(Role::Operator).await);
    let send = async |key: &str, day: &str| {
        let headers = [("authorization", bearer.as_str()), ("idempotency-key", key)];
        let body = json!({ "parameters": { "day": day } }).to_string();
        app.ask(Method::POST, "/api/v1/jobs/double/executions", &headers, &body).await
    };

    let (first, second) = (send("k1", "2026-11-15").await, send("k1", "2026-11-15").await);

    assert_eq!((first.status, second.status), (StatusCode::ACCEPTED, StatusCode::ACCEPTED));
    assert_eq!(first.text, second.text);
    assert_eq!(first.header("location"), second.header("location"));
    wait_for(&app, id(&first), "COMPLETED").await;
    assert_eq!(send("k1", "2026-11-15").await.text, first.text);
    check(&send("k1", "2026-11-16").await, StatusCode::UNPROCESSABLE_ENTITY, "TM0507");
    check(&send("k2", "2026-11-15").await, StatusCode::CONFLICT, "TM1004");
    assert_eq!(look(&app, "/api/v1/executions").await["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_job_that_failed_is_restarted_and_goes_on() {
    let app = App::closed().await;
    let failed = id(&launch(&app, "stumble", json!({ "parameters": { "n": 1 } })).await);
    let execution = wait_for(&app, failed, "FAILED").await;
    assert!(execution["exit_description"].as_str().unwrap().contains("stumbled over 15"), "{execution}");

    let path = format!("/api/v1/executions/{failed}/restart");
    let restarted = app.ask_as(Role::Operator, Method::POST, &path, r#"{"reason":"mended"}"#).await;

    assert_eq!(restarted.status, StatusCode::ACCEPTED, "{restarted:?}");
    let done = wait_for(&app, id(&restarted), "COMPLETED").await;
    assert_eq!(done["instance"], execution["instance"]);
    let steps = look(&app, &format!("/api/v1/executions/{}/steps", id(&restarted))).await;
    assert_eq!(
        steps["items"][0]["counters"]["read"], 15,
        "the first chunk of ten is not read again: {steps}"
    );
    let log = look(&app, "/api/v1/audit?action=execution.restart").await;
    assert_eq!(log["items"][0]["reason"], "mended");
    check(&app.ask_as(Role::Operator, Method::POST, &path, "{}").await, StatusCode::CONFLICT, "TM1004");
}

#[tokio::test]
async fn a_job_that_runs_is_stopped_and_can_be_abandoned_only_then() {
    let app = App::closed().await;
    let id = id(&launch(&app, "endless", json!({ "parameters": { "n": 1 } })).await);
    wait_for(&app, id, "STARTED").await;
    let order = async |what: &str, body: &str| {
        app.ask_as(Role::Operator, Method::POST, &format!("/api/v1/executions/{id}/{what}"), body).await
    };
    check(
        &launch(&app, "endless", json!({ "parameters": { "n": 1 } })).await,
        StatusCode::CONFLICT,
        "TM1003",
    );
    check(&order("abandon", r#"{"reason":"no use"}"#).await, StatusCode::CONFLICT, "TM1009");
    check(&order("recover", r#"{"reason":"no use"}"#).await, StatusCode::CONFLICT, "TM1010");
    let owner = look(&app, &format!("/api/v1/executions/{id}")).await["owner"].clone();
    assert_eq!((&owner["name"], &owner["holds_lease"]), (&json!("node-a"), &json!(true)));

    let stopping = order("stop", r#"{"reason":"maintenance"}"#).await;

    assert_eq!((stopping.status, &stopping.json()["status"]), (StatusCode::ACCEPTED, &json!("STOPPING")));
    wait_for(&app, id, "STOPPED").await;
    let stop = look(&app, &format!("/api/v1/executions/{id}")).await["stop_request"].clone();
    assert_eq!((&stop["by"], &stop["reason"]), (&json!("the operator"), &json!("maintenance")));
    check(&order("stop", "{}").await, StatusCode::CONFLICT, "TM1008");
    let abandoned = order("abandon", r#"{"reason":"no use"}"#).await;
    assert_eq!((abandoned.status, &abandoned.json()["status"]), (StatusCode::OK, &json!("ABANDONED")));
    check(&order("restart", "{}").await, StatusCode::CONFLICT, "TM1004");
    let log = look(&app, "/api/v1/audit?action=execution.abandon").await;
    assert_eq!(
        (&log["items"][0]["actor"], &log["items"][0]["reason"]),
        (&json!("the operator"), &json!("no use"))
    );
}

#[tokio::test]
async fn what_was_left_out_can_be_read() {
    let app = App::closed().await;
    let id = id(&launch(&app, "picky", json!({})).await);
    wait_for(&app, id, "COMPLETED").await;
    let step = look(&app, &format!("/api/v1/executions/{id}/steps")).await["items"][0]["id"].clone();
    let path = format!("/api/v1/executions/{id}/steps/{step}/rejects");

    let read = async |path: &str| app.ask_as(Role::Admin, Method::GET, path, "").await.json();
    let first = read(&format!("{path}?limit=2")).await;
    let rest = read(&format!("{path}?limit=2&after={}", first["next"])).await;

    assert_eq!(first["items"][0]["item"], "3");
    assert_eq!(first["items"].as_array().unwrap().len() + rest["items"].as_array().unwrap().len(), 3);
    assert_eq!(rest["next"], Value::Null);
    check(&app.ask_as(Role::Operator, Method::GET, &path, "").await, StatusCode::FORBIDDEN, "TM0502");
    let other = format!("/api/v1/executions/{id}/steps/{}/context", step.as_i64().unwrap() + 1);
    check(&app.ask_as(Role::Viewer, Method::GET, &other, "").await, StatusCode::NOT_FOUND, "TM0508");
}

#[tokio::test]
async fn jobs_are_listed_whether_or_not_they_have_run() {
    let app = App::closed().await;
    let id = id(&launch(&app, "picky", json!({})).await);
    wait_for(&app, id, "COMPLETED").await;

    let jobs = look(&app, "/api/v1/jobs").await;

    let names: Vec<&str> =
        jobs["items"].as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["double", "endless", "picky", "stumble"]);
    assert_eq!(
        (&jobs["items"][2]["instances"], &jobs["items"][2]["last"]["execution"]),
        (&json!(1), &json!(id))
    );
    assert_eq!((&jobs["items"][0]["is_registered"], &jobs["items"][0]["last"]), (&json!(true), &Value::Null));
    let one = look(&app, "/api/v1/jobs/double").await;
    assert_eq!(one["definition"]["steps"], json!([{ "name": "double", "type": "chunk" }]));
    assert_eq!(one["definition"]["parameters"][0]["type"], "date");
}

#[tokio::test]
async fn what_is_not_there_is_told_with_what_is() {
    let app = App::closed().await;

    let unknown = launch(&app, "triple", json!({})).await;

    check(&unknown, StatusCode::NOT_FOUND, "TM1001");
    assert_eq!(unknown.json()["remedy"], "there are: double, endless, picky, stumble");
    for path in ["/api/v1/jobs/triple", "/api/v1/jobs/triple/instances"] {
        check(&app.ask_as(Role::Viewer, Method::GET, path, "").await, StatusCode::NOT_FOUND, "TM1001");
    }
    for path in ["/api/v1/executions/9", "/api/v1/executions/9/steps", "/api/v1/executions/9/context"] {
        check(&app.ask_as(Role::Viewer, Method::GET, path, "").await, StatusCode::NOT_FOUND, "TM1002");
    }
    let stop = app.ask_as(Role::Operator, Method::POST, "/api/v1/executions/9/stop", "{}").await;
    check(&stop, StatusCode::NOT_FOUND, "TM1002");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_and_launches_nothing() {
    let app = App::closed().await;
    for (body, code) in [
        (json!({ "parameters": {} }), "TM1007"),
        (json!({ "parameters": { "day": "tomorrow" } }), "TM1007"),
        (json!({ "parameters": { "day": "2026-11-15", "dya": 1 } }), "TM1007"),
        (json!({ "parameters": { "day": null } }), "TM1007"),
    ] {
        check(&launch(&app, "double", body).await, StatusCode::BAD_REQUEST, code);
    }
    for body in
        ["{}", "[]", r#" ["why"]"#, r#"{"reason":" "}"#, &json!({ "reason": "x".repeat(1001) }).to_string()]
    {
        let path = "/api/v1/executions/1/abandon";
        let refused = app.ask_as(Role::Operator, Method::POST, path, body).await;
        assert!(refused.status.is_client_error() && refused.json()["code"] == "TM0504", "{refused:?}");
    }
    for path in [
        "/api/v1/executions?status=DONE",
        "/api/v1/executions?limit=501",
        "/api/v1/executions?before=0",
        "/api/v1/executions?instance=-1",
        "/api/v1/executions?job=a%2Fb",
        "/api/v1/executions/x",
        "/api/v1/executions/99999999999999999999",
        "/api/v1/jobs/a%20b",
    ] {
        check(&app.ask_as(Role::Viewer, Method::GET, path, "").await, StatusCode::BAD_REQUEST, "TM0504");
    }
    assert_eq!(look(&app, "/api/v1/executions").await["items"], json!([]));
}

#[tokio::test]
async fn a_viewer_looks_and_only_an_operator_acts() {
    let app = App::closed().await;
    for path in [
        "/api/v1/jobs/picky/executions",
        "/api/v1/executions/1/stop",
        "/api/v1/executions/1/restart",
        "/api/v1/executions/1/abandon",
        "/api/v1/executions/1/recover",
    ] {
        for role in [Role::Viewer, Role::Worker, Role::Requester] {
            let refused = app.ask_as(role, Method::POST, path, r#"{"reason":"x"}"#).await;
            check(&refused, StatusCode::FORBIDDEN, "TM0502");
        }
    }
    assert_eq!(look(&app, "/api/v1/executions").await["items"], json!([]));
}

#[tokio::test]
async fn a_token_for_one_job_does_not_reach_another() {
    let app = App::closed().await;
    let made = r#"{"name":"picky only","role":"operator","scopes":["job/picky"]}"#;
    let created = app.ask_as(Role::Admin, Method::POST, "/api/v1/tokens", made).await.json();
    let bearer = format!("Bearer {}", created["secret"].as_str().unwrap());
    let send = async |path: &str| app.ask(Method::POST, path, &[("authorization", &bearer)], "{}").await;
    let endless = id(&launch(&app, "endless", json!({})).await);

    check(&send("/api/v1/jobs/stumble/executions").await, StatusCode::FORBIDDEN, "TM0502");
    check(&send(&format!("/api/v1/executions/{endless}/stop")).await, StatusCode::FORBIDDEN, "TM0502");
    check(&send(&format!("/api/v1/executions/{endless}/restart")).await, StatusCode::FORBIDDEN, "TM0502");

    assert_eq!(send("/api/v1/jobs/picky/executions").await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn an_execution_whose_process_died_is_recovered_by_an_operator() {
    let app = App::closed().await;
    let id = id(&launch(&app, "endless", json!({})).await);
    wait_for(&app, id, "STARTED").await;
    // No heartbeat was sent, and nobody has noticed yet.
    app.clock.advance(Duration::from_secs(16));

    let path = format!("/api/v1/executions/{id}/recover");
    let recovered = app.ask_as(Role::Operator, Method::POST, &path, r#"{"reason":"the host is gone"}"#).await;

    assert_eq!((recovered.status, &recovered.json()["status"]), (StatusCode::OK, &json!("FAILED")));
    let text = recovered.json()["exit_description"].as_str().unwrap().to_owned();
    assert!(text.contains("the operator") && text.contains("the host is gone"), "{text}");
}

//! Schedules over HTTP: looked at, paused and resumed.

use crate::App;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;
use tidemill_domain::audit::{Actor, Role};
use tidemill_domain::job::ExecutionId;
use tidemill_domain::schedule::Schedule;
use tidemill_engine::schedule::Overlap;
use tidemill_store::schedule::{DueSchedule, DueTick, Room};

/// A server whose database has a schedule with three ticks.
async fn scheduled() -> App {
    let app = App::closed().await;
    let schedule = Schedule::new("hourly", "double")
        .cron("0 * * * *")
        .window("00:00-24:00")
        .overlap(Overlap::Wait)
        .parameter("day", "${tick.date}");
    let mut tx = app.store.begin().await.unwrap();
    tx.schedules().define(&schedule, &schedule.plan().unwrap(), &Actor::system()).await.unwrap();
    for execution in 1..=3 {
        app.clock.advance(Duration::from_secs(3600));
        let taken = tx.schedules().take_due(&["double"], Room::Free).await.unwrap().unwrap();
        let DueSchedule { due: DueTick::Fires { tick, .. }, .. } = taken else { panic!("{taken:?}") };
        assert!(tx.schedules().record_tick("hourly", tick, Ok(ExecutionId::new(execution))).await.unwrap());
    }
    tx.commit().await.unwrap();
    app
}

async fn look(app: &App, path: &str) -> Value {
    let answer = app.ask_as(Role::Viewer, Method::GET, path, "").await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {answer:?}");
    answer.json()
}

#[tokio::test]
async fn a_schedule_is_listed_and_shown_with_its_ticks() {
    let app = scheduled().await;

    let listed = look(&app, "/api/v1/schedules").await;
    let shown = look(&app, "/api/v1/schedules/hourly").await;
    assert_eq!(listed["items"], json!([shown]));
    assert_eq!((&shown["job"], &shown["overlap"]), (&json!("double"), &json!("wait")));
    assert_eq!(
        (&shown["is_job_registered"], &shown["parameters"]),
        (&json!(true), &json!({ "day": "${tick.date}" }))
    );
    assert_eq!((&shown["next_at"], &shown["pause"]), (&json!("2026-11-15T06:00:00.000000Z"), &Value::Null));

    let first = look(&app, "/api/v1/schedules/hourly/ticks?limit=2").await;
    let next = first["next"].as_str().unwrap();
    let rest = look(&app, &format!("/api/v1/schedules/hourly/ticks?limit=2&before={next}")).await;
    assert_eq!(first["items"][0]["execution"], 3);
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next"]), (1, &Value::Null));
    assert_eq!((&rest["items"][0]["outcome"], &rest["items"][0]["execution"]), (&json!("fired"), &json!(1)));
    let bad = app.ask_as(Role::Viewer, Method::GET, "/api/v1/schedules/hourly/ticks?before=soon", "").await;
    assert_eq!(bad.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_pause_needs_a_reason_and_the_permission_and_is_done_once_per_key() {
    let app = scheduled().await;
    let pause = "/api/v1/schedules/hourly/pause";
    let body = json!({ "reason": "the source moves" }).to_string();

    let viewer = app.ask_as(Role::Viewer, Method::POST, pause, &body).await;
    let mute = app.ask_as(Role::Operator, Method::POST, pause, r#"{"reason": " "}"#).await;
    let unknown = app.ask_as(Role::Operator, Method::POST, "/api/v1/schedules/none/pause", &body).await;
    assert_eq!(viewer.status, StatusCode::FORBIDDEN);
    assert_eq!(mute.status, StatusCode::BAD_REQUEST);
    assert_eq!((unknown.status, &unknown.json()["code"]), (StatusCode::NOT_FOUND, &json!("TM1024")));

    let bearer = format!("Bearer {}", app.token(Role::Operator).await);
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", "k1")];
    let paused = app.ask(Method::POST, pause, &headers, &body).await;
    app.clock.advance(Duration::from_secs(60));
    let resumed = app.ask_as(Role::Operator, Method::POST, "/api/v1/schedules/hourly/resume", "{}").await;
    let repeated = app.ask(Method::POST, pause, &headers, &body).await;

    assert_eq!(paused.status, StatusCode::OK, "{paused:?}");
    assert_eq!(paused.json()["pause"]["by"], "the operator");
    assert_eq!(paused.json()["pause"]["reason"], "the source moves");
    assert_eq!((resumed.status, &resumed.json()["pause"]), (StatusCode::OK, &Value::Null));
    assert_eq!(repeated.json(), paused.json(), "the same answer for the same key");
    assert_eq!(look(&app, "/api/v1/schedules/hourly").await["pause"], Value::Null, "and no second effect");
    let audit = look(&app, "/api/v1/audit").await.to_string();
    assert!(audit.contains("schedule.pause") && audit.contains("schedule.resume"), "{audit}");
}

#[tokio::test]
async fn whoever_is_limited_to_other_jobs_may_not_pause() {
    let app = scheduled().await;
    let made = r#"{"name":"picky only","role":"operator","scopes":["job/picky"]}"#;
    let made = app.ask_as(Role::Admin, Method::POST, "/api/v1/tokens", made).await;
    let bearer = format!("Bearer {}", made.json()["secret"].as_str().unwrap());

    let body = json!({ "reason": "x" }).to_string();
    let refused =
        app.ask(Method::POST, "/api/v1/schedules/hourly/pause", &[("authorization", &bearer)], &body).await;

    assert_eq!((refused.status, &refused.json()["code"]), (StatusCode::FORBIDDEN, &json!("TM0502")));
    assert_eq!(look(&app, "/api/v1/schedules/hourly").await["pause"], Value::Null);
}

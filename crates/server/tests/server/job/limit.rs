//! A server that runs as many executions as it may.

use super::{check, id, launch, look, wait_for};
use crate::{App, RUNNING_MAX};
use axum::http::{Method, StatusCode};
use serde_json::json;
use std::time::Duration;
use tidemill_domain::audit::Role;

async fn stop(app: &App, id: i64) {
    let path = format!("/api/v1/executions/{id}/stop");
    app.ask_as(Role::Operator, Method::POST, &path, "{}").await;
    wait_for(app, id, "STOPPED").await;
}

#[tokio::test]
async fn a_launch_beyond_the_limit_is_refused_for_a_while_and_leaves_nothing_behind() {
    let app = App::closed().await;
    let bearer = format!("Bearer {}", app.token(Role::Operator).await);
    let one_more = async || {
        let headers = [("authorization", bearer.as_str()), ("idempotency-key", "one more")];
        app.ask(Method::POST, "/api/v1/jobs/endless/executions", &headers, r#"{"parameters":{"n":0}}"#).await
    };
    let mut running = Vec::new();
    for n in 1..=RUNNING_MAX {
        running.push(id(&launch(&app, "endless", json!({ "parameters": { "n": n } })).await));
    }

    let refused = one_more().await;

    check(&refused, StatusCode::SERVICE_UNAVAILABLE, "TM1018");
    assert_eq!(refused.header("retry-after"), "10");
    let listed = look(&app, "/api/v1/executions").await["items"].as_array().unwrap().len();
    assert_eq!(listed, RUNNING_MAX);
    stop(&app, running[0]).await;
    // It is recorded as stopped a moment before its task has ended.
    let mut accepted = one_more().await;
    for _ in 0..24_000 {
        if accepted.status != StatusCode::SERVICE_UNAVAILABLE {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        accepted = one_more().await;
    }
    assert_eq!(accepted.status, StatusCode::ACCEPTED, "the key was not used up: {accepted:?}");
    stop(&app, id(&accepted)).await;
}

#[tokio::test]
async fn a_restart_beyond_the_limit_is_refused_as_a_launch_is() {
    let app = App::closed().await;
    let stopped = id(&launch(&app, "endless", json!({ "parameters": { "n": 0 } })).await);
    wait_for(&app, stopped, "STARTED").await;
    stop(&app, stopped).await;
    let mut running = 0;
    for n in 1.. {
        let answer = launch(&app, "endless", json!({ "parameters": { "n": n } })).await;
        if answer.status == StatusCode::ACCEPTED {
            running += 1;
        }
        if running == RUNNING_MAX {
            break;
        }
        assert!(n < 2000, "{answer:?}");
    }

    let path = format!("/api/v1/executions/{stopped}/restart");
    let refused = app.ask_as(Role::Operator, Method::POST, &path, "{}").await;

    check(&refused, StatusCode::SERVICE_UNAVAILABLE, "TM1018");
}

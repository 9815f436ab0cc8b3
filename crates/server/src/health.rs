//! Health and metrics: for load balancers, supervisors and Prometheus.

use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::State as Given;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use tidemill_domain::code::Code;
use tidemill_store::Init;

/// The process runs. Nothing else is asked, so a database that is away does not get the process killed.
pub(crate) async fn live() -> Json<Value> {
    Json(json!({ "status": "live" }))
}

/// The process can do its work: the database answers, its schema fits, and nobody has asked us to stop.
pub(crate) async fn ready(Given(state): Given<State>) -> Result<Json<Value>, Problem> {
    if state.inner().is_draining.load(Ordering::Relaxed) {
        return Err(Problem::with_status(
            axum::http::StatusCode::SERVICE_UNAVAILABLE,
            Code::DatabaseUnreachable,
            "the server is shutting down",
            "send the request to another server",
        ));
    }
    state.store().initialise(Init::Never).await?;
    Ok(Json(json!({ "status": "ready" })))
}

/// The process has started: by the time it listens, it has.
pub(crate) async fn startup() -> Json<Value> {
    Json(json!({ "status": "started" }))
}

/// The keys that supervisors of render workers know. What is not there yet is null, not zero.
pub(crate) async fn worker(Given(state): Given<State>) -> Json<Value> {
    let inner = state.inner();
    let uptime = inner.parts.clock.monotonic().since(inner.started);
    Json(json!({
        "status": if inner.is_draining.load(Ordering::Relaxed) { "stopping" } else { "ok" },
        "worker_id": inner.parts.process.id().to_string(),
        "uptime_seconds": uptime.as_secs(),
        "current_job_id": Value::Null,
        "last_poll": Value::Null,
        "job_count_completed": 0,
    }))
}

/// What was counted, as Prometheus reads it.
pub(crate) async fn metrics(Given(state): Given<State>) -> Response {
    let text = state.inner().parts.metrics.as_ref().map(|handle| handle.render()).unwrap_or_default();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

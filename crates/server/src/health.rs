//! Health and metrics: for load balancers, supervisors and Prometheus.

use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::State as Given;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_engine::render::WorkerHandle;
use tidemill_engine::render::health::{Checked, Health, InFlight};
use tidemill_store::Init;

/// The process runs. Nothing else is asked, so a database that is away does not get the process killed.
pub(crate) async fn live() -> Json<Value> {
    Json(json!({ "status": "live" }))
}

/// The process can do its work: the database answers, its schema fits, and nobody has asked us to stop.
pub(crate) async fn ready(Given(state): Given<State>) -> Result<Json<Value>, Problem> {
    if state.inner().is_draining.load(Ordering::Relaxed) {
        return Err(Problem::with_status(
            StatusCode::SERVICE_UNAVAILABLE,
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

/// The keys that supervisors of render workers know, and how the worker of this process is. What is not there is null,
/// not zero. Everybody may ask, so what is wrong is told by its code alone; a worker that is not well answers 503.
pub(crate) async fn worker(Given(state): Given<State>) -> Response {
    let inner = state.inner();
    let is_draining = inner.is_draining.load(Ordering::Relaxed);
    let uptime = inner.parts.clock.monotonic().since(inner.started);
    let health = inner.parts.render.worker.as_ref().map(WorkerHandle::health);
    let is_well = health.as_ref().is_none_or(Health::is_healthy);
    let word = match (is_draining, &health, is_well) {
        (true, ..) => "stopping",
        (false, None, _) => "ok",
        (false, Some(_), true) => "healthy",
        (false, Some(_), false) => "unhealthy",
    };
    let name = health.as_ref().map(|health| health.worker.clone());
    let last_poll = health.as_ref().and_then(|health| health.last_poll_age);
    let body = json!({
        "status": word,
        "worker_id": name.unwrap_or_else(|| inner.parts.process.id().to_string()),
        "uptime_seconds": uptime.as_secs(),
        "current_job_id": health.as_ref().and_then(|health| health.in_flight.first()).map(|one| one.id.get()),
        "last_poll": last_poll.map(|age| inner.parts.clock.now().minus(age).to_string()),
        "job_count_completed": health.as_ref().map_or(0, |health| health.completed),
        "render": health.as_ref().map(render),
    });
    let status = if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(body)).into_response()
}

/// How a render worker is.
fn render(health: &Health) -> Value {
    let seconds = |age: Option<Duration>| age.map(|age| age.as_secs());
    let part = |checked: &Checked| {
        let code = checked.trouble.as_ref().map(|trouble| trouble.code.to_string());
        json!({ "seen_seconds_ago": seconds(checked.age), "error_code": code })
    };
    let job = |one: &InFlight| json!({ "id": one.id.get(), "phase": one.phase.as_str() });
    json!({
        "paused_by": health.paused.as_ref().map(|paused| paused.code.to_string()),
        "database_seconds_ago": seconds(health.database_age),
        "leases_seconds_ago": seconds(health.lease_loop_age),
        "nexrender": part(&health.farm),
        "nas": part(&health.shelf),
        "ffprobe": part(&health.inspector),
        "capacity": health.capacity,
        "busy": health.busy,
        "in_flight": health.in_flight.iter().map(job).collect::<Vec<_>>(),
        "job_count_failed": health.failed,
    })
}

/// What was counted, as Prometheus reads it.
pub(crate) async fn metrics(Given(state): Given<State>) -> Response {
    let text = state.inner().parts.metrics.as_ref().map(|handle| handle.render()).unwrap_or_default();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

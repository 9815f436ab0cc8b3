//! Health checks and metrics for load balancers, supervisors and Prometheus. [`WorkerHealth`] serves them for a render
//! worker without a server.

use crate::ServerError;
use crate::connection;
use crate::problem::Problem;
use crate::state::State;
use axum::extract::State as Given;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tidemill_domain::process::ProcessId;
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_engine::render::Worker;
use tidemill_engine::render::health::{Checked, Health, InFlight};
use tidemill_store::Init;
use tokio::net::TcpListener;

/// Paths that are answered even when all places for connections are taken.
pub(crate) const PATHS: [&str; 4] = ["/healthz/live", "/healthz/ready", "/healthz/startup", "/health"];

/// Whether `path` is one of [`PATHS`] below `base_path`.
pub(crate) fn is_health_check(base_path: &str, path: &str) -> bool {
    path.strip_prefix(base_path).is_some_and(|path| PATHS.contains(&path))
}

/// The process runs. The database is not checked, so that an outage does not make supervisors kill the process.
pub(crate) async fn live() -> Json<Value> {
    Json(json!({ "status": "live" }))
}

/// The database answers, its schema fits, and the server is not shutting down.
pub(crate) async fn ready(Given(state): Given<State>) -> Result<Json<Value>, Problem> {
    if state.inner().is_draining.load(Ordering::Relaxed) {
        return Err(Problem::shutting_down());
    }
    state.store().initialise(Init::Never).await?;
    Ok(Json(json!({ "status": "ready" })))
}

/// Always true: a process that listens has started.
pub(crate) async fn startup() -> Json<Value> {
    Json(json!({ "status": "started" }))
}

/// The health of the render worker, under the keys that supervisors of render workers expect. Unknown values are null. The
/// path is public, so errors are codes only. An unhealthy worker gets status 503.
pub(crate) async fn worker(Given(state): Given<State>) -> Response {
    let inner = state.inner();
    let health = inner.parts.render.worker.as_ref().map(Worker::health);
    let is_draining = inner.is_draining.load(Ordering::Relaxed);
    respond(health, is_draining, inner.parts.process.id(), inner.parts.clock.as_ref(), inner.started)
}

fn respond(
    health: Option<Health>,
    is_draining: bool,
    process: ProcessId,
    clock: &dyn Clock,
    started: Monotonic,
) -> Response {
    let uptime = clock.monotonic().since(started);
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
        "worker_id": name.unwrap_or_else(|| process.to_string()),
        "process_id": process.to_string(),
        "uptime_seconds": uptime.as_secs(),
        "current_job_id": health.as_ref().and_then(|health| health.in_flight.first()).map(|one| one.id.get()),
        "last_poll": last_poll.map(|age| clock.now().minus(age).to_string()),
        "job_count_completed": health.as_ref().map_or(0, |health| health.completed),
        "render": health.as_ref().map(render),
    });
    let status = if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(body)).into_response()
}

/// The health of a render worker without a server. Needs no authentication.
#[derive(Clone, Debug)]
pub struct WorkerHealth {
    pub worker: Worker,
    pub process: ProcessId,
    pub clock: Arc<dyn Clock>,
    pub started: Monotonic,
    /// None keeps the metrics private.
    pub metrics: Option<PrometheusHandle>,
}

impl WorkerHealth {
    pub async fn listen(address: SocketAddr) -> Result<TcpListener, ServerError> {
        let failed = |source| ServerError::CannotListen { address, source };
        TcpListener::bind(address).await.map_err(failed)
    }

    /// Serves `/health`, `/healthz/live` and perhaps `/metrics`, for as long as it is polled.
    pub async fn answer(self, listener: TcpListener) {
        let health = async |Given(of): Given<Self>| {
            let health = of.worker.health();
            let is_stopping = health.is_stopping;
            respond(Some(health), is_stopping, of.process, of.clock.as_ref(), of.started)
        };
        let mut routes = Router::new().route("/health", get(health)).route("/healthz/live", get(live));
        if let Some(metrics) = self.metrics.clone() {
            routes = routes.route("/metrics", get(async move || exposed(metrics.render())));
        }
        let routes = routes.with_state(self);
        let bounds = connection::bounds_of_this_process(None);
        connection::serve(listener, routes, "", bounds, std::future::pending()).await;
    }
}

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
        "nas": part(&health.storage),
        "ffprobe": part(&health.inspector),
        "capacity": health.capacity,
        "busy": health.busy,
        "in_flight": health.in_flight.iter().map(job).collect::<Vec<_>>(),
        "job_count_failed": health.failed,
    })
}

pub(crate) async fn metrics(Given(state): Given<State>) -> Response {
    exposed(state.inner().parts.metrics.as_ref().map(PrometheusHandle::render).unwrap_or_default())
}

fn exposed(text: String) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::routes;

    #[test]
    fn every_route_about_health_is_answered_though_places_are_scarce() {
        let table = routes();
        let mut routed: Vec<&str> =
            table.iter().map(|route| route.path).filter(|path| path.starts_with("/health")).collect();
        routed.sort_unstable();
        let mut paths = PATHS;
        paths.sort_unstable();

        assert_eq!(routed, paths);
        assert!(is_health_check("", "/healthz/live") && is_health_check("/base", "/base/health"));
        assert!(
            !is_health_check("/base", "/health")
                && !is_health_check("", "/healthz/live/")
                && !is_health_check("", "/metrics")
        );
    }
}

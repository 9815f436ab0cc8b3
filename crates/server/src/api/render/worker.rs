//! The workers that render, wherever they run.

use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::State as Given;
use serde::Serialize;
use tidemill_engine::render::gauge::WORKER_SEEN_WITHIN;
use tidemill_store::render::{WorkerRecord, WorkerState};
use utoipa::ToSchema;

/// A worker.
#[derive(Debug, Serialize, ToSchema)]
pub struct RenderWorker {
    /// What it calls itself.
    name: String,
    /// Its process.
    process: String,
    /// `working`, `paused` or `draining`.
    state: String,
    /// How many renders it has.
    in_flight: u32,
    /// How many it can have.
    capacity: u32,
    /// When it was last heard of.
    seen_at: String,
}

/// The workers.
#[derive(Debug, Serialize, ToSchema)]
pub struct RenderWorkers {
    /// By name.
    items: Vec<RenderWorker>,
}

impl From<WorkerRecord> for RenderWorker {
    fn from(record: WorkerRecord) -> Self {
        Self {
            name: record.name,
            process: record.process.to_string(),
            state: WorkerState::as_str(record.state).to_owned(),
            in_flight: record.in_flight,
            capacity: record.capacity,
            seen_at: record.seen_at.to_string(),
        }
    }
}

/// The workers that were heard of within a minute.
#[utoipa::path(get, path = "/api/v1/render-workers", responses((status = 200, body = RenderWorkers)))]
pub(crate) async fn list(Given(state): Given<State>) -> Result<Json<RenderWorkers>, Problem> {
    let mut tx = state.read().await?;
    let workers = tx.renders().workers(WORKER_SEEN_WITHIN).await?;
    Ok(Json(RenderWorkers { items: workers.into_iter().map(RenderWorker::from).collect() }))
}

//! Processes.

use crate::api::{QueryString, limit};
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::State as Given;
use serde::{Deserialize, Serialize};
use tidemill_domain::time::Timestamp;
use tidemill_store::process::ProcessRecord;
use utoipa::{IntoParams, ToSchema};

/// What to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListProcesses {
    /// At most so many; 50 when not given, 500 at most.
    limit: Option<u32>,
}

/// A process.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Process {
    /// Its id.
    id: String,
    /// What people call it.
    name: String,
    /// Where it runs.
    host: String,
    /// Its number there.
    pid: u32,
    /// Version of its program.
    version: String,
    /// `live`, `silent`, `stopped` or `dead`.
    state: String,
    /// When it registered.
    started_at: String,
    /// When it last said that it is alive.
    heartbeat_at: String,
}

/// A list of processes.
#[derive(Debug, Serialize, ToSchema)]
pub struct Processes {
    /// The living first.
    items: Vec<Process>,
}

impl Process {
    fn of(record: &ProcessRecord, now: Timestamp) -> Self {
        Self {
            id: record.id.to_string(),
            name: record.identity.name.clone(),
            host: record.identity.host.clone(),
            pid: record.identity.pid,
            version: record.identity.version.clone(),
            state: record.state.word(now).to_owned(),
            started_at: record.started_at.to_string(),
            heartbeat_at: record.heartbeat_at.to_string(),
        }
    }
}

/// The processes that use this database.
#[utoipa::path(get, path = "/api/v1/processes", params(ListProcesses), responses((status = 200, body = Processes)))]
pub(crate) async fn list(
    Given(state): Given<State>,
    QueryString(asked): QueryString<ListProcesses>,
) -> Result<Json<Processes>, Problem> {
    let mut tx = state.read().await?;
    let now = tx.now().await?;
    let records = tx.processes().list(limit(asked.limit)?).await?;
    Ok(Json(Processes { items: records.iter().map(|record| Process::of(record, now)).collect() }))
}

//! What was decided about a pool, as sentences.

use super::{find, named};
use crate::api::{Asked, limit};
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use serde::{Deserialize, Serialize};
use tidemill_domain::pool::story::story;
use utoipa::{IntoParams, ToSchema};

/// Of so many of the last decisions for each that is asked for, those are told that somebody wants to read.
const DECISIONS_PER_EVENT: u32 = 10;

/// What to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct ListPoolEvents {
    /// At most so many; 50 when not given, 500 at most.
    limit: Option<u32>,
}

/// Something that was decided.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PoolEvent {
    /// When.
    at: String,
    /// What, in a sentence.
    message: String,
    /// The lease that it is about.
    lease: Option<String>,
}

/// A list of events.
#[derive(Debug, Serialize, ToSchema)]
pub struct PoolEvents {
    /// The newest first.
    items: Vec<PoolEvent>,
}

/// What was last decided about a pool: downgrades, waits, limits and leases that ended otherwise than by their holders.
#[utoipa::path(get, path = "/api/v1/pools/{name}/events", params(("name" = String, Path, description = "Its name"), ListPoolEvents), responses((status = 200, body = PoolEvents), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn list(
    Given(state): Given<State>,
    Path(name): Path<String>,
    Asked(asked): Asked<ListPoolEvents>,
) -> Result<Json<PoolEvents>, Problem> {
    let (name, limit) = (named(&name)?, limit(asked.limit)?);
    let mut tx = state.store().read().await?;
    find(&mut tx, &name).await?;
    let stories = tx.pool_stories(Some(&name), limit.saturating_mul(DECISIONS_PER_EVENT)).await?;
    tx.rollback().await?;
    let told = stories.iter().filter_map(|known| {
        let record = &known.record;
        let message = story(record.at, &record.event, known.ticket.as_ref())?;
        let lease = record.event.ticket().map(|ticket| ticket.to_string());
        Some(PoolEvent { at: record.at.to_string(), message, lease })
    });
    Ok(Json(PoolEvents { items: told.take(limit as usize).collect() }))
}

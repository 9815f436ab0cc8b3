//! What was decided about a pool, as sentences.

use super::{find, named};
use crate::api::{QueryString, limit};
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// What to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
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
    QueryString(asked): QueryString<ListPoolEvents>,
) -> Result<Json<PoolEvents>, Problem> {
    let (name, limit) = (named(&name)?, limit(asked.limit)?);
    let mut tx = state.read().await?;
    find(&mut tx, &name).await?;
    let stories = tx.pools().events(Some(&name), limit).await?;
    let told = stories.into_iter().map(|story| PoolEvent {
        at: story.at.to_string(),
        message: story.text,
        lease: story.ticket.map(|ticket| ticket.to_string()),
    });
    Ok(Json(PoolEvents { items: told.collect() }))
}

//! Leases of units: looking at them, saying that their holder is alive, and giving them back.

use super::ticket::PoolLease;
use super::{call_of, gone, object};
use crate::access::Principal;
use crate::api::{Body, QueryString};
use crate::operate::{ActionRequest, Outcome};
use crate::problem::Problem;
use crate::state::State;
use axum::extract::{Path, State as Given};
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidemill_domain::lease::Epoch;
use tidemill_domain::pool::command::{Answer, Release, Released};
use tidemill_domain::pool::state::State as TicketState;
use tidemill_domain::pool::{End, PoolName, ReleaseBy, TicketId};
use tidemill_store::Tx;
use tidemill_store::pool::TicketRecord;
use utoipa::{IntoParams, ToSchema};

/// Which attempt of the holder speaks.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Beat {
    /// As it was told with the lease.
    epoch: i64,
}

/// How a lease is given back.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct GiveBack {
    /// As it was told with the lease. An older attempt gives nothing back.
    epoch: i64,
    /// Whether the work failed; false when not given.
    failed: Option<bool>,
}

/// What came back.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReleasedLease {
    /// Whether there was anything.
    released: bool,
    /// The units that came back.
    units: u64,
    /// Whether it was still in the queue.
    cancelled_waiting: bool,
    /// The units of the pool that are in use now.
    usage: u64,
}

impl From<&Released> for ReleasedLease {
    fn from(released: &Released) -> Self {
        Self {
            released: released.released,
            units: released.units,
            cancelled_waiting: released.cancelled_waiting,
            usage: released.level.usage,
        }
    }
}

/// One lease, or one place in a queue.
#[utoipa::path(get, path = "/api/v1/pool-leases/{id}", params(("id" = String, Path, description = "Its id")), responses((status = 200, body = PoolLease), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn show(
    Given(state): Given<State>,
    Path(id): Path<String>,
) -> Result<Json<PoolLease>, Problem> {
    Ok(Json(PoolLease::from(&find(&state, lease_id(&id)?).await?)))
}

/// Says that the holder is alive.
#[utoipa::path(post, path = "/api/v1/pool-leases/{id}/heartbeat", params(("id" = String, Path, description = "Its id")), request_body = Beat, responses((status = 200), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn heartbeat(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    Body(body): Body<Beat>,
) -> Result<Json<serde_json::Value>, Problem> {
    let id = lease_id(&id)?;
    let pool = usable(&principal, find(&state, id).await?)?;
    match state.pools().heartbeat(&pool, id, Epoch::new(body.epoch)).await? {
        true => Ok(Json(json!({ "alive": true }))),
        false => Err(gone()),
    }
}

/// Gives units back, or leaves the queue.
#[utoipa::path(delete, path = "/api/v1/pool-leases/{id}", params(("id" = String, Path, description = "Its id"), GiveBack), responses((status = 200, body = ReleasedLease), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn give_back(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    Path(id): Path<String>,
    QueryString(asked): QueryString<GiveBack>,
) -> Result<Json<ReleasedLease>, Problem> {
    let id = lease_id(&id)?;
    let release = Release {
        pool: usable(&principal, find(&state, id).await?)?,
        by: ReleaseBy::Ticket(id),
        epoch: Some(Epoch::new(asked.epoch)),
        end: End::Released { failed: asked.failed.unwrap_or(false) },
        call: call_of(&principal, &headers)?,
    };
    match state.pools().release(release).await? {
        Answer::Released(released) => Ok(Json(ReleasedLease::from(&released))),
        _ => Err(gone()),
    }
}

/// Takes a lease away, or a request out of the queue.
pub(crate) async fn release(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let id = lease_id(request.object())?;
    let found = tx.pools().ticket(id).await?.ok_or_else(|| gone().as_missing())?;
    usable(&request.caller.principal, found)?;
    match tx.pools().release_ticket(id, &request.actor(), request.required_reason()).await? {
        Some((_, released)) => Ok((StatusCode::OK, json!(ReleasedLease::from(&released)))),
        None => Err(gone()),
    }
}

/// An id of the path.
pub(crate) fn lease_id(text: &str) -> Result<TicketId, Problem> {
    text.parse().map_err(|_| gone().as_missing())
}

async fn find(state: &State, id: TicketId) -> Result<TicketRecord, Problem> {
    let mut tx = state.read().await?;
    let found = tx.pools().ticket(id).await?;
    found.ok_or_else(|| gone().as_missing())
}

/// The pool of a lease, if the caller may use it, and the other pools whose queues it would leave with this one.
fn usable(principal: &Principal, lease: TicketRecord) -> Result<PoolName, Problem> {
    let TicketRecord { pool, ticket, .. } = lease;
    principal.check_scope(&object(&pool))?;
    if ticket.state == TicketState::Waiting {
        for other in &ticket.with {
            principal.check_scope(&object(other))?;
        }
    }
    Ok(pool)
}

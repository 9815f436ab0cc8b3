//! Leases of units: show them, keep them alive, release them.

use super::{call_of, failed, gone, object};
use crate::access::Principal;
use crate::api::{Body, QueryString, Read};
use crate::mutation::Caller;
use crate::operate::{ActionRequest, Outcome};
use crate::problem::Problem;
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use serde_json::json;
use tidemill_api::pool::{PoolLease, ReleaseLease, ReleasedLease, SendHeartbeat};
use tidemill_domain::lease::Epoch;
use tidemill_domain::pool::command::{Answer, Release};
use tidemill_domain::pool::state::State as TicketState;
use tidemill_domain::pool::{PoolName, ReleaseBy, ReleaseOutcome, TicketId};
use tidemill_domain::words::UnknownWord;
use tidemill_store::Tx;
use tidemill_store::pool::TicketRecord;

/// Shows a lease or a waiting request.
#[utoipa::path(get, path = "/api/v1/pool-leases/{id}", operation_id = "get_pool_lease", params(("id" = String, Path, description = "Id of the lease")), responses((status = 200, body = PoolLease)))]
pub(crate) async fn show(Path(id): Path<String>, Read(mut tx): Read) -> Result<Json<PoolLease>, Problem> {
    Ok(Json(PoolLease::from(&find(&mut tx, &id).await?)))
}

/// Sends a heartbeat.
#[utoipa::path(post, path = "/api/v1/pool-leases/{id}/heartbeat", operation_id = "send_heartbeat", params(("id" = String, Path, description = "Id of the lease")), request_body = SendHeartbeat, responses((status = 200)))]
pub(crate) async fn heartbeat(
    Caller { state, principal, .. }: Caller,
    Path(id): Path<String>,
    Body(body): Body<SendHeartbeat>,
) -> Result<Json<serde_json::Value>, Problem> {
    let record = find(&mut state.read().await?, &id).await?;
    let pool = usable_pool(&principal, &record)?;
    match state.pools().heartbeat(pool, record.ticket.id, Epoch::new(body.epoch)).await? {
        true => Ok(Json(json!({ "alive": true }))),
        false => Err(gone()),
    }
}

/// Releases a lease, or takes a request out of the queue.
#[utoipa::path(delete, path = "/api/v1/pool-leases/{id}", operation_id = "release_pool_lease", params(("id" = String, Path, description = "Id of the lease"), ReleaseLease), responses((status = 200, body = ReleasedLease)))]
pub(crate) async fn release(
    caller: Caller,
    Path(id): Path<String>,
    QueryString(query): QueryString<ReleaseLease>,
) -> Result<Json<ReleasedLease>, Problem> {
    let record = find(&mut caller.state.read().await?, &id).await?;
    let what = format!("DELETE /api/v1/pool-leases/{id}");
    let release = Release {
        pool: usable_pool(&caller.principal, &record)?.clone(),
        by: ReleaseBy::Ticket(record.ticket.id),
        epoch: Some(Epoch::new(query.epoch)),
        end: outcome(&query)?.end(query.error.as_deref()),
        call: call_of(&caller, &what, json!([query.epoch, query.failed, query.outcome, query.error]))?,
    };
    match caller.state.pools().release(release).await? {
        Answer::Released(released) => Ok(Json(ReleasedLease::from(&released))),
        answer => Err(failed(&answer)),
    }
}

/// Without an outcome, `failed` counts.
fn outcome(query: &ReleaseLease) -> Result<ReleaseOutcome, Problem> {
    let bad = |bad: UnknownWord| Problem::bad_request(bad.to_string(), "send one of these, or leave it out");
    match &query.outcome {
        Some(outcome) => outcome.parse().map_err(bad),
        None if query.failed == Some(true) => Ok(ReleaseOutcome::Failed),
        None => Ok(ReleaseOutcome::Completed),
    }
}

/// Releases the lease of another holder, or takes its request out of the queue.
pub(crate) async fn perform(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let record = find(tx, request.object()).await?;
    usable_pool(&request.caller.principal, &record)?;
    let (id, actor) = (record.ticket.id, request.actor());
    match tx.pools().release_ticket(id, &actor, request.required_reason()).await? {
        Some((_, released)) => Ok((StatusCode::OK, json!(ReleasedLease::from(&released)))),
        None => Err(gone()),
    }
}

/// The lease or request with the id in a path, also if it has ended.
pub(crate) async fn find(tx: &mut Tx, id: &str) -> Result<TicketRecord, Problem> {
    let missing = || gone().as_missing();
    let id: TicketId = id.parse().map_err(|_| missing())?;
    tx.pools().ticket(id).await?.ok_or_else(missing)
}

/// The pool of a lease, if the caller may use it. A waiting request leaves the queues of all its pools at once, so the
/// caller must be allowed to use all of them.
fn usable_pool<'a>(principal: &Principal, lease: &'a TicketRecord) -> Result<&'a PoolName, Problem> {
    principal.check_scope(&object(&lease.pool))?;
    if lease.ticket.state == TicketState::Waiting {
        for other in &lease.ticket.with {
            principal.check_scope(&object(other))?;
        }
    }
    Ok(&lease.pool)
}

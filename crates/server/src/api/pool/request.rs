//! Requests for units of one pool, or of several pools: then all of them or none.

use super::emr_agent::lease_for;
use super::{call_of, failed, find, gone, lease, named, object, unknown, wait_for_units};
use crate::api::{self, Body, List, QueryString};
use crate::mutation::Caller;
use crate::problem::Problem;
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use serde_json::json;
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_api::Page;
use tidemill_api::pool::{
    CancelRequest, CancelledRequest, GrantedLease, HintWarning, PoolLease, PoolRequest, RequestPool,
    RequestUnits,
};
use tidemill_domain::code::Code;
use tidemill_domain::lease::Epoch;
use tidemill_domain::pool::command::{Admitted, Answer, Release};
use tidemill_domain::pool::{Class, End, Holder, PoolName, Reason, ReleaseBy, UnitRequest};
use tidemill_engine::pool::{AcquirePart, AcquireRequest};
use tidemill_store::pool::TicketRecord;

/// Maximum time to wait for units before answering, in seconds: clients time out after 60.
pub(super) const WAIT_SECONDS_MAX: u32 = 50;
const POOLS_MAX: usize = 16;
pub(super) const HINT_CHARS_MAX: usize = 4000;
/// Maximum number of tickets of one run that are searched for those of a request.
const TICKETS_MAX: u32 = 10_000;

/// Requests units. A request that waits keeps its place if the same holder repeats it in time.
#[utoipa::path(post, path = "/api/v1/requests", operation_id = "request_units", request_body = RequestUnits, responses((status = 200, body = PoolRequest, description = "The units are granted"), (status = 202, body = PoolRequest, description = "The request waits in the queue")))]
pub(crate) async fn create(
    caller: Caller,
    Body(body): Body<RequestUnits>,
) -> Result<(StatusCode, Json<PoolRequest>), Problem> {
    let wait = body.wait_seconds.unwrap_or(0);
    if wait > WAIT_SECONDS_MAX {
        return Err(bad("wait_seconds", "it is more than 50"));
    }
    let (parts, hints) = parts(&caller, &body).await?;
    let warnings = UnitRequest::warnings_of(hints.iter().map(|(_, request)| request));
    let warnings: Vec<HintWarning> = warnings.map(HintWarning::from).collect();
    let holder = &body.holder;
    let ask = AcquireRequest {
        parts,
        holder: Holder::new(&holder.dag_id, &holder.run_id, &holder.task, holder.map_index)
            .map_err(|error| bad("holder", error.to_string()))?,
        class: match &body.class {
            Some(class) => class.parse().map_err(|_| bad("class", "it is none of critical, normal, bulk"))?,
            None => Class::default(),
        },
        table: text("table", body.table.as_deref(), tidemill_domain::pool::holder::LONGEST_NAME)?,
        hint: body.hint.clone(),
        lease_for: match body.heartbeat_seconds {
            Some(0) => return Err(bad("heartbeat_seconds", "it is zero")),
            seconds => seconds.map(lease_for),
        },
        deadline: match &body.deadline {
            Some(text) => Some(
                text.parse().map_err(|_| bad("deadline", "it is not a time such as 2026-11-15T06:00:00Z"))?,
            ),
            None => None,
        },
        call: call_of(&caller, "POST /api/v1/requests", json!(body))?,
    };
    match wait_for_units(&caller.state, &ask, Duration::from_secs(wait.into())).await? {
        Answer::Admitted { parts, is_duplicate } => {
            let hint = |part: &Admitted| {
                let (_, request) = hints.iter().find(|(pool, _)| *pool == part.pool)?;
                request.hint_override(part.ticket.granted?).ok().flatten()
            };
            let request = PoolRequest {
                id: parts.first().map(|part| part.ticket.id.to_string()).unwrap_or_default(),
                state: "running",
                leases: parts.iter().map(|part| GrantedLease::from((part, hint(part)))).collect(),
                duplicate: is_duplicate,
                waits: None,
                warnings,
            };
            Ok((StatusCode::OK, Json(request)))
        }
        Answer::Waits(waits) => {
            let request = PoolRequest {
                id: waits.tickets.first().map(|(_, ticket)| ticket.to_string()).unwrap_or_default(),
                state: "waiting",
                leases: Vec::new(),
                duplicate: false,
                waits: Some((&*waits).into()),
                warnings,
            };
            Ok((StatusCode::ACCEPTED, Json(request)))
        }
        Answer::Refused { pool, reason: Reason::UnknownPool } => Err(unknown(pool.as_str())),
        Answer::Refused { pool, reason } => {
            let texts: Vec<&str> = warnings.iter().map(|warning| warning.text).collect();
            let detail = format!("pool {pool}: {}", [&[reason.sentence()], &*texts].concat().join("; "));
            Err(Problem::new(Code::RequestExceedsPool, detail, "request less, or accept less with `min`"))
        }
        answer => Err(failed(&answer)),
    }
}

/// Shows the tickets of a request. This does not keep the place in the queue, nor does it claim granted units.
#[utoipa::path(get, path = "/api/v1/requests/{id}", operation_id = "get_request", params(("id" = String, Path, description = "Id of the request or of one of its leases")), responses((status = 200, body = Page<PoolLease>)))]
pub(crate) async fn show(caller: Caller, Path(id): Path<String>) -> List<PoolLease> {
    Ok(Json(Page::whole(&tickets(&caller, &id).await?)))
}

/// Cancels a request: it leaves the queue, or all of its units are released.
#[utoipa::path(delete, path = "/api/v1/requests/{id}", operation_id = "cancel_request", params(("id" = String, Path, description = "Id of the request or of one of its leases"), CancelRequest), responses((status = 200, body = CancelledRequest)))]
pub(crate) async fn cancel(
    caller: Caller,
    Path(id): Path<String>,
    QueryString(query): QueryString<CancelRequest>,
) -> api::Answer<CancelledRequest> {
    let call = call_of(&caller, &format!("DELETE /api/v1/requests/{id}"), json!(query.epoch))?;
    // The epoch of a ticket that no attempt has claimed yet.
    let epoch = query.epoch.map_or(Epoch::ZERO, Epoch::new);
    let tickets = tickets(&caller, &id).await?;
    let is_fenced = |record: &TicketRecord| record.ticket.state.counts() && record.ticket.epoch != epoch;
    if tickets.iter().any(is_fenced) {
        return Err(query.epoch.map_or_else(epoch_missing, |_| gone()));
    }
    let mut cancelled = CancelledRequest::default();
    for record in tickets {
        let release = Release {
            pool: record.pool,
            by: ReleaseBy::Ticket(record.ticket.id),
            epoch: Some(epoch),
            end: End::Released { failed: false },
            call: call.clone(),
        };
        match caller.state.pools().release(release).await? {
            Answer::Released(released) => {
                cancelled.units += released.units;
                cancelled.cancelled_waiting |= released.cancelled_waiting;
            }
            answer => return Err(failed(&answer)),
        }
    }
    Ok(Json(cancelled))
}

fn epoch_missing() -> Problem {
    let remedy = "send the epoch of its leases; an operator can release them with \
                  `POST /api/v1/pool-leases/{id}/release` and a reason";
    Problem::bad_request("epoch: it is missing, and the request has units", remedy)
}

/// The part of a request for each pool, and the hint as each pool reads it.
async fn parts(
    caller: &Caller,
    body: &RequestUnits,
) -> Result<(Vec<AcquirePart>, Vec<(PoolName, UnitRequest)>), Problem> {
    if !(1..=POOLS_MAX).contains(&body.pools.len()) {
        return Err(bad("pools", "name 1 to 16 pools"));
    }
    let hint = text("hint", body.hint.as_deref(), HINT_CHARS_MAX)?;
    let (mut parts, mut hints): (Vec<AcquirePart>, Vec<_>) = (Vec::new(), Vec::new());
    let mut tx = caller.state.read().await?;
    for request in &body.pools {
        let mut part = part(request)?;
        caller.principal.check_scope(&object(&part.pool))?;
        if parts.iter().any(|other| other.pool == part.pool) {
            return Err(bad("pools", "a pool is named twice"));
        }
        if body.hint.is_some() {
            let settings = find(&mut tx, &part.pool).await?.settings;
            let request = UnitRequest::new(&settings, part.parallel, part.least, Some(&hint))
                .map_err(|too_long| bad("hint", too_long.to_string()))?;
            (part.parallel, part.least) = (Some(request.parallel), request.least);
            hints.push((part.pool.clone(), request));
        }
        parts.push(part);
    }
    Ok((parts, hints))
}

fn part(request: &RequestPool) -> Result<AcquirePart, Problem> {
    let part = AcquirePart {
        pool: named(&request.pool)?,
        parallel: number("parallel", request.parallel)?,
        sessions: number("sessions", request.sessions)?,
        least: number("min", request.min)?,
    };
    let is_less_than_min = part.parallel.zip(part.least).is_some_and(|(parallel, min)| min > parallel);
    if part.sessions.is_none() && is_less_than_min {
        return Err(bad("min", "it is larger than parallel"));
    }
    Ok(part)
}

/// All tickets of the request that has this ticket.
async fn tickets(caller: &Caller, id: &str) -> Result<Vec<TicketRecord>, Problem> {
    let mut tx = caller.state.read().await?;
    let record = lease::find(&mut tx, id).await?;
    let ticket = &record.ticket;
    let tickets = if ticket.with.is_empty() {
        vec![record]
    } else {
        let mut tickets = tx.pools().tickets_of_run(ticket.holder.run_id(), TICKETS_MAX).await?;
        tickets.retain(|other| other.ticket.request == ticket.request);
        tickets
    };
    for record in &tickets {
        caller.principal.check_scope(&object(&record.pool))?;
    }
    Ok(tickets)
}

fn number(field: &str, number: Option<u32>) -> Result<Option<NonZeroU32>, Problem> {
    number.map(|number| NonZeroU32::new(number).ok_or_else(|| bad(field, "it is zero"))).transpose()
}

/// A text that every database can store.
fn text(field: &str, text: Option<&str>, chars_max: usize) -> Result<String, Problem> {
    let text = text.unwrap_or_default();
    if text.contains('\0') || text.chars().nth(chars_max).is_some() {
        return Err(bad(field, format!("it is longer than {chars_max} characters, or has a NUL")));
    }
    Ok(text.to_owned())
}

fn bad(field: &str, why: impl AsRef<str>) -> Problem {
    let detail = format!("{field}: {}", why.as_ref());
    Problem::bad_request(detail, "correct it; see /openapi.json")
}

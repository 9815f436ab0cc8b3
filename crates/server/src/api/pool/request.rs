//! Requests for units of one pool, or of several at once: then all of them or none.

use super::emr_agent::lease as lease_for;
use super::lease::lease_id;
use super::ticket::{PoolHolder, PoolLease};
use super::{acquire, call_of, find, gone, named, object, unknown};
use crate::access::Principal;
use crate::api::Body;
use crate::problem::Problem;
use crate::state::State;
use axum::extract::{Path, State as Given};
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::pool::command::{Admitted, Answer, Release, Waits};
use tidemill_domain::pool::{Class, End, Holder, PoolName, Reason, ReleaseBy, TicketId, UnitRequest};
use tidemill_engine::pool::{Ask, AskPart};
use tidemill_store::pool::TicketRecord;
use utoipa::ToSchema;

/// Longest that an answer is held back, in seconds: clients give up after 60.
pub(super) const WAIT_SECONDS_MAX: u32 = 50;
/// Most pools of one request.
const POOLS_MAX: usize = 16;
/// Longest text of a hint, in characters.
pub(super) const HINT_CHARS_MAX: usize = 4000;
/// Most tickets of one run that are looked through for those of a request.
const TICKETS_MAX: u32 = 10_000;

/// A request for units.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AskUnits {
    /// What is asked of each pool.
    pools: Vec<AskPool>,
    /// For whom. The same holder that asks again gets the same lease.
    holder: PoolHolder,
    /// `critical`, `normal` (the default) or `bulk`.
    class: Option<String>,
    /// The table that will be read; it says how long the run will take.
    table: Option<String>,
    /// The hint of the statement.
    hint: Option<String>,
    /// How often the holder will send heartbeats, in seconds; none if it will not.
    heartbeat_seconds: Option<u32>,
    /// How long the answer may be held back until there are units, in seconds: 50 at most, 0 when not given.
    wait_seconds: Option<u32>,
}

/// What is asked of one pool.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AskPool {
    /// Its name.
    pool: String,
    /// The degree of parallelism; when not given that of the hint, then the pool's default.
    parallel: Option<u32>,
    /// The number of sessions; one when not given.
    sessions: Option<u32>,
    /// The least that would do; the pool's when not given.
    min: Option<u32>,
}

/// What became of a request.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct PoolRequest {
    /// By which it is asked for again.
    id: String,
    /// `running` or `waiting`.
    state: &'static str,
    /// The leases, one in each pool; none while it waits.
    leases: Vec<GrantedLease>,
    /// Whether they were there before.
    duplicate: bool,
    /// What it waits for.
    waits: Option<PoolWait>,
}

/// Units of one pool.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct GrantedLease {
    /// Its id.
    id: String,
    /// The pool.
    pool: String,
    /// What fences it.
    epoch: i64,
    /// The degree that was asked for.
    asked: u32,
    /// The degree that was granted.
    parallel: u32,
    /// The units that it takes.
    units: u64,
    /// The hint to run with, if one was given.
    hint: Option<String>,
    /// Whether more was asked for and is waited for.
    upgrade_pending: bool,
}

/// A place in a queue.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PoolWait {
    /// The pool that keeps it waiting.
    pool: String,
    /// Its place, from 1.
    position: u32,
    /// Why.
    reason: &'static str,
    /// The same in a sentence.
    message: &'static str,
    /// The units in use.
    usage: u64,
    /// How many may be.
    limit: u64,
    /// In how many seconds it is likely to start.
    eta_seconds: Option<u64>,
    /// In how many seconds it has started in nine of ten cases.
    eta_p90_seconds: Option<u64>,
    /// After how many seconds it makes sense to ask again.
    wait_seconds: u32,
}

/// The tickets of a request, as they are stored.
#[derive(Debug, Serialize, ToSchema)]
pub struct PoolRequestTickets {
    /// One in each pool.
    items: Vec<PoolLease>,
}

/// What was given up.
#[derive(Debug, Serialize, ToSchema)]
pub struct CancelledRequest {
    /// The units that came back.
    units: u64,
    /// Whether it was still in the queue.
    cancelled_waiting: bool,
}

/// Asks for units. Whoever has to wait asks again with the same holder, and keeps its place if it does so in time.
#[utoipa::path(post, path = "/api/v1/requests", request_body = AskUnits, responses((status = 200, body = PoolRequest, description = "The units are there"), (status = 202, body = PoolRequest, description = "In the queue"), (status = 400, body = crate::problem::ProblemBody), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn make(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    Body(body): Body<AskUnits>,
) -> Result<(StatusCode, Json<PoolRequest>), Problem> {
    let wait = body.wait_seconds.unwrap_or(0);
    if wait > WAIT_SECONDS_MAX {
        return Err(bad("wait_seconds", "it is more than 50"));
    }
    let (parts, hints) = parts(&state, &principal, &body).await?;
    let ask = Ask {
        parts,
        holder: holder(&body.holder)?,
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
        call: call_of(&principal, &headers)?,
    };
    match acquire(&state, &ask, Duration::from_secs(wait.into())).await? {
        Answer::Admitted { parts, is_duplicate } => {
            let id = parts.first().map(|part| part.ticket.id.to_string()).unwrap_or_default();
            let hint = |part: &Admitted| {
                let granted = part.ticket.granted?;
                let (_, hint) = hints.iter().find(|(pool, _)| *pool == part.pool)?;
                hint.hint_override(granted).ok().flatten()
            };
            let leases = parts.iter().map(|part| granted(part, hint(part))).collect();
            let told = PoolRequest { id, state: "running", leases, duplicate: is_duplicate, waits: None };
            Ok((StatusCode::OK, Json(told)))
        }
        Answer::Waits(waits) => Ok((StatusCode::ACCEPTED, Json(waiting(&waits)))),
        Answer::Refused { pool, reason: Reason::UnknownPool } => Err(unknown(pool.as_str())),
        Answer::Refused { pool, reason } => {
            let detail = format!("pool {pool}: {}", reason.sentence());
            Err(Problem::new(Code::RequestExceedsPool, detail, "ask for less, or allow less with min"))
        }
        _ => Err(gone()),
    }
}

/// The tickets of a request. Looking does not keep a place in the queue, nor does it take units that are set aside.
#[utoipa::path(get, path = "/api/v1/requests/{id}", params(("id" = String, Path, description = "Its id, or that of one of its leases")), responses((status = 200, body = PoolRequestTickets), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn show(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Json<PoolRequestTickets>, Problem> {
    let tickets = tickets(&state, &principal, lease_id(&id)?).await?;
    Ok(Json(PoolRequestTickets { items: tickets.iter().map(PoolLease::from).collect() }))
}

/// Gives up a request: out of the queue, or all of its units back.
#[utoipa::path(delete, path = "/api/v1/requests/{id}", params(("id" = String, Path, description = "Its id, or that of one of its leases")), responses((status = 200, body = CancelledRequest), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn cancel(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Json<CancelledRequest>, Problem> {
    let call = call_of(&principal, &headers)?;
    let mut told = CancelledRequest { units: 0, cancelled_waiting: false };
    for record in tickets(&state, &principal, lease_id(&id)?).await? {
        let release = Release {
            pool: record.pool,
            by: ReleaseBy::Ticket(record.ticket.id),
            epoch: None,
            end: End::Released { failed: false },
            call: call.clone(),
        };
        if let Answer::Released(released) = state.pools().release(release).await? {
            told.units += released.units;
            told.cancelled_waiting |= released.cancelled_waiting;
        }
    }
    Ok(Json(told))
}

/// What is asked of each pool, and the hint as each of them understands it.
async fn parts(
    state: &State,
    principal: &Principal,
    body: &AskUnits,
) -> Result<(Vec<AskPart>, Vec<(PoolName, UnitRequest)>), Problem> {
    if !(1..=POOLS_MAX).contains(&body.pools.len()) {
        return Err(bad("pools", "name 1 to 16 pools"));
    }
    let hint_text = text("hint", body.hint.as_deref(), HINT_CHARS_MAX)?;
    let (mut parts, mut hints): (Vec<AskPart>, Vec<_>) = (Vec::new(), Vec::new());
    let mut tx = state.read().await?;
    for asked in &body.pools {
        let name = named(&asked.pool)?;
        principal.check_scope(&object(&name))?;
        if parts.iter().any(|part| part.pool == name) {
            return Err(bad("pools", "one is named twice"));
        }
        let mut part = AskPart {
            parallel: number("parallel", asked.parallel)?,
            sessions: number("sessions", asked.sessions)?,
            least: number("min", asked.min)?,
            pool: name.clone(),
        };
        if part.sessions.is_none() && part.parallel.zip(part.least).is_some_and(|(most, least)| least > most)
        {
            return Err(bad("min", "it is more than parallel; nobody is given more than was asked for"));
        }
        if body.hint.is_some() {
            let settings = find(&mut tx, &name).await?.settings;
            let read = UnitRequest::new(&settings, part.parallel, part.least, Some(&hint_text))
                .map_err(|too_long| bad("hint", too_long.to_string()))?;
            (part.parallel, part.least) = (Some(read.parallel), read.least);
            hints.push((name, read));
        }
        parts.push(part);
    }
    Ok((parts, hints))
}

/// The tickets of the request that this one belongs to.
async fn tickets(state: &State, principal: &Principal, id: TicketId) -> Result<Vec<TicketRecord>, Problem> {
    let mut tx = state.read().await?;
    let found = tx.pools().ticket(id).await?.ok_or_else(|| gone().as_missing())?;
    let tickets = match found.ticket.with.is_empty() {
        true => vec![found],
        false => {
            let of_run = tx.pools().tickets_of_run(found.ticket.holder.run_id(), TICKETS_MAX).await?;
            let is_ours = |record: &TicketRecord| record.ticket.request == found.ticket.request;
            of_run.into_iter().filter(is_ours).collect()
        }
    };
    for record in &tickets {
        principal.check_scope(&object(&record.pool))?;
    }
    Ok(tickets)
}

fn granted(part: &Admitted, hint: Option<String>) -> GrantedLease {
    let ticket = &part.ticket;
    GrantedLease {
        id: ticket.id.to_string(),
        pool: part.pool.to_string(),
        epoch: ticket.epoch.get(),
        asked: ticket.asked.get(),
        parallel: ticket.granted.unwrap_or(ticket.asked).get(),
        units: ticket.units(),
        hint,
        upgrade_pending: ticket.upgrade.is_some(),
    }
}

fn waiting(waits: &Waits) -> PoolRequest {
    let wait = PoolWait {
        pool: waits.pool.to_string(),
        position: waits.position,
        reason: waits.reason.as_str(),
        message: waits.reason.sentence(),
        usage: waits.level.usage,
        limit: waits.level.limit,
        eta_seconds: waits.estimate.map(|estimate| estimate.p50.as_secs()),
        eta_p90_seconds: waits.estimate.map(|estimate| estimate.p90.as_secs()),
        wait_seconds: waits.wait_seconds,
    };
    let id = waits.tickets.first().map(|(_, ticket)| ticket.to_string()).unwrap_or_default();
    PoolRequest { id, state: "waiting", waits: Some(wait), ..PoolRequest::default() }
}

fn holder(asked: &PoolHolder) -> Result<Holder, Problem> {
    Holder::new(&asked.dag_id, &asked.run_id, &asked.task, asked.map_index)
        .map_err(|error| bad("holder", error.to_string()))
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
    Problem::bad_request(detail, "send it as /openapi.json describes it")
}

//! Pools by the API: what is set about them, who holds them, and requests for their units.
//!
//! Reading order: this file (how a pool is shown), [`define`] (making and changing them), [`ticket`] (holders and the
//! queue), [`event`] (what was decided), [`request`] and [`lease`] (asking for units and giving them back), [`document`]
//! (the same in the words of the EMR Batch Agent).

pub mod define;
pub mod emr_agent;
pub mod event;
pub mod lease;
pub mod request;
pub mod ticket;

use crate::access::Principal;
use crate::api::{QueryString, limit};
use crate::mutation;
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::duration;
use tidemill_domain::pool::PoolName;
use tidemill_domain::pool::command::Answer;
use tidemill_domain::time::Timestamp;
use tidemill_engine::pool::Ask;
use tidemill_store::Tx;
use tidemill_store::pool::PoolRecord;
use utoipa::{IntoParams, ToSchema};

/// What to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListPools {
    /// At most so many; 50 when not given, 500 at most.
    limit: Option<u32>,
}

/// A pool.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Pool {
    /// Its name.
    name: String,
    /// The number that callers know it by: the document's `src_db_id`.
    external_id: Option<i64>,
    /// What kind of database it protects.
    db_type: String,
    /// How much there is of it at most times.
    max_units: u32,
    /// Of that, how much may be in use, in percent.
    threshold_percent: u8,
    /// How many units may be in use now.
    limit: u64,
    /// How many are.
    usage: u64,
    /// How many may still be given out.
    available: u64,
    /// How many more are in use than may be.
    over_by: u64,
    /// What a request gets that does not say how much it wants.
    default_units: u32,
    /// The least that a downgrade gives.
    min_units: u32,
    /// What is counted: `hint_units`, `sessions`, `px` or `processes`.
    weight: String,
    /// Whether the database follows hints.
    hint_effective: bool,
    /// What a hint counts for that says "parallel" without a number.
    default_degree: u32,
    /// How many sets of servers a session may use.
    server_sets: u8,
    /// How it is given out: `halving` or `fifo`.
    policy: String,
    /// Other numbers of units at other times of day.
    capacity: Vec<PoolCapacity>,
    /// Where the clocks hang that those times are read from.
    zone: String,
    /// How long a holder that sends heartbeats may be silent.
    lease_for: String,
    /// How long units are held at most.
    max_hold: String,
    /// How long units are set aside for somebody who has not come back for them.
    claim_for: String,
    /// Who paused it, if somebody did.
    pause: Option<PoolPause>,
    /// How many hold units.
    holders: u64,
    /// How many wait.
    waiting: u64,
    /// How many of the holders have not been heard of.
    suspect: u64,
    /// When it was made.
    created_at: String,
    /// When something was last decided.
    changed_at: String,
}

/// Another number of units at a time of day.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolCapacity {
    /// When, such as `MON-FRI 22:00-06:00`.
    window: String,
    /// How many.
    max_units: u32,
}

/// A pause of a pool.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PoolPause {
    /// Since when.
    at: String,
    /// By whom.
    by: String,
    /// Why.
    reason: String,
}

/// A list of pools.
#[derive(Debug, Serialize, ToSchema)]
pub struct Pools {
    /// By name.
    items: Vec<Pool>,
}

fn shown(record: &PoolRecord, now: Timestamp) -> Pool {
    let settings = &record.settings;
    let limit = settings.limit_at(now);
    Pool {
        name: settings.name.to_string(),
        external_id: settings.external_id,
        db_type: settings.db_type.clone(),
        max_units: settings.max_units,
        threshold_percent: settings.threshold_percent,
        limit,
        usage: record.usage,
        available: limit.saturating_sub(record.usage),
        over_by: record.usage.saturating_sub(limit),
        default_units: settings.default_units.get(),
        min_units: settings.min_units.get(),
        weight: settings.weight.to_string(),
        hint_effective: settings.hint_effective,
        default_degree: settings.default_degree.get(),
        server_sets: settings.server_sets,
        policy: settings.policy.to_string(),
        capacity: settings
            .capacity
            .iter()
            .map(|capacity| PoolCapacity {
                window: capacity.window.to_string(),
                max_units: capacity.max_units,
            })
            .collect(),
        zone: settings.zone.to_string(),
        lease_for: duration::show(settings.lease_for),
        max_hold: duration::show(settings.max_hold),
        claim_for: duration::show(settings.claim_for),
        pause: settings.paused.as_ref().map(|pause| PoolPause {
            at: pause.at.to_string(),
            by: pause.by.clone(),
            reason: pause.reason.clone(),
        }),
        holders: record.active,
        waiting: record.waiting,
        suspect: record.suspect,
        created_at: record.created_at.to_string(),
        changed_at: record.changed_at.to_string(),
    }
}

/// The pools, and how full they are.
#[utoipa::path(get, path = "/api/v1/pools", params(ListPools), responses((status = 200, body = Pools)))]
pub(crate) async fn list(
    Given(state): Given<State>,
    QueryString(asked): QueryString<ListPools>,
) -> Result<Json<Pools>, Problem> {
    let mut tx = state.read().await?;
    let (records, now) = (tx.pools().list(limit(asked.limit)?).await?, tx.now().await?);
    Ok(Json(Pools { items: records.iter().map(|record| shown(record, now)).collect() }))
}

/// One pool.
#[utoipa::path(get, path = "/api/v1/pools/{name}", params(("name" = String, Path, description = "Its name")), responses((status = 200, body = Pool), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn show(
    Given(state): Given<State>,
    Path(name): Path<String>,
) -> Result<Json<Pool>, Problem> {
    let name = named(&name)?;
    let mut tx = state.read().await?;
    let (record, now) = (find(&mut tx, &name).await?, tx.now().await?);
    Ok(Json(shown(&record, now)))
}

/// A pool that has to be there.
pub(crate) async fn find(tx: &mut Tx, name: &PoolName) -> Result<PoolRecord, Problem> {
    tx.pools().find(name).await?.ok_or_else(|| unknown(name.as_str()))
}

/// A name of the path, if it can be the name of a pool at all.
pub(crate) fn named(name: &str) -> Result<PoolName, Problem> {
    name.parse().map_err(|_| unknown(name))
}

pub(crate) fn unknown(name: &str) -> Problem {
    let name: String = name.chars().filter(|char| !char.is_control()).take(64).collect();
    let remedy = "use a name as the list of pools tells it, or create the pool";
    Problem::new(Code::PoolNotFound, format!("there is no pool {name}"), remedy)
}

/// The pool as scopes and the audit name it.
pub(crate) fn object(name: &PoolName) -> String {
    format!("pool/{name}")
}

/// There is no such ticket any more.
pub(crate) fn gone() -> Problem {
    let remedy = "ask for units again; do not go on without";
    Problem::new(Code::PoolLeaseGone, Code::PoolLeaseGone.title(), remedy)
}

/// Asks for units and waits for them, but not beyond the end of this server.
async fn acquire(state: &State, ask: &Ask, wait: Duration) -> Result<Answer, Problem> {
    if wait.is_zero() {
        return Ok(state.pools().acquire(ask, wait).await?);
    }
    tokio::select! {
        answer = state.pools().acquire(ask, wait) => Ok(answer?),
        // Its place is kept; it asks again wherever it finds a server.
        () = state.stopping() => Ok(state.pools().acquire(ask, Duration::ZERO).await?),
    }
}

/// What names a call in each of its attempts: the SDKs of AWS name theirs, others may.
fn call_of(principal: &Principal, headers: &HeaderMap) -> Result<Option<String>, Problem> {
    if let Some(key) = mutation::key(headers)? {
        return Ok(Some(named_call(principal, key)));
    }
    let id = headers.get("amz-sdk-invocation-id").and_then(|id| id.to_str().ok());
    Ok(id.filter(|id| (1..=100).contains(&id.len())).map(|id| named_call(principal, id)))
}

/// Together with the caller: nobody else's call can be taken for it.
pub(crate) fn named_call(principal: &Principal, id: &str) -> String {
    format!("{}/{id}", principal.caller)
}

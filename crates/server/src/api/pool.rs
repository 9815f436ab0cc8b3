//! Pools in the API: their state, leases, queue and events.
//!
//! Reading order: this file, [`define`] (create and change pools), [`request`] and [`lease`] (acquire and release
//! units), [`emr_agent`] (the same for clients of the EMR Batch Agent).

pub mod define;
pub mod emr_agent;
pub mod lease;
pub mod request;

use crate::access::Principal;
use crate::api::{List, QueryString, Read, limit};
use crate::mutation::{self, Caller};
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use std::time::Duration;
use tidemill_api::pool::{
    KedaMetric, KedaQuery, Pool, PoolDemand, PoolEvent, PoolLease, PoolPlace, PoolRefusal,
};
use tidemill_api::{Limit, Page};
use tidemill_domain::code::Code;
use tidemill_domain::pool::command::{Answer, Call, RequestKey};
use tidemill_domain::pool::demand::Demand;
use tidemill_domain::pool::{PoolName, State as TicketState};
use tidemill_engine::pool::AcquireRequest;
use tidemill_store::pool::PoolRecord;
use tidemill_store::{StoreError, Tx};

/// Lists pools.
#[utoipa::path(get, path = "/api/v1/pools", operation_id = "list_pools", params(Limit), responses((status = 200, body = Page<Pool>)))]
pub(crate) async fn list(QueryString(query): QueryString<Limit>, Read(mut tx): Read) -> List<Pool> {
    let (records, now) = (tx.pools().list(limit(query.limit)?).await?, tx.now().await?);
    Ok(Json(Page::whole(records.iter().map(|record| (record, now)))))
}

/// Shows a pool.
#[utoipa::path(get, path = "/api/v1/pools/{name}", operation_id = "get_pool", params(("name" = String, Path, description = "Name of the pool")), responses((status = 200, body = Pool)))]
pub(crate) async fn show(Path(name): Path<String>, Read(mut tx): Read) -> Result<Json<Pool>, Problem> {
    let (record, now) = (find(&mut tx, &named(&name)?).await?, tx.now().await?);
    let score = tx.pools().estimate_accuracy(&record.settings.name).await?;
    Ok(Json(Pool { estimates: Some((&score).into()), ..Pool::from((&record, now)) }))
}

/// Lists the leases of a pool, the oldest first.
#[utoipa::path(get, path = "/api/v1/pools/{name}/holders", operation_id = "list_pool_holders", params(("name" = String, Path, description = "Name of the pool"), Limit), responses((status = 200, body = Page<PoolLease>)))]
pub(crate) async fn holders(
    Path(name): Path<String>,
    QueryString(query): QueryString<Limit>,
    Read(mut tx): Read,
) -> List<PoolLease> {
    let (name, limit) = (named(&name)?, limit(query.limit)?);
    find(&mut tx, &name).await?;
    let records = tx.pools().tickets(&name, &TicketState::HELD, limit).await?;
    Ok(Json(Page::whole(&records)))
}

/// Lists the waiting requests of a pool in the order of the queue.
#[utoipa::path(get, path = "/api/v1/pools/{name}/queue", operation_id = "list_pool_queue", params(("name" = String, Path, description = "Name of the pool"), Limit), responses((status = 200, body = Page<PoolPlace>)))]
pub(crate) async fn queue(
    Path(name): Path<String>,
    QueryString(query): QueryString<Limit>,
    Read(mut tx): Read,
) -> List<PoolPlace> {
    let (name, limit) = (named(&name)?, limit(query.limit)?);
    let ledger = tx.pools().ledger(&name).await?.ok_or_else(|| unknown(name.as_str()))?;
    let now = tx.now().await?;
    Ok(Json(Page::whole(PoolPlace::queue(&ledger, now, limit as usize))))
}

/// Lists decisions about a pool, the newest first: downgrades, waits, limits, and leases that their holders did not end.
#[utoipa::path(get, path = "/api/v1/pools/{name}/events", operation_id = "list_pool_events", params(("name" = String, Path, description = "Name of the pool"), Limit), responses((status = 200, body = Page<PoolEvent>)))]
pub(crate) async fn events(
    Path(name): Path<String>,
    QueryString(query): QueryString<Limit>,
    Read(mut tx): Read,
) -> List<PoolEvent> {
    let (name, limit) = (named(&name)?, limit(query.limit)?);
    find(&mut tx, &name).await?;
    let events = tx.pools().events(Some(&name), limit).await?;
    Ok(Json(Page::whole(&events)))
}

/// Shows how many units a pool needs now, in 5 and in 15 minutes.
#[utoipa::path(get, path = "/api/v1/pools/{name}/demand", operation_id = "get_pool_demand", params(("name" = String, Path, description = "Name of the pool")), responses((status = 200, body = PoolDemand)))]
pub(crate) async fn demand(
    Path(name): Path<String>,
    Given(state): Given<State>,
) -> Result<Json<PoolDemand>, Problem> {
    let name = named(&name)?;
    Ok(Json(PoolDemand::from((&name, demand_of(&state, &name).await?))))
}

/// Shows the same as a metric for KEDA.
#[utoipa::path(get, path = "/api/v1/pools/{name}/demand/keda", operation_id = "get_pool_demand_for_keda", params(("name" = String, Path, description = "Name of the pool"), KedaQuery), responses((status = 200, body = KedaMetric)))]
pub(crate) async fn keda(
    Path(name): Path<String>,
    QueryString(query): QueryString<KedaQuery>,
    Given(state): Given<State>,
) -> Result<Json<KedaMetric>, Problem> {
    let name = named(&name)?;
    match query.target_size.unwrap_or(1) {
        0 => {
            Err(Problem::bad_request("target_size is 0", "use the number of units that one replica provides"))
        }
        size => Ok(Json(KedaMetric::from((&name, demand_of(&state, &name).await?, size)))),
    }
}

async fn demand_of(state: &State, name: &PoolName) -> Result<Demand, Problem> {
    match state.pools().demand(name).await? {
        Some(demand) => Ok(demand),
        None => Err(no_such_pool(&mut state.read().await?, name.as_str()).await?.into()),
    }
}

pub(crate) async fn find(tx: &mut Tx, name: &PoolName) -> Result<PoolRecord, Problem> {
    match tx.pools().find(name).await? {
        Some(found) => Ok(found),
        None => Err(no_such_pool(tx, name.as_str()).await?.into()),
    }
}

/// Suggests a pool that exists.
#[crate::boxed]
pub async fn no_such_pool(tx: &mut Tx, name: &str) -> Result<PoolRefusal, StoreError> {
    let known = tx.pools().directory().await?.into_iter().map(|(name, ..)| name.to_string()).collect();
    Ok(PoolRefusal::not_found_among(name, known))
}

/// The name in a path. A text that cannot be the name of a pool is answered like the name of a pool that does not exist.
pub(crate) fn named(name: &str) -> Result<PoolName, Problem> {
    name.parse().map_err(|_| unknown(name))
}

pub(crate) fn unknown(name: &str) -> Problem {
    PoolRefusal::not_found(name).into()
}

impl From<PoolRefusal> for Problem {
    fn from(refusal: PoolRefusal) -> Self {
        Self::new(refusal.code(), refusal.to_string(), refusal.fix()).in_field(refusal.field())
    }
}

/// The pool in scopes and in the audit log.
pub(crate) fn object(name: &PoolName) -> String {
    format!("pool/{name}")
}

/// The lease has ended, or a newer attempt of its holder has it.
pub(crate) fn gone() -> Problem {
    let remedy = "stop the work, or request units again";
    Problem::new(Code::PoolLeaseGone, Code::PoolLeaseGone.title(), remedy)
}

/// Requests units and waits for them, until this server stops at the latest.
async fn wait_for_units(state: &State, ask: &AcquireRequest, wait: Duration) -> Result<Answer, Problem> {
    if wait.is_zero() {
        return Ok(state.pools().acquire(ask, wait).await?);
    }
    tokio::select! {
        answer = state.pools().acquire(ask, wait) => Ok(answer?),
        // The request keeps its place, so the client can repeat it at another server.
        () = state.stopping() => Ok(state.pools().acquire(ask, Duration::ZERO).await?),
    }
}

/// The problem of an answer that is neither units nor a place in the queue.
fn failed(answer: &Answer) -> Problem {
    if *answer == Answer::KeyReused { mutation::key_reused() } else { gone() }
}

/// Identifies a call in each of its attempts, by its idempotency key or by the header of the AWS SDKs. `request` is the route
/// and its parameters. `wait_seconds` is no part of the request: it may differ between two polls.
fn call_of(caller: &Caller, request: &str, mut body: Value) -> Result<Option<Call>, Problem> {
    if let Value::Object(fields) = &mut body {
        fields.remove("wait_seconds");
    }
    let what = format!("{request} {body}");
    if let Some(key) = mutation::key(&caller.headers)? {
        let (caller, key) = (caller.principal.caller.clone(), key.to_owned());
        let id = format!("{caller}/{key}");
        let key = RequestKey { caller, key, fingerprint: mutation::fingerprint(&what) };
        return Ok(Some(Call { id, key: Some(key) }));
    }
    let sdk = caller.headers.get("amz-sdk-invocation-id").and_then(|id| id.to_str().ok());
    Ok(sdk.filter(|id| (1..=100).contains(&id.len())).map(|id| sdk_call(&caller.principal, id, &what)))
}

/// A call of an AWS SDK, which retries only identical requests: the same id with another request is another call. Contains the
/// caller, so that two callers with the same id do not share a call.
pub(crate) fn sdk_call(principal: &Principal, id: &str, what: &str) -> Call {
    let fingerprint = URL_SAFE_NO_PAD.encode(mutation::fingerprint(what));
    format!("{}/{id}/{fingerprint}", principal.caller).into()
}

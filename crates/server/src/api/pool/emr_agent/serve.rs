//! The routes `POST /acquire`, `POST /release`, `GET /status`, and `POST /` where the body names the action.

use super::UnknownPool;
use super::answer::{self, AcquireAnswer, ReleaseAnswer, compact};
use super::request::{Acquire, Action, PoolKey, Release, Request};
use crate::access::Principal;
use crate::api::pool::{call_of, failed, gone, object, wait_for_units};
use crate::api::{QueryString, read_body};
use crate::mutation::Caller;
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::body::Body;
use serde_json::{Map, Value};
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_domain::access::in_scope;
use tidemill_domain::lease::Epoch;
use tidemill_domain::pool::command::{self, Admitted, Answer, Release as Command};
use tidemill_domain::pool::weight::Lever;
use tidemill_domain::pool::{PoolName, Reason, ReleaseBy, ReleaseOutcome, UnitRequest};
use tidemill_engine::pool::{AcquirePart, AcquireRequest};
use tidemill_store::pool::PoolRecord;

const POOLS_MAX: u32 = 10_000;

/// Number of missing heartbeats after which a lease is suspect.
const MISSING_HEARTBEATS: u32 = 3;

type AgentAnswer = Result<Json<Value>, Problem>;

pub(crate) async fn acquire(caller: Caller, body: Body) -> AgentAnswer {
    serve(&caller, body, Some(Action::Acquire)).await
}

pub(crate) async fn release(caller: Caller, body: Body) -> AgentAnswer {
    serve(&caller, body, Some(Action::Release)).await
}

pub(crate) async fn any(caller: Caller, body: Body) -> AgentAnswer {
    serve(&caller, body, None).await
}

pub(crate) async fn status(
    caller: Caller,
    QueryString(query): QueryString<Map<String, Value>>,
) -> AgentAnswer {
    let request = Request::read(&Value::Object(query), Some(Action::Status))?;
    Ok(Json(
        Call { state: &caller.state, principal: &caller.principal, call: None, is_present: true }
            .serve(request)
            .await?,
    ))
}

async fn serve(caller: &Caller, body: Body, action: Option<Action>) -> AgentAnswer {
    let bytes = read_body(body).await?;
    let body: Value = serde_json::from_slice(&bytes).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        Problem::bad_request(format!("the body is not JSON: {place}"), "send a JSON object")
    })?;
    let request = Request::read(&body, action)?;
    let call = call_of(caller, action.map_or("", Action::as_str), body)?;
    let (state, principal) = (&caller.state, &caller.principal);
    Ok(Json(Call { state, principal, call, is_present: true }.serve(request).await?))
}

pub(crate) struct Call<'a> {
    pub(crate) state: &'a State,
    pub(crate) principal: &'a Principal,
    pub(crate) call: Option<command::Call>,
    /// Whether the client waits for the answer.
    pub(crate) is_present: bool,
}

impl Call<'_> {
    /// Runs a request. Its result is durable when this returns.
    pub(crate) async fn serve(&self, request: Request) -> Result<Value, Problem> {
        match request {
            Request::Acquire(request) => Ok(compact(&self.acquire(&request).await?)),
            Request::Release(request) => Ok(compact(&self.release(request).await?)),
            Request::Status(pool) => self.status(pool.as_ref()).await,
        }
    }

    async fn acquire(&self, request: &Acquire) -> Result<AcquireAnswer, Problem> {
        let Some(pool) = self.find(&request.pool).await? else { return Ok(self.unknown(request)) };
        let mut part = AcquirePart::new(pool.clone(), request.parallel_hint);
        (part.sessions, part.least) = (request.partitions, request.min_parallel);
        let (mut hinted, mut warnings) = (None, Vec::new());
        if let Some(text) = &request.hint {
            let Some(record) = self.record(&pool).await? else { return Ok(self.unknown(request)) };
            let read = UnitRequest::new(&record.settings, part.parallel, part.least, Some(text))
                .map_err(|too_long| Problem::bad_request(too_long.to_string(), "send a shorter hint"))?;
            (part.parallel, part.least) = (Some(read.parallel), read.least);
            warnings = read.warnings.clone();
            hinted = Some(read);
        }
        let degree = part.parallel;
        let ask = AcquireRequest {
            class: request.class,
            table: request.table_name.clone().unwrap_or_default(),
            hint: request.hint.clone(),
            lease_for: request.heartbeat_seconds.map(lease_for),
            call: self.call.clone(),
            ..AcquireRequest::new(request.holder.clone(), part)
        };
        let wait = if self.is_present { request.wait_seconds } else { 0 };
        let answer = match wait_for_units(self.state, &ask, Duration::from_secs(wait.into())).await? {
            Answer::Admitted { parts, is_duplicate } => {
                let part = parts.first().ok_or_else(gone)?;
                let request = self.unit_request(part, hinted, degree).await?;
                let granted = part.ticket.granted.unwrap_or(part.ticket.asked);
                let parallel = request.as_ref().filter(|_| part.lever == Lever::Sessions);
                let parallel = parallel.map_or(granted, |request| request.parallel);
                let hint = request.and_then(|request| request.hint_override(granted).ok().flatten());
                AcquireAnswer::admitted(part, parallel, is_duplicate, hint, self.state.inner().emr_agent)
            }
            Answer::Waits(waits) => AcquireAnswer::waits(&waits, degree),
            Answer::Refused { reason: Reason::UnknownPool, .. } => return Ok(self.unknown(request)),
            Answer::Refused { pool, reason } => {
                let (record, now) = (self.record(&pool).await?, self.state.inner().parts.clock.now());
                let level = record.map(|record| record.level(now));
                AcquireAnswer::refused(reason, degree, level)
            }
            answer => return Err(failed(&answer)),
        };
        Ok(answer.with_warnings(warnings))
    }

    /// The request with the hint that it has, or with that of the lease when it is repeated without one. Where degrees are
    /// granted, only the hint matters.
    async fn unit_request(
        &self,
        part: &Admitted,
        hinted: Option<UnitRequest>,
        degree: Option<NonZeroU32>,
    ) -> Result<Option<UnitRequest>, Problem> {
        let stored = part.ticket.hint.as_deref();
        if hinted.is_some() || (stored.is_none() && part.lever == Lever::Parallel) {
            return Ok(hinted);
        }
        let record = self.record(&part.pool).await?;
        Ok(record.and_then(|record| UnitRequest::new(&record.settings, degree, None, stored).ok()))
    }

    fn unknown(&self, request: &Acquire) -> AcquireAnswer {
        match self.state.inner().emr_agent.unknown {
            UnknownPool::Refuse => AcquireAnswer::refused(Reason::UnknownPool, request.parallel_hint, None),
            UnknownPool::Allow => AcquireAnswer::unguarded(request.parallel_hint, request.hint.clone()),
        }
    }

    async fn release(&self, request: Release) -> Result<ReleaseAnswer, Problem> {
        let Some(pool) = self.find(&request.pool).await? else { return Ok(ReleaseAnswer::unknown_pool()) };
        let holder = request.holder;
        let is_run = holder.task().is_empty() && holder.map_index() < 0;
        let by = if is_run {
            ReleaseBy::Run { dag_id: holder.dag_id().to_owned(), run_id: holder.run_id().to_owned() }
        } else {
            ReleaseBy::Holder(holder)
        };
        let command = Command {
            pool: pool.clone(),
            by,
            epoch: request.epoch.map(Epoch::new),
            end: request.outcome.unwrap_or(ReleaseOutcome::Completed).end(request.error.as_deref()),
            call: self.call.clone(),
        };
        match self.state.pools().release(command).await? {
            Answer::Released(released) => Ok(ReleaseAnswer::from(&released)),
            Answer::Refused { .. } => Ok(ReleaseAnswer::unknown_pool()),
            answer @ Answer::KeyReused => Err(failed(&answer)),
            _ => {
                let usage = self.record(&pool).await?.map_or(0, |record| record.usage);
                Ok(ReleaseAnswer::outdated(usage))
            }
        }
    }

    async fn status(&self, pool: Option<&PoolKey>) -> Result<Value, Problem> {
        let only = match pool {
            Some(key) => match self.find(key).await? {
                Some(pool) => Some(pool),
                None => return Ok(answer::status(&[], self.state.inner().parts.clock.now())),
            },
            None => None,
        };
        let mut tx = self.state.read().await?;
        let now = tx.now().await?;
        let mut records: Vec<PoolRecord> = match only {
            Some(pool) => tx.pools().find(&pool).await?.into_iter().collect(),
            None => tx.pools().list(POOLS_MAX).await?,
        };
        records.retain(|record| in_scope(&self.principal.scopes, &object(&record.settings.name)));
        // Pools without a number come last.
        records.sort_by_key(|record| record.settings.external_id.unwrap_or(i64::MAX));
        Ok(answer::status(&records, now))
    }

    /// The name of the pool. Fails if the caller may not use it.
    async fn find(&self, key: &PoolKey) -> Result<Option<PoolName>, Problem> {
        let found = match key {
            PoolKey::SrcDbId(id) => self.state.pools().by_external_id(*id).await?,
            PoolKey::Name(name) => name.parse().ok(),
        };
        if let Some(pool) = &found {
            self.principal.check_scope(&object(pool))?;
        }
        Ok(found)
    }

    async fn record(&self, pool: &PoolName) -> Result<Option<PoolRecord>, Problem> {
        let mut tx = self.state.read().await?;
        let record = tx.pools().find(pool).await?;
        Ok(record)
    }
}

/// The heartbeat timeout of a holder that sends heartbeats at this interval.
pub(crate) fn lease_for(heartbeat_seconds: u32) -> Duration {
    Duration::from_secs(heartbeat_seconds.saturating_mul(MISSING_HEARTBEATS).clamp(5, 86_400).into())
}

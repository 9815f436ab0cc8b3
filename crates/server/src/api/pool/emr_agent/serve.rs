//! The three requests of the document, carried out.

use super::UnknownPool;
use super::answer::{AcquireAnswer, StatusAnswer};
use super::request::{Acquire, Holder as AskedHolder, Outcome, PoolKey, Release, Request, Status};
use super::told;
use crate::access::Principal;
use crate::api::pool::{acquire, gone, object};
use crate::problem::Problem;
use crate::state::State;
use serde_json::{Value, json};
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_domain::access::in_scope;
use tidemill_domain::lease::Epoch;
use tidemill_domain::pool::command::{Admitted, Answer, Release as Command};
use tidemill_domain::pool::{End, Holder, PoolName, Reason, ReleaseBy, UnitRequest};
use tidemill_engine::pool::{Ask, AskPart};
use tidemill_store::pool::PoolRecord;

/// Most pools that a status tells of.
const POOLS_MAX: u32 = 10_000;

/// How many heartbeats of a holder may be missing before it is in doubt.
const MISSING_BEATS: u32 = 3;

/// Somebody who asks in the words of the document.
pub(crate) struct Caller<'a> {
    pub(crate) state: &'a State,
    pub(crate) principal: &'a Principal,
    /// Names the call, the same in each of its attempts.
    pub(crate) call: Option<String>,
    /// Whether somebody waits for the answer.
    pub(crate) is_present: bool,
}

impl Caller<'_> {
    /// Carries a request out. It is durable when this returns.
    pub(crate) async fn serve(&self, request: Request) -> Result<Value, Problem> {
        match request {
            Request::Acquire(asked) => Ok(json!(self.acquire(&asked).await?)),
            Request::Release(asked) => self.release(asked).await,
            Request::Status(asked) => Ok(json!(self.status(&asked).await?)),
        }
    }

    async fn acquire(&self, asked: &Acquire) -> Result<AcquireAnswer, Problem> {
        let Some(pool) = self.find(&asked.pool).await? else { return Ok(self.unknown(asked)) };
        let mut part = AskPart::new(pool.clone(), asked.parallel_hint);
        (part.sessions, part.least) = (asked.partitions, asked.min_parallel);
        let mut hinted = None;
        if let Some(text) = &asked.hint {
            let Some(record) = self.record(&pool).await? else { return Ok(self.unknown(asked)) };
            let read = UnitRequest::new(&record.settings, part.parallel, part.least, Some(text))
                .map_err(|too_long| Problem::bad_request(too_long.to_string(), "send a shorter hint"))?;
            (part.parallel, part.least) = (Some(read.parallel), read.least);
            hinted = Some(read);
        }
        let degree = part.parallel;
        let ask = Ask {
            class: asked.class,
            table: asked.table_name.clone().unwrap_or_default(),
            hint: asked.hint.clone(),
            lease_for: asked.heartbeat_seconds.map(lease),
            call: self.call.clone(),
            ..Ask::new(holder(&asked.holder)?, part)
        };
        let wait = if self.is_present { asked.wait_seconds } else { 0 };
        let answer = acquire(self.state, &ask, Duration::from_secs(wait.into())).await?;
        match answer {
            Answer::Admitted { parts, is_duplicate } => {
                let part = parts.first().ok_or_else(gone)?;
                let hint = self.hint_override(part, hinted).await?;
                Ok(told::admitted(part, is_duplicate, hint, self.state.inner().emr_agent))
            }
            Answer::Waits(waits) => Ok(told::waits(&waits, degree)),
            Answer::Refused { reason: Reason::UnknownPool, .. } => Ok(self.unknown(asked)),
            Answer::Refused { pool, reason } => {
                let (record, now) = (self.record(&pool).await?, self.state.inner().parts.clock.now());
                Ok(told::refused(reason, degree, record.map(|record| told::level(&record, now))))
            }
            _ => Err(gone()),
        }
    }

    /// The hint to run with: that of the request, or of the lease when somebody asks again without it.
    async fn hint_override(
        &self,
        part: &Admitted,
        hinted: Option<UnitRequest>,
    ) -> Result<Option<String>, Problem> {
        let asked = match (hinted, &part.ticket.hint) {
            (None, Some(stored)) => {
                let record = self.record(&part.pool).await?;
                record.and_then(|record| UnitRequest::new(&record.settings, None, None, Some(stored)).ok())
            }
            (hinted, _) => hinted,
        };
        let granted = part.ticket.granted.unwrap_or(NonZeroU32::MIN);
        Ok(asked.and_then(|asked| asked.hint_override(granted).ok().flatten()))
    }

    fn unknown(&self, asked: &Acquire) -> AcquireAnswer {
        match self.state.inner().emr_agent.unknown {
            UnknownPool::Refuse => told::refused(Reason::UnknownPool, asked.parallel_hint, None),
            UnknownPool::Allow => AcquireAnswer::unguarded(asked.parallel_hint, asked.hint.clone()),
        }
    }

    async fn release(&self, asked: Release) -> Result<Value, Problem> {
        let unknown = || {
            let reason = Reason::UnknownPool;
            json!(told::not_released(Some(reason.document_word()), reason.sentence(), 0))
        };
        let Some(pool) = self.find(&asked.pool).await? else { return Ok(unknown()) };
        let AskedHolder { dag_id, dag_run_id: run_id, task_id, map_index } = &asked.holder;
        let by = match task_id {
            None if *map_index < 0 => ReleaseBy::Run { dag_id: dag_id.clone(), run_id: run_id.clone() },
            _ => ReleaseBy::Holder(holder(&asked.holder)?),
        };
        let command = Command {
            pool: pool.clone(),
            by,
            epoch: asked.epoch.map(Epoch::new),
            end: End::Released { failed: asked.outcome == Some(Outcome::Failed) },
            call: self.call.clone(),
        };
        match self.state.pools().release(command).await? {
            Answer::Released(released) => Ok(json!(told::released(&released))),
            Answer::Refused { .. } => Ok(unknown()),
            _ => {
                let usage = self.record(&pool).await?.map_or(0, |record| record.usage);
                let message = "a newer attempt of this holder has it; nothing was given back";
                Ok(json!(told::not_released(None, message, usage)))
            }
        }
    }

    async fn status(&self, asked: &Status) -> Result<StatusAnswer, Problem> {
        let only = match &asked.pool {
            Some(key) => match self.find(key).await? {
                Some(pool) => Some(pool),
                None => return Ok(StatusAnswer::new(Vec::new(), self.state.inner().parts.clock.now())),
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
        // By their numbers; those without one come last.
        records.sort_by_key(|record| record.settings.external_id.unwrap_or(i64::MAX));
        Ok(StatusAnswer::new(records.iter().map(|record| told::source(record, now)).collect(), now))
    }

    /// The pool that is meant, if the caller may use it.
    async fn find(&self, key: &PoolKey) -> Result<Option<PoolName>, Problem> {
        let found = match key {
            PoolKey::SrcDbId(id) => self.state.pools().by_external_id(*id).await?,
            // Whatever cannot be the name of a pool names none.
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

fn holder(asked: &AskedHolder) -> Result<Holder, Problem> {
    let task = asked.task_id.as_deref().unwrap_or_default();
    Holder::new(&asked.dag_id, &asked.dag_run_id, task, asked.map_index)
        .map_err(|bad| Problem::bad_request(bad.to_string(), "send shorter names of plain characters"))
}

/// How long a holder may be silent that means to be heard of so often.
pub(crate) fn lease(heartbeat_seconds: u32) -> Duration {
    Duration::from_secs(heartbeat_seconds.saturating_mul(MISSING_BEATS).clamp(5, 86_400).into())
}

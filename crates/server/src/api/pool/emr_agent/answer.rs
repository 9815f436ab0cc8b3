//! Answers of the EMR Batch Agent API: the fields of the agent under their names and in their order, then ours.

use super::EmrAgentOptions;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::num::NonZeroU32;
use tidemill_api::pool::HintWarning;
use tidemill_domain::hint::Warning;
use tidemill_domain::pool::Reason;
use tidemill_domain::pool::command::{Admitted, Level, Released, Waits};
use tidemill_domain::pool::weight::Lever;
use tidemill_domain::time::Timestamp;
use tidemill_store::pool::PoolRecord;

/// An answer as JSON, without the fields that are null.
pub(super) fn compact(answer: &impl Serialize) -> Value {
    let mut answer = json!(answer);
    if let Value::Object(fields) = &mut answer {
        fields.retain(|_, value| !value.is_null());
    }
    answer
}

/// The answer to an acquire. One order of fields fits the three forms of the agent: granted, downgraded and waiting.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub(super) struct AcquireAnswer {
    allowed: bool,
    downgraded: Option<bool>,
    original_parallel: Option<u32>,
    adjusted_parallel: Option<u32>,
    reason: Option<&'static str>,
    /// Units in use before the grant.
    current_usage: Option<u64>,
    after_usage: Option<u64>,
    available: Option<u64>,
    requested: Option<u64>,
    /// Repeat the request after this many seconds. Left out when waiting does not help.
    wait_seconds: Option<u32>,
    /// From 1.
    queue_position: Option<u32>,
    lease_id: Option<String>,
    epoch: Option<i64>,
    /// The degree of parallelism, also in a pool that grants sessions.
    granted_parallel: Option<u32>,
    /// Only in a pool that grants sessions.
    granted_sessions: Option<u32>,
    granted_units: Option<u64>,
    hint_override: Option<String>,
    eta_seconds: Option<u64>,
    duplicate: Option<bool>,
    upgrade_pending: Option<bool>,
    /// Units up to the capacity, beyond the limit.
    available_to_max: Option<u64>,
    over_by: Option<u64>,
    detail: Option<&'static str>,
    message: Option<&'static str>,
    /// About the hint of the request.
    warnings: Option<Vec<HintWarning>>,
}

impl AcquireAnswer {
    pub(super) fn with_warnings(self, warnings: Vec<Warning>) -> Self {
        let warnings: Vec<HintWarning> = warnings.into_iter().map(HintWarning::from).collect();
        Self { warnings: (!warnings.is_empty()).then_some(warnings), ..self }
    }

    /// `parallel` is the degree of a session, and `hint` the hint to run with.
    pub(super) fn admitted(
        part: &Admitted,
        parallel: NonZeroU32,
        is_duplicate: bool,
        hint: Option<String>,
        options: EmrAgentOptions,
    ) -> Self {
        let (ticket, level) = (&part.ticket, part.level);
        let (units, parallel) = (ticket.units(), parallel.get());
        let sessions = ticket.granted.filter(|_| part.lever == Lever::Sessions).map(NonZeroU32::get);
        let available = if options.compat_available { to_max(level) } else { level.available() };
        let granted = Self {
            allowed: true,
            current_usage: Some(level.usage.saturating_sub(units)),
            after_usage: Some(level.usage),
            available: Some(available),
            lease_id: Some(ticket.id.to_string()),
            epoch: Some(ticket.epoch.get()),
            granted_parallel: Some(parallel),
            granted_sessions: sessions,
            granted_units: Some(units),
            hint_override: hint,
            duplicate: is_duplicate.then_some(true),
            upgrade_pending: ticket.upgrade.is_some().then_some(true),
            available_to_max: Some(to_max(level)),
            over_by: over_by(level),
            ..Self::default()
        };
        if !ticket.is_downgraded() {
            return granted;
        }
        Self {
            downgraded: Some(true),
            // Fewer sessions have the same degree.
            original_parallel: Some(sessions.map_or(ticket.asked.get(), |_| parallel)),
            adjusted_parallel: Some(parallel),
            ..granted.because(Reason::PartialCapacity)
        }
    }

    /// The request waits. `asked` is the degree, if the request had one.
    pub(super) fn waits(waits: &Waits, asked: Option<NonZeroU32>) -> Self {
        Self {
            requested: Some(asked.map_or(waits.requested, |asked| asked.get().into())),
            wait_seconds: Some(waits.wait_seconds),
            queue_position: Some(waits.position),
            eta_seconds: waits.estimate.map(|estimate| estimate.p50.as_secs()),
            ..Self::refused(waits.reason, None, Some(waits.level))
        }
    }

    /// Waiting does not help. `level` is none if the pool does not exist.
    pub(super) fn refused(reason: Reason, asked: Option<NonZeroU32>, level: Option<Level>) -> Self {
        let answer = Self {
            current_usage: level.map(|level| level.usage),
            requested: asked.map(|asked| asked.get().into()),
            available_to_max: level.map(to_max),
            over_by: level.and_then(over_by),
            ..Self::default()
        };
        answer.because(reason)
    }

    /// The pool does not exist, and the installation allows such requests: there is no lease, and nothing is counted.
    pub(super) fn unguarded(parallel: Option<NonZeroU32>, hint: Option<String>) -> Self {
        let (granted_parallel, hint_override) = (parallel.map(NonZeroU32::get), hint);
        let answer = Self { allowed: true, granted_parallel, hint_override, ..Self::default() };
        answer.because(Reason::UnknownPool)
    }

    fn because(self, reason: Reason) -> Self {
        Self {
            reason: Some(reason.emr_agent_word()),
            detail: Some(reason.as_str()),
            message: Some(reason.sentence()),
            ..self
        }
    }
}

fn to_max(level: Level) -> u64 {
    u64::from(level.max_units).saturating_sub(level.usage)
}

fn over_by(level: Level) -> Option<u64> {
    Some(level.over_by()).filter(|units| *units > 0)
}

#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub(super) struct ReleaseAnswer {
    /// Whether any units were held.
    released: bool,
    released_connections: u64,
    current_usage: u64,
    cancelled_waiting: Option<bool>,
    reason: Option<&'static str>,
    message: Option<&'static str>,
}

impl ReleaseAnswer {
    pub(super) fn unknown_pool() -> Self {
        let reason = Reason::UnknownPool;
        Self { reason: Some(reason.emr_agent_word()), message: Some(reason.sentence()), ..Self::default() }
    }

    /// A newer attempt of the holder has the lease.
    pub(super) fn outdated(current_usage: u64) -> Self {
        let message = "a newer attempt of this holder has the lease; nothing was released";
        Self { current_usage, message: Some(message), ..Self::default() }
    }
}

impl From<&Released> for ReleaseAnswer {
    fn from(released: &Released) -> Self {
        let is_nothing = !released.released && !released.cancelled_waiting;
        Self {
            released: released.released,
            released_connections: released.units,
            current_usage: released.level.usage,
            cancelled_waiting: released.cancelled_waiting.then_some(true),
            reason: None,
            message: is_nothing.then_some("this holder has no lease and no waiting request"),
        }
    }
}

/// The answer to a status: the pools at `now`, in this order.
pub(super) fn status(records: &[PoolRecord], now: Timestamp) -> Value {
    let sources: Map<String, Value> = records.iter().map(|record| source(record, now)).collect();
    json!({ "sources": sources, "timestamp": to_the_second(now) })
}

/// A pool by the number of its source database, or by its name if it has none.
fn source(record: &PoolRecord, now: Timestamp) -> (String, Value) {
    let settings = &record.settings;
    let key = settings.external_id.map_or_else(|| settings.name.to_string(), |id| id.to_string());
    let level = record.level(now);
    let source = json!({
        "name": settings.name,
        "max_connections": level.max_units,
        "threshold": level.limit,
        "current_usage": level.usage,
        "available": level.available(),
        "active_batches": record.active,
        "waiting_batches": record.waiting,
        "paused": settings.paused.is_some(),
        "breaker": record.breaker.seen(settings.limit_at(now), now).phase.as_str(),
        "over_by": level.over_by(),
        "suspect_batches": record.suspect,
    });
    (key, source)
}

/// `2024-01-25T02:30:00Z`, as the agent writes it.
fn to_the_second(instant: Timestamp) -> String {
    let text = instant.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}

#[cfg(test)]
mod tests;

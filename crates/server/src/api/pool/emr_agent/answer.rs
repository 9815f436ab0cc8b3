//! What the document's clients are told: its fields under their names and in their order, and ours behind them.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::num::NonZeroU32;
use tidemill_domain::pool::Reason;
use tidemill_domain::time::Timestamp;
use utoipa::ToSchema;

/// How full a pool is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Units that are held.
    pub current: u64,
    /// Units that can still be granted.
    pub available: u64,
    /// Units up to the end of the pool, beyond what is granted.
    pub available_to_max: u64,
    /// Units that are held although the limit was lowered under them.
    pub over_by: u64,
}

/// Units that were granted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Granted {
    /// Units that were held before.
    pub before: u64,
    /// How full the pool is now.
    pub after: Usage,
    /// By which the grant is known.
    pub lease_id: String,
    /// What fences it.
    pub epoch: i64,
    /// How parallel the batch may run.
    pub parallel: NonZeroU32,
    /// How many units that takes.
    pub units: u64,
    /// The hint to run with, if one was given.
    pub hint: Option<String>,
    /// Whether it is the answer to a request that was made before.
    pub is_duplicate: bool,
    /// Whether the holder waits for more than it has.
    pub is_upgrade_pending: bool,
    /// Why it is less than was asked for, if so.
    pub detail: Option<String>,
    /// In a sentence.
    pub message: Option<String>,
}

/// Why there are no units yet, or never.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// One of the closed list of reasons.
    pub reason: &'static str,
    /// How full the pool is; none if there is no such pool.
    pub usage: Option<Usage>,
    /// How parallel the batch wants to run, if it says so.
    pub requested: Option<u64>,
    /// After how long it makes sense to ask again.
    pub wait_seconds: Option<u32>,
    /// How many are before it, and itself; none if it is not in the queue.
    pub queue_position: Option<u32>,
    /// When it is expected to be granted, from now.
    pub eta_seconds: Option<u32>,
    /// What the reason is about, such as the name of a pool that does not exist.
    pub detail: Option<String>,
    /// In a sentence.
    pub message: Option<String>,
}

/// The answer to an acquire. One order of fields suits the document's three forms.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, ToSchema)]
pub struct AcquireAnswer {
    /// Whether the batch may start.
    allowed: bool,
    /// With less than it wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    downgraded: Option<bool>,
    /// What it wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    original_parallel: Option<u32>,
    /// What it got.
    #[serde(skip_serializing_if = "Option::is_none")]
    adjusted_parallel: Option<u32>,
    /// Why it got less, or nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// Units that were held before.
    #[serde(skip_serializing_if = "Option::is_none")]
    current_usage: Option<u64>,
    /// Units that are held now.
    #[serde(skip_serializing_if = "Option::is_none")]
    after_usage: Option<u64>,
    /// Units that can still be granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    available: Option<u64>,
    /// How parallel the batch wants to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    requested: Option<u64>,
    /// After how many seconds it makes sense to ask again.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_seconds: Option<u32>,
    /// Its place in the queue, from 1 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_position: Option<u32>,
    /// By which the grant is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_id: Option<String>,
    /// What fences it.
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<i64>,
    /// How parallel the batch may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    granted_parallel: Option<u32>,
    /// How many units that takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    granted_units: Option<u64>,
    /// The hint to run with.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint_override: Option<String>,
    /// In how many seconds it is expected to be granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    eta_seconds: Option<u32>,
    /// The answer to a request that was made before.
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate: Option<bool>,
    /// It waits for more than it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    upgrade_pending: Option<bool>,
    /// Units up to the end of the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    available_to_max: Option<u64>,
    /// Units that are held although the limit was lowered under them.
    #[serde(skip_serializing_if = "Option::is_none")]
    over_by: Option<u64>,
    /// What the reason is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// In a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl AcquireAnswer {
    /// It got what it wanted.
    pub fn granted(granted: Granted) -> Self {
        Self {
            allowed: true,
            current_usage: Some(granted.before),
            after_usage: Some(granted.after.current),
            available: Some(granted.after.available),
            lease_id: Some(granted.lease_id),
            epoch: Some(granted.epoch),
            granted_parallel: Some(granted.parallel.get()),
            granted_units: Some(granted.units),
            hint_override: granted.hint,
            duplicate: granted.is_duplicate.then_some(true),
            upgrade_pending: granted.is_upgrade_pending.then_some(true),
            available_to_max: Some(granted.after.available_to_max),
            over_by: over(granted.after),
            detail: granted.detail,
            message: granted.message,
            ..Self::default()
        }
    }

    /// It got less than the `original` that it wanted.
    pub fn downgraded(granted: Granted, original: NonZeroU32, reason: &'static str) -> Self {
        Self {
            downgraded: Some(true),
            original_parallel: Some(original.get()),
            adjusted_parallel: Some(granted.parallel.get()),
            reason: Some(reason),
            ..Self::granted(granted)
        }
    }

    /// Nobody knows the pool, and the installation lets such requests through: no lease, and nothing is counted.
    pub fn unguarded(parallel: Option<NonZeroU32>, hint: Option<String>) -> Self {
        Self {
            allowed: true,
            reason: Some(Reason::UnknownPool.document_word()),
            granted_parallel: parallel.map(NonZeroU32::get),
            hint_override: hint,
            detail: Some(Reason::UnknownPool.as_str().to_owned()),
            message: Some(Reason::UnknownPool.sentence().to_owned()),
            ..Self::default()
        }
    }

    /// It has to wait, or waits in vain.
    pub fn waiting(waiting: Waiting) -> Self {
        Self {
            allowed: false,
            reason: Some(waiting.reason),
            current_usage: waiting.usage.map(|usage| usage.current),
            requested: waiting.requested,
            wait_seconds: waiting.wait_seconds,
            queue_position: waiting.queue_position,
            eta_seconds: waiting.eta_seconds,
            available_to_max: waiting.usage.map(|usage| usage.available_to_max),
            over_by: waiting.usage.and_then(over),
            detail: waiting.detail,
            message: waiting.message,
            ..Self::default()
        }
    }

    /// Whether the batch may start.
    pub fn is_allowed(&self) -> bool {
        self.allowed
    }
}

fn over(usage: Usage) -> Option<u64> {
    Some(usage.over_by).filter(|units| *units > 0)
}

/// The answer to a release.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct ReleaseAnswer {
    /// Whether there was something to give back.
    pub released: bool,
    /// How many units it was.
    pub released_connections: u64,
    /// Units that are held now.
    pub current_usage: u64,
    /// It waited, and does no longer.
    #[serde(skip_serializing_if = "is_false")]
    pub cancelled_waiting: bool,
    /// Why nothing was given back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// In a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// The answer to a status.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct StatusAnswer {
    /// The pools, by the number of the source database, or by their name if they have none.
    #[schema(value_type = std::collections::HashMap<String, Source>)]
    pub sources: Sources,
    /// When this was so.
    pub timestamp: String,
}

impl StatusAnswer {
    /// The pools as they stood at `now`, in this order.
    pub fn new(sources: Vec<(String, Source)>, now: Timestamp) -> Self {
        Self { sources: Sources(sources), timestamp: to_the_second(now) }
    }
}

/// Pools in their order: as texts, 10 would come before 4.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sources(Vec<(String, Source)>);

impl Serialize for Sources {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, source) in &self.0 {
            map.serialize_entry(key, source)?;
        }
        map.end()
    }
}

/// How one pool stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct Source {
    /// What it is called.
    pub name: String,
    /// Its units.
    pub max_connections: u64,
    /// Up to how many of them are granted.
    pub threshold: u64,
    /// Units that are held.
    pub current_usage: u64,
    /// Units that can still be granted.
    pub available: u64,
    /// How many hold units.
    pub active_batches: u64,
    /// How many wait for units.
    pub waiting_batches: u64,
    /// Whether nothing is granted for the time being.
    pub paused: bool,
    /// Units that are held although the limit was lowered under them.
    pub over_by: u64,
    /// How many of those that hold units have not been heard of.
    pub suspect_batches: u64,
}

/// `2024-01-25T02:30:00Z`, as the document writes it.
fn to_the_second(instant: Timestamp) -> String {
    let text = instant.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}

#[cfg(test)]
mod tests;

//! Requests for units.

use crate::SystemIds;
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_domain::pool::{Acquire, Class, Holder, Part, PoolName};

/// A request for units of one pool, or of several at once: it gets all of them or waits for all of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AcquireRequest {
    pub parts: Vec<AcquirePart>,
    pub holder: Holder,
    pub class: Class,
    /// The table that will be read; the duration is estimated from its earlier runs.
    pub table: String,
    pub hint: Option<String>,
    /// Heartbeat timeout, if the holder sends heartbeats.
    pub lease_for: Option<Duration>,
    /// Identifies the call in all its attempts over the network.
    pub call: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AcquirePart {
    pub pool: PoolName,
    /// Degree of parallelism; the pool's default otherwise.
    pub parallel: Option<NonZeroU32>,
    /// Number of sessions; 1 by default.
    pub sessions: Option<NonZeroU32>,
    /// Minimum that is acceptable; the pool's default otherwise.
    pub least: Option<NonZeroU32>,
}

impl AcquirePart {
    pub fn new(pool: PoolName, parallel: Option<NonZeroU32>) -> Self {
        Self { pool, parallel, sessions: None, least: None }
    }
}

impl AcquireRequest {
    pub fn new(holder: Holder, part: AcquirePart) -> Self {
        Self {
            parts: vec![part],
            holder,
            class: Class::default(),
            table: String::new(),
            hint: None,
            lease_for: None,
            call: None,
        }
    }

    /// `stays` is how long the caller waits for the answer.
    pub(super) fn command(&self, stays: Duration) -> Acquire {
        let request = SystemIds.ticket();
        let part = |part: &AcquirePart| Part {
            pool: part.pool.clone(),
            ticket: if self.parts.len() == 1 { request } else { SystemIds.ticket() },
            parallel: part.parallel,
            sessions: part.sessions,
            least: part.least,
        };
        Acquire {
            request,
            parts: self.parts.iter().map(part).collect(),
            holder: self.holder.clone(),
            class: self.class,
            table: self.table.clone(),
            hint: self.hint.clone(),
            lease_for: self.lease_for,
            stays,
            call: self.call.clone(),
        }
    }
}

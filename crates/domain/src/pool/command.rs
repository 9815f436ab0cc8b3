//! Commands to pools, and the answers.

use super::estimate::Estimate;
use super::weight::Lever;
use super::{Breaker, BreakerChange, Class, End, Holder, PoolName, Reason, Settings, Ticket, TicketId};
use crate::lease::Epoch;
use crate::newtype::approximate;
use crate::time::Timestamp;
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Requests units.
    Acquire(Box<Acquire>),
    /// Gives units back, or leaves the queue.
    Release(Box<Release>),
    /// A waiting caller has seen its grant.
    Claim { parts: Vec<(PoolName, TicketId)> },
    /// The caller left before it could hear of its grant.
    Unclaim { pool: PoolName, ticket: TicketId, epoch: Epoch },
    /// The holder is alive.
    Heartbeat { pool: PoolName, ticket: TicketId, epoch: Epoch },
    /// The ticket's time is over, by the database's clock.
    Lapsed { pool: PoolName, ticket: TicketId },
    /// A probe counted the holder's sessions, for the doubt that began at `doubted_at`; earlier ones do not count.
    Probed { pool: PoolName, ticket: TicketId, doubted_at: Timestamp, sessions: u32 },
    /// Changes the circuit breaker.
    Breaker { pool: PoolName, change: BreakerChange },
    /// Replaces the settings of the pool that they name.
    Configure { settings: Box<Settings>, by: Option<String> },
    /// Only runs a turn of the queue.
    Look { pool: PoolName },
}

impl Command {
    pub fn pools(&self) -> BTreeSet<PoolName> {
        match self {
            Self::Acquire(acquire) => acquire.parts.iter().map(|part| part.pool.clone()).collect(),
            Self::Release(release) => BTreeSet::from([release.pool.clone()]),
            Self::Claim { parts } => parts.iter().map(|(pool, _)| pool.clone()).collect(),
            Self::Unclaim { pool, .. }
            | Self::Heartbeat { pool, .. }
            | Self::Lapsed { pool, .. }
            | Self::Probed { pool, .. }
            | Self::Breaker { pool, .. }
            | Self::Look { pool } => BTreeSet::from([pool.clone()]),
            Self::Configure { settings, .. } => BTreeSet::from([settings.name.clone()]),
        }
    }

    pub fn call(&self) -> Option<&Call> {
        match self {
            Self::Acquire(acquire) => acquire.call.as_ref(),
            Self::Release(release) => release.call.as_ref(),
            _ => None,
        }
    }
}

/// A call of a client, the same in each of its retries over the network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    pub id: String,
    /// Its idempotency key, which no other request may use.
    pub key: Option<RequestKey>,
}

impl From<String> for Call {
    fn from(id: String) -> Self {
        Self { id, key: None }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestKey {
    pub caller: String,
    pub key: String,
    /// A hash of the whole request.
    pub fingerprint: Vec<u8>,
}

/// A request for units of one pool, or of several at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acquire {
    /// The id of the request if it is new.
    pub request: TicketId,
    pub parts: Vec<Part>,
    pub holder: Holder,
    pub class: Class,
    pub table: String,
    pub hint: Option<String>,
    /// How long the holder may be silent; set if it sends heartbeats.
    pub lease_for: Option<Duration>,
    /// When the work should have ended; none: what is usual.
    pub deadline: Option<Timestamp>,
    /// How long the caller waits for the answer.
    pub stays: Duration,
    pub call: Option<Call>,
}

impl Acquire {
    /// With the usual class, without heartbeats, for a caller that does not wait for the answer.
    pub fn new(request: TicketId, holder: Holder, parts: Vec<Part>) -> Self {
        let (class, table, stays) = (Class::default(), String::new(), Duration::ZERO);
        let (hint, lease_for, deadline, call) = (None, None, None, None);
        Self { request, parts, holder, class, table, hint, lease_for, deadline, stays, call }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    pub pool: PoolName,
    /// The ticket's id if it is new.
    pub ticket: TicketId,
    /// The degree of parallelism; the pool's default if none.
    pub parallel: Option<NonZeroU32>,
    /// One if none.
    pub sessions: Option<NonZeroU32>,
    /// The minimum; the pool's if none, and never less than that.
    pub least: Option<NonZeroU32>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReleaseBy {
    Run { dag_id: String, run_id: String },
    Holder(Holder),
    Ticket(TicketId),
}

impl ReleaseBy {
    pub fn names(&self, ticket: &Ticket) -> bool {
        match self {
            Self::Run { dag_id, run_id } => ticket.holder.is_of(dag_id, run_id),
            Self::Holder(holder) => ticket.holder == *holder,
            Self::Ticket(id) => ticket.id == *id,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Release {
    pub pool: PoolName,
    pub by: ReleaseBy,
    /// The epoch that the holder knows; without it, the key alone is enough.
    pub epoch: Option<Epoch>,
    pub end: End,
    pub call: Option<Call>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Granted in each pool; `is_duplicate` if the holder had the units before.
    Admitted { parts: Vec<Admitted>, is_duplicate: bool },
    /// In the queue.
    Waits(Box<Waits>),
    /// Waiting does not help.
    Refused { pool: PoolName, reason: Reason },
    /// What was released.
    Released(Released),
    /// The holder still has its units.
    Alive,
    /// There is no such ticket any more, or a later attempt of its holder has it.
    Gone,
    /// The idempotency key belongs to another request; nothing was done.
    KeyReused,
    /// No further answer.
    Done,
    /// Repeat the command in a pass that includes these pools.
    Wider(BTreeSet<PoolName>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Level {
    pub usage: u64,
    pub limit: u64,
    pub max_units: u32,
}

impl Level {
    /// The limit is that of the settings, lowered by the breaker.
    pub fn of(settings: &Settings, breaker: &Breaker, usage: u64, at: Timestamp) -> Self {
        let limit = breaker.limit(settings.limit_at(at), at);
        Self { usage, limit, max_units: settings.max_units_at(at) }
    }

    /// The share of the capacity in use; 100 if the pool has no units but some are in use.
    pub fn percent(self) -> f64 {
        self.percent_of(self.max_units.into())
    }

    /// The share in use of what may be in use: 100 if the pool is full, more while it is above its limit.
    pub fn percent_of_limit(self) -> f64 {
        self.percent_of(self.limit)
    }

    fn percent_of(self, whole: u64) -> f64 {
        match (self.usage, whole) {
            (0, _) => 0.0,
            (_, 0) => 100.0,
            (usage, whole) => approximate(usage) * 100.0 / approximate(whole),
        }
    }

    pub fn available(self) -> u64 {
        self.limit.saturating_sub(self.usage)
    }

    pub fn over_by(self) -> u64 {
        self.usage.saturating_sub(self.limit)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admitted {
    pub pool: PoolName,
    pub ticket: Ticket,
    /// What the pool grants: degrees of parallelism, or sessions.
    pub lever: Lever,
    pub level: Level,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waits {
    pub pool: PoolName,
    /// One in each pool that it still waits for.
    pub tickets: Vec<(PoolName, TicketId)>,
    pub requested: u64,
    /// From 1.
    pub position: u32,
    pub reason: Reason,
    pub level: Level,
    pub estimate: Option<Estimate>,
    /// When this was estimated.
    pub at: Timestamp,
    /// How many later requests started before it.
    pub overtaken: u32,
    pub wait_seconds: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Released {
    pub released: bool,
    pub units: u64,
    pub cancelled_waiting: bool,
    pub level: Level,
}

#[cfg(test)]
mod tests {
    #[test]
    fn of_nothing_anything_is_all_of_it() {
        use crate::pool::command::Level;
        assert_eq!(Level { usage: 720, limit: 950, max_units: 1_000 }.percent(), 72.0);
        assert_eq!(Level { usage: 0, limit: 0, max_units: 0 }.percent(), 0.0);
        assert_eq!(Level { usage: 3, limit: 0, max_units: 0 }.percent(), 100.0);
        assert_eq!(Level { usage: 3, limit: 0, max_units: 10 }.percent_of_limit(), 100.0);
    }

    #[test]
    fn a_full_pool_uses_all_of_its_limit() {
        use crate::pool::command::Level;
        let full = Level { usage: 800, limit: 800, max_units: 1_000 };
        assert_eq!((full.percent(), full.percent_of_limit()), (80.0, 100.0));
        assert_eq!(Level { usage: 1_000, ..full }.percent_of_limit(), 125.0);
    }
}

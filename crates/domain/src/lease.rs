//! The right of one process to act on one thing until an instant.
//!
//! ```text
//!   Free ──acquire──► Held(epoch + 1) ──renew──► Held        same owner, same epoch, still live
//!                      │   │   └──release──► Free            same owner, same epoch
//!                      │   └──expire──► Free                 no longer live
//!                      └──acquire──► Held(epoch + 1)         no longer live: a take-over
//! ```
//!
//! Invariants: a lease has at most one owner; its epoch grows with every owner and never shrinks; a lapsed lease is never
//! renewed. A write that settles leased work names owner and epoch, and [`settles`] says whether they still hold. Time
//! plays no part there, because a take-over always raises the epoch.

use crate::newtype::check_all;
use crate::process::ProcessId;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

crate::newtype::ids! {
    /// Counts the owners of a lease. A write with an old epoch comes from a former owner.
    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    pub struct Epoch(i64);
}

impl Epoch {
    /// The epoch of a lease that was never held.
    pub const ZERO: Self = Self(0);

    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// What a lease is for: a kind, defined by Tidemill, and a name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeaseKey {
    kind: String,
    name: String,
}

crate::getters!(LeaseKey {
    /// Fit for a metric's label.
    &kind: str,
    &name: str,
});

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadLeaseKey {
    #[error("a lease kind is 1 to 32 of a-z, 0-9 and _, starting with a letter")]
    Kind,
    #[error("a lease name is 1 to 200 characters without control characters")]
    Name,
}

impl LeaseKey {
    pub fn new(kind: &str, name: &str) -> Result<Self, BadLeaseKey> {
        let mut letters = kind.bytes();
        let starts_well = letters.next().is_some_and(|b| b.is_ascii_lowercase());
        let goes_on_well = letters.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        let is_name = (1..=200).contains(&name.chars().count()) && !name.chars().any(char::is_control);
        check_all([
            (starts_well && goes_on_well && kind.len() <= 32, BadLeaseKey::Kind),
            (is_name, BadLeaseKey::Name),
        ])?;
        Ok(Self { kind: kind.to_owned(), name: name.to_owned() })
    }
}

crate::newtype::display!(LeaseKey, key => "{}/{}", key.kind, key.name);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Term {
    /// As long as its process lives; costs no write of its own.
    Process,
    /// For this long, at most as long as its process lives.
    For(Duration),
}

impl Term {
    /// The end of a term that starts at `now`; none when only the process counts.
    pub fn until(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Process => None,
            Self::For(ttl) => Some(now.plus(ttl)),
        }
    }
}

/// What every settling write carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fence {
    pub owner: ProcessId,
    pub epoch: Epoch,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lease {
    /// `epoch` is the last owner's.
    Free { epoch: Epoch },
    /// May have lapsed. Without `until` it ends with its process.
    Held { fence: Fence, until: Option<Timestamp> },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    Alive,
    /// It has stopped, fallen silent, or is unknown.
    Gone,
}

impl Lease {
    pub const NEW: Self = Self::Free { epoch: Epoch::ZERO };

    pub fn epoch(&self) -> Epoch {
        match self {
            Self::Free { epoch } => *epoch,
            Self::Held { fence, .. } => fence.epoch,
        }
    }

    pub fn is_live(&self, owner: Life, now: Timestamp) -> bool {
        match self {
            Self::Free { .. } => false,
            Self::Held { until, .. } => owner == Life::Alive && until.is_none_or(|until| now < until),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseEvent {
    /// `life` is that of the process that asks: a dead one gets no lease.
    Acquire { by: ProcessId, life: Life, term: Term },
    /// The owner keeps it.
    Renew { fence: Fence, term: Term },
    /// The owner is done.
    Release { fence: Fence },
    /// Frees the lease if it has lapsed.
    Expire,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LeaseRefusal {
    #[error("the lease is held by process {} in epoch {}", fence.owner, fence.epoch)]
    Held { fence: Fence, until: Option<Timestamp> },
    /// Another owner or another epoch has it.
    #[error("the lease has moved on to epoch {current}")]
    Fenced { current: Epoch },
    /// The term or the process has ended, and the lease is not taken over yet.
    #[error("the lease has lapsed")]
    Lapsed,
    #[error("this process no longer counts as alive")]
    AskerGone,
}

/// The lease after `event`, given the `owner`'s life, or the refusal. Total.
pub fn next(lease: Lease, owner: Life, event: LeaseEvent, now: Timestamp) -> Result<Lease, LeaseRefusal> {
    match (lease, event) {
        (_, LeaseEvent::Acquire { life: Life::Gone, .. }) => Err(LeaseRefusal::AskerGone),
        (Lease::Held { fence, until }, LeaseEvent::Acquire { .. }) if lease.is_live(owner, now) => {
            Err(LeaseRefusal::Held { fence, until })
        }
        (_, LeaseEvent::Acquire { by, term, .. }) => Ok(Lease::Held {
            fence: Fence { owner: by, epoch: lease.epoch().next() },
            until: term.until(now),
        }),
        (_, LeaseEvent::Renew { fence, .. } | LeaseEvent::Release { fence }) if !settles(lease, fence) => {
            Err(LeaseRefusal::Fenced { current: lease.epoch() })
        }
        (_, LeaseEvent::Renew { .. }) if !lease.is_live(owner, now) => Err(LeaseRefusal::Lapsed),
        (Lease::Held { .. }, LeaseEvent::Renew { fence, term }) => {
            // Not the later of two ends: after the clock has gone back, the old end is too far ahead.
            Ok(Lease::Held { fence, until: term.until(now) })
        }
        (Lease::Held { fence, until }, LeaseEvent::Expire) if lease.is_live(owner, now) => {
            Err(LeaseRefusal::Held { fence, until })
        }
        (_, LeaseEvent::Release { .. } | LeaseEvent::Expire | LeaseEvent::Renew { .. }) => {
            Ok(Lease::Free { epoch: lease.epoch() })
        }
    }
}

/// Whether a write that carries `fence` may settle work under `lease`.
pub fn settles(lease: Lease, fence: Fence) -> bool {
    matches!(lease, Lease::Held { fence: current, .. } if current == fence)
}

#[cfg(test)]
mod tests;

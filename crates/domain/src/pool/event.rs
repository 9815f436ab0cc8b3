//! All that is ever decided about a pool, as an append-only log: the state is what follows from it.
//!
//! Heartbeats are not in it: they decide nothing. That one failed to come is.

use super::state::Change;
use super::{Holder, Settings, Ticket, TicketId, Weight};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// How a ticket ended. `GaveUp` also ends the tickets of a request in its other pools.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Released { failed: bool },
    ByOperator { by: String, reason: String },
    ByProbe,
    Unclaimed,
    HeldTooLong,
    StoppedAsking,
    GaveUp,
    ExceedsPool,
    PoolRemoved,
}

impl End {
    pub const fn change(&self) -> Change {
        match self {
            Self::Released { .. } | Self::ByOperator { .. } | Self::PoolRemoved => Change::Release,
            Self::ByProbe | Self::Unclaimed | Self::HeldTooLong | Self::StoppedAsking => Change::Lapse,
            Self::GaveUp | Self::ExceedsPool => Change::Cancel,
        }
    }

    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Released { failed: false } => "released",
            Self::Released { failed: true } => "released_failed",
            Self::ByOperator { .. } => "by_operator",
            Self::ByProbe => "by_probe",
            Self::Unclaimed => "unclaimed",
            Self::HeldTooLong => "held_too_long",
            Self::StoppedAsking => "stopped_asking",
            Self::GaveUp => "gave_up",
            Self::ExceedsPool => "exceeds_pool",
            Self::PoolRemoved => "pool_removed",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The pool was made or changed.
    Configured { settings: Box<Settings> },
    /// All that there is, so that what came before it can be forgotten.
    Snapshot { settings: Box<Settings>, tickets: Vec<Ticket> },
    /// Somebody stands in the queue.
    Enqueued { ticket: Box<Ticket> },
    /// Somebody in the queue asked again, and promised to do so until `ask_by`.
    Asked { ticket: TicketId, asked: NonZeroU32, least: NonZeroU32, weight: Weight, ask_by: Timestamp },
    /// Units are set aside for it, until `ask_by`.
    Granted { ticket: TicketId, parallel: NonZeroU32, ask_by: Timestamp },
    /// The holder has heard of its units, in this call.
    Claimed {
        ticket: TicketId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<String>,
    },
    /// The holder was gone before it could hear of them. It may claim them until `ask_by`.
    Unclaimed { ticket: TicketId, ask_by: Timestamp },
    /// The same holder asked again for what it has, so the epoch of its ticket grows.
    Reacquired {
        ticket: TicketId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<String>,
    },
    /// It gave some back, or got the rest of what it asked for.
    Resized { ticket: TicketId, parallel: NonZeroU32, asked: NonZeroU32 },
    /// It would like to have so much in all; or no longer more than it has.
    Wanted { ticket: TicketId, parallel: Option<NonZeroU32> },
    /// It was not heard of for too long.
    Doubted { ticket: TicketId },
    /// It was heard of again.
    Confirmed { ticket: TicketId },
    /// It has no units and wants none any more.
    Ended { ticket: TicketId, end: End },
}

impl Event {
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Configured { .. } => "configured",
            Self::Snapshot { .. } => "snapshot",
            Self::Enqueued { .. } => "enqueued",
            Self::Asked { .. } => "asked",
            Self::Granted { .. } => "granted",
            Self::Claimed { .. } => "claimed",
            Self::Unclaimed { .. } => "unclaimed",
            Self::Reacquired { .. } => "reacquired",
            Self::Resized { .. } => "resized",
            Self::Wanted { .. } => "wanted",
            Self::Doubted { .. } => "doubted",
            Self::Confirmed { .. } => "confirmed",
            Self::Ended { .. } => "ended",
        }
    }

    pub fn ticket(&self) -> Option<TicketId> {
        match self {
            Self::Configured { .. } | Self::Snapshot { .. } => None,
            Self::Enqueued { ticket } => Some(ticket.id),
            Self::Asked { ticket, .. }
            | Self::Granted { ticket, .. }
            | Self::Claimed { ticket, .. }
            | Self::Unclaimed { ticket, .. }
            | Self::Reacquired { ticket, .. }
            | Self::Resized { ticket, .. }
            | Self::Wanted { ticket, .. }
            | Self::Doubted { ticket }
            | Self::Confirmed { ticket }
            | Self::Ended { ticket, .. } => Some(*ticket),
        }
    }
}

/// An event with its place in the log of its pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The pass: each has one number more than the one before.
    pub version: i64,
    pub seq: i32,
    pub at: Timestamp,
    /// Whom it is about; none for the pool as a whole.
    pub holder: Option<Holder>,
    pub event: Event,
}

#[cfg(test)]
mod tests;

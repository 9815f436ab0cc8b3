//! The append-only log of a pool's decisions, from which its state follows. It has no heartbeats, only missed ones.

use super::decide::{Size, Turn};
use super::state::Change;
use super::ticket::Eta;
use super::{Breaker, Holder, Settings, Ticket, TicketId, Weight};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// How a ticket ended. `GaveUp` also ends the request's tickets in other pools.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Released {
        failed: bool,
    },
    /// Released by its holder, whom the database refused a connection.
    Refused {
        reason: String,
    },
    ByOperator {
        by: String,
        reason: String,
    },
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
            Self::Released { .. } | Self::Refused { .. } | Self::ByOperator { .. } | Self::PoolRemoved => {
                Change::Release
            }
            Self::ByProbe | Self::Unclaimed | Self::HeldTooLong | Self::StoppedAsking => Change::Lapse,
            Self::GaveUp | Self::ExceedsPool => Change::Cancel,
        }
    }

    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Released { failed: false } => "released",
            Self::Released { failed: true } => "released_failed",
            Self::Refused { .. } => "released_refused",
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
    /// The pool was created or changed.
    Configured {
        settings: Box<Settings>,
        /// None in records of versions that did not write it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// The whole state, so that earlier records can be deleted.
    Snapshot {
        settings: Box<Settings>,
        tickets: Vec<Ticket>,
        #[serde(default)]
        breaker: Box<Breaker>,
    },
    /// The circuit breaker was changed by a refusal, an operator, the time or its probe.
    Breaker { breaker: Box<Breaker> },
    /// A request joined the queue.
    Enqueued { ticket: Box<Ticket> },
    /// A waiting request asked again, and promised to do so until `ask_by`.
    Asked { ticket: TicketId, asked: NonZeroU32, least: NonZeroU32, weight: Weight, ask_by: Timestamp },
    /// Units are reserved until `ask_by`.
    Granted {
        ticket: TicketId,
        parallel: NonZeroU32,
        ask_by: Timestamp,
        #[serde(default, skip_serializing_if = "crate::newtype::is_default")]
        turn: Turn,
        #[serde(default, skip_serializing_if = "crate::newtype::is_default")]
        size: Size,
    },
    /// A request that waits was told when it should start.
    Estimated { ticket: TicketId, eta: Eta },
    /// The holder has heard of its grant, in this call.
    Claimed {
        ticket: TicketId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<String>,
    },
    /// The holder left before it could hear of its grant. It may claim it until `ask_by`.
    Unclaimed { ticket: TicketId, ask_by: Timestamp },
    /// The holder repeated its request, so the epoch grows.
    Reacquired {
        ticket: TicketId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<String>,
    },
    /// A holder has another number of units now: it gave some back, got more that it asked for, or its grant was raised
    /// before it was claimed.
    Resized { ticket: TicketId, parallel: NonZeroU32, asked: NonZeroU32 },
    /// It wants this much in total; none: no more than it has.
    Wanted { ticket: TicketId, parallel: Option<NonZeroU32> },
    /// It was silent for too long.
    Doubted { ticket: TicketId },
    /// It was heard of again.
    Confirmed { ticket: TicketId },
    /// The ticket has no units and is not waiting.
    Ended { ticket: TicketId, end: End },
}

crate::newtype::named!(Event, kind {
    Configured = "configured", Snapshot = "snapshot", Breaker = "breaker", Enqueued = "enqueued", Asked = "asked",
    Granted = "granted", Estimated = "estimated",
    Claimed = "claimed", Unclaimed = "unclaimed", Reacquired = "reacquired", Resized = "resized", Wanted = "wanted",
    Doubted = "doubted", Confirmed = "confirmed", Ended = "ended",
});

impl Event {
    pub fn ticket(&self) -> Option<TicketId> {
        match self {
            Self::Configured { .. } | Self::Snapshot { .. } | Self::Breaker { .. } => None,
            Self::Enqueued { ticket } => Some(ticket.id),
            Self::Asked { ticket, .. }
            | Self::Granted { ticket, .. }
            | Self::Estimated { ticket, .. }
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

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The number of the pass, without gaps.
    pub version: i64,
    pub seq: i32,
    pub at: Timestamp,
    /// None for the pool as a whole.
    pub holder: Option<Holder>,
    pub event: Event,
    /// The sentence for the list of recent events; none for minor events.
    pub summary: Option<String>,
}

#[cfg(test)]
mod tests;

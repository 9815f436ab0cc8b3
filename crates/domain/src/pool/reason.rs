//! Why a request waits, or got less, or nothing: a closed list, the same words for every reader.

use std::fmt;

/// Why it is as it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// The pool has not enough left for it, and it is the first in the queue.
    PoolFull,
    /// Others are before it in the queue.
    BehindInQueue,
    /// There would be room, but it is set aside for a larger request that came before.
    LargerRequestReserved,
    /// It asks for several pools at once, and another of them cannot serve it now.
    OtherPool,
    /// Somebody paused the pool.
    PoolPaused,
    /// The pool has fewer units at this time of day, and more are in use.
    OutsideWindow,
    /// The limit was lowered below what is in use.
    CapacityShrunk,
    /// The pool never has as much as the least that would do.
    ExceedsPool,
    /// There is no such pool.
    UnknownPool,
    /// So many wait already that no more are taken.
    QueueFull,
    /// It got less than it asked for, because more did not fit.
    PartialCapacity,
}

/// All reasons.
pub const REASONS: [Reason; 11] = [
    Reason::PoolFull,
    Reason::BehindInQueue,
    Reason::LargerRequestReserved,
    Reason::OtherPool,
    Reason::PoolPaused,
    Reason::OutsideWindow,
    Reason::CapacityShrunk,
    Reason::ExceedsPool,
    Reason::UnknownPool,
    Reason::QueueFull,
    Reason::PartialCapacity,
];

impl Reason {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PoolFull => "pool_full",
            Self::BehindInQueue => "behind_in_queue",
            Self::LargerRequestReserved => "larger_request_reserved",
            Self::OtherPool => "other_pool",
            Self::PoolPaused => "pool_paused",
            Self::OutsideWindow => "outside_window",
            Self::CapacityShrunk => "capacity_shrunk",
            Self::ExceedsPool => "exceeds_pool",
            Self::UnknownPool => "unknown_pool",
            Self::QueueFull => "queue_full",
            Self::PartialCapacity => "partial_capacity_available",
        }
    }

    /// The word of the document's wire format, which knows only two; the rest are ours.
    pub const fn document_word(self) -> &'static str {
        match self {
            Self::PoolFull
            | Self::BehindInQueue
            | Self::LargerRequestReserved
            | Self::OtherPool
            | Self::OutsideWindow
            | Self::CapacityShrunk => "connection_limit_exceeded",
            Self::PoolPaused
            | Self::ExceedsPool
            | Self::UnknownPool
            | Self::QueueFull
            | Self::PartialCapacity => self.as_str(),
        }
    }

    /// Whether waiting may help.
    pub const fn passes(self) -> bool {
        !matches!(self, Self::ExceedsPool | Self::UnknownPool)
    }

    /// A sentence for people.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::PoolFull => {
                "the pool has not enough units left, and this request is the first in the queue"
            }
            Self::BehindInQueue => "other requests are before it in the queue",
            Self::LargerRequestReserved => {
                "there would be room, but it is set aside for a larger request that came before"
            }
            Self::OtherPool => "it asks for several pools at once, and another of them cannot serve it now",
            Self::PoolPaused => "the pool is paused",
            Self::OutsideWindow => "the pool has fewer units at this time of day",
            Self::CapacityShrunk => {
                "the limit was lowered below what is in use; nothing starts until enough is given back"
            }
            Self::ExceedsPool => "the pool never has as many units as the least that this request needs",
            Self::UnknownPool => "there is no such pool",
            Self::QueueFull => "too many requests wait already",
            Self::PartialCapacity => "it got less than it asked for, because more did not fit",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

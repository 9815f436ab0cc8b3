//! Why a request waits, or got less, or nothing: a closed list, the same words for every reader.

crate::words! {
    /// Why it is as it is.
    #[derive(Hash)]
    pub enum Reason {
        /// The pool has not enough left for it, and it is the first in the queue.
        PoolFull = "pool_full",
        /// Others are before it in the queue.
        BehindInQueue = "behind_in_queue",
        /// There would be room, but it is set aside for a larger request that came before.
        LargerRequestReserved = "larger_request_reserved",
        /// It asks for several pools at once, and another of them cannot serve it now.
        OtherPool = "other_pool",
        PoolPaused = "pool_paused",
        /// The pool has fewer units at this time of day, and more are in use.
        OutsideWindow = "outside_window",
        /// The limit was lowered below what is in use.
        CapacityShrunk = "capacity_shrunk",
        /// The pool never has as much as the least that would do.
        ExceedsPool = "exceeds_pool",
        /// There is no such pool.
        UnknownPool = "unknown_pool",
        /// So many wait already that no more are taken.
        QueueFull = "queue_full",
        /// It got less than it asked for, because more did not fit.
        PartialCapacity = "partial_capacity_available",
    }
}

impl Reason {
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

    pub const fn passes(self) -> bool {
        !matches!(self, Self::ExceedsPool | Self::UnknownPool)
    }

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

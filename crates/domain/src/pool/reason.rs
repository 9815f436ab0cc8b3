//! Why a request waits, got less, or was refused: a closed list.

crate::words! {
    #[derive(Hash)]
    pub enum Reason {
        PoolFull = "pool_full",
        BehindInQueue = "behind_in_queue",
        LargerRequestReserved = "larger_request_reserved",
        OtherPool = "other_pool",
        PoolPaused = "pool_paused",
        OutsideWindow = "outside_window",
        CapacityShrunk = "capacity_shrunk",
        ExceedsPool = "exceeds_pool",
        UnknownPool = "unknown_pool",
        QueueFull = "queue_full",
        PartialCapacity = "partial_capacity_available",
    }
}

impl Reason {
    /// The word in the EMR Batch Agent API, which defines only two; the rest are ours.
    pub const fn emr_agent_word(self) -> &'static str {
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
                "the pool does not have enough free units, and this request is the first in the queue"
            }
            Self::BehindInQueue => "other requests are ahead of it in the queue",
            Self::LargerRequestReserved => {
                "the free units are reserved for a larger request that came before"
            }
            Self::OtherPool => "it needs several pools at once, and another of them has no room now",
            Self::PoolPaused => "the pool is paused",
            Self::OutsideWindow => "the pool has fewer units at this time of day",
            Self::CapacityShrunk => {
                "the limit was lowered below the usage; nothing starts until enough units are released"
            }
            Self::ExceedsPool => "the minimum of this request is larger than the pool",
            Self::UnknownPool => "there is no such pool",
            Self::QueueFull => "too many requests are waiting",
            Self::PartialCapacity => "it got fewer units than requested, because more did not fit",
        }
    }
}

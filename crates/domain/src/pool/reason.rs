//! Why a request waits, got less, or was refused: a closed list.

crate::words! {
    #[derive(Hash)]
    pub enum Reason => sentence: &'static str {
        PoolFull = "pool_full" => "the pool does not have enough free units, and this request is the first in the queue",
        BehindInQueue = "behind_in_queue" => "other requests are ahead of it in the queue",
        EndsEarlierInFull = "ends_earlier_in_full" => "it should end earlier if it waits for all of its units than if it starts with less now",
        PoolDraining = "pool_draining" => "units are kept for a request ahead of it that has waited longer than estimated, was overtaken often, or has units and waits for more",
        LargerRequestReserved = "larger_request_reserved" => "the free units are reserved for a larger request that came before",
        OtherPool = "other_pool" => "it needs several pools at once, and another of them has no room now",
        PoolPaused = "pool_paused" => "the pool is paused",
        BreakerOpen = "breaker_open" => "the database refused connections, so the pool grants nothing or little until it has recovered",
        OutsideWindow = "outside_window" => "the pool has fewer units at this time of day",
        CapacityShrunk = "capacity_shrunk" => "the limit was lowered below the usage; nothing starts until enough units are released",
        ExceedsPool = "exceeds_pool" => "the minimum of this request is larger than the pool",
        UnknownPool = "unknown_pool" => "there is no such pool",
        QueueFull = "queue_full" => "too many requests are waiting",
        PartialCapacity = "partial_capacity_available" => "it got fewer units than requested, because more did not fit",
    }
}

impl Reason {
    /// The word in the EMR Batch Agent API, which defines only two; the rest are ours.
    pub const fn emr_agent_word(self) -> &'static str {
        match self {
            Self::PoolFull
            | Self::BehindInQueue
            | Self::EndsEarlierInFull
            | Self::PoolDraining
            | Self::LargerRequestReserved
            | Self::OtherPool
            | Self::BreakerOpen
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
}

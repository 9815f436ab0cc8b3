//! The order of a queue: by class, and within a class by arrival. Who waits long is promoted, one class at a time, so
//! that nobody waits for ever.
//!
//! The time to a promotion is the same for all pools on purpose: a request for several pools stands in several queues,
//! and if two such requests could stand in different orders in two of them, each might wait for the other for ever.

use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// After so long in a class, a waiter counts as one of the next higher class.
pub const AGING: Duration = Duration::from_secs(15 * 60);

crate::words! {
    /// How urgent a request is.
    #[derive(PartialOrd, Ord, Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Class: "a class is critical, normal or bulk" {
        Critical = "critical",
        #[default]
        Normal = "normal",
        Bulk = "bulk",
    }
}

impl Class {
    /// Its place in the queue after it has waited since `enqueued_at`; lower goes first.
    pub fn rank(self, enqueued_at: Timestamp, now: Timestamp) -> u8 {
        let promotions = now.since(enqueued_at).as_secs() / AGING.as_secs();
        let rank: u8 = match self {
            Self::Critical => 0,
            Self::Normal => 1,
            Self::Bulk => 2,
        };
        rank.saturating_sub(u8::try_from(promotions).unwrap_or(u8::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_long_enough_goes_first() {
        let start = Timestamp::EPOCH;
        let after = |minutes: u64| start.plus(Duration::from_secs(minutes * 60));

        assert_eq!(Class::Bulk.rank(start, after(14)), 2);
        assert_eq!(Class::Bulk.rank(start, after(15)), 1);
        assert_eq!(Class::Bulk.rank(start, after(30)), 0);
        assert_eq!(Class::Bulk.rank(start, after(100_000)), 0);
        assert_eq!(Class::Normal.rank(after(30), start), 1, "a clock that jumped back promotes nobody");
    }
}

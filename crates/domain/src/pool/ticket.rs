//! A ticket: one request of one holder for units of one pool, from the queue to the end. While it counts it is what the
//! holder knows as its lease.

use super::{Holder, PoolName, State, Weight};
use crate::duration;
use crate::lease::Epoch;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::time::Duration;

crate::newtype::uuids! {
    /// One ticket, or one request that has tickets of several pools.
    pub struct TicketId
    else BadTicketId: "the id of a lease is a UUID such as 018f3c5e-1d2b-7cc3-9b1a-6f0a4e7d2c11";
}

crate::newtype::serde_as_text!(TicketId);

/// More than a holder has: it goes on with what it has and queues for the difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Upgrade {
    pub parallel: NonZeroU32,
    pub since: Timestamp,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ticket {
    /// Its id, which is that of the lease.
    pub id: TicketId,
    /// The request that it is part of; its own id when that asks for one pool only.
    pub request: TicketId,
    /// The other pools of the request: all start together or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<PoolName>,
    pub holder: Holder,
    pub state: State,
    pub class: Class,
    pub weight: Weight,
    pub asked: NonZeroU32,
    pub least: NonZeroU32,
    /// What it has; none in the queue.
    pub granted: Option<NonZeroU32>,
    pub upgrade: Option<Upgrade>,
    /// Grows with every attempt of its holder: who comes with an older one is a ghost.
    pub epoch: Epoch,
    pub enqueued_at: Timestamp,
    pub granted_at: Option<Timestamp>,
    pub claimed_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubted_at: Option<Timestamp>,
    /// Until when its holder promised to ask again; in the queue, or before it has heard of its units.
    pub ask_by: Timestamp,
    /// How long its holder may be silent; none when it sends no heartbeats.
    #[serde(with = "duration::optional_text")]
    pub lease_for: Option<Duration>,
    /// The table that it reads, which with the DAG says how long it will take.
    pub table: String,
    pub hint: Option<String>,
    /// The call that brought it, or that last asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
}

impl Ticket {
    pub fn units(&self) -> u64 {
        self.granted.filter(|_| self.state.counts()).map_or(0, |granted| self.weight.units(granted))
    }

    /// The units that it wants on top of those.
    pub fn wanted(&self) -> u64 {
        match (self.state, &self.upgrade) {
            (State::Waiting, _) => self.weight.units(self.asked),
            (state, Some(upgrade)) if state.counts() => {
                self.weight.units(upgrade.parallel).saturating_sub(self.units())
            }
            _ => 0,
        }
    }

    /// Whether it stands in the queue, with nothing or for more.
    pub fn is_queued(&self) -> bool {
        self.state == State::Waiting || (self.upgrade.is_some() && self.state.counts())
    }

    pub fn queued_since(&self) -> Timestamp {
        match (&self.upgrade, self.state) {
            (Some(upgrade), state) if state.counts() => upgrade.since,
            _ => self.enqueued_at,
        }
    }

    /// Since when it has its units; of one that has none, since when it is there.
    pub fn held_since(&self) -> Timestamp {
        self.claimed_at.or(self.granted_at).unwrap_or(self.enqueued_at)
    }

    /// Its place in the queue; the lowest goes first. The request's id comes last and settles every draw, in the
    /// same way in every pool.
    pub fn order(&self, now: Timestamp) -> (u8, Timestamp, TicketId) {
        let since = self.queued_since();
        (self.class.rank(since, now), since, self.request)
    }

    pub fn is_downgraded(&self) -> bool {
        self.granted.is_some_and(|granted| granted < self.asked)
    }
}

/// After so long in a class, a waiter counts as one of the next higher class. This is the same for all pools on purpose: a
/// request for several pools stands in several queues, and if two such requests could stand in different orders in two of
/// them, each might wait for the other for ever.
pub const AGING: Duration = Duration::from_secs(15 * 60);

crate::words! {
    /// How urgent a request is. A queue goes by class, and within a class by arrival. Who waits long is promoted, one
    /// class at a time, so that nobody waits for ever.
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
        (self as u8).saturating_sub(u8::try_from(promotions).unwrap_or(u8::MAX))
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

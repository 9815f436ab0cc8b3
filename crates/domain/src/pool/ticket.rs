//! A ticket: a holder's request for units of one pool, from the queue to the end. Once granted, it is the holder's lease.

use super::{Holder, PoolName, State, Weight};
use crate::duration;
use crate::lease::Epoch;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::time::Duration;
use uuid::Uuid;

crate::newtype::ids! {
    /// A ticket, or a request that has tickets in several pools.
    pub struct TicketId(Uuid);
}

crate::newtype::parsed!(
    TicketId, |text| Uuid::try_parse(text).ok().map(Self),
    BadTicketId: "the id of a lease is a UUID such as 018f3c5e-1d2b-7cc3-9b1a-6f0a4e7d2c11"
);
crate::newtype::serde_as_text!(TicketId);

/// The holder keeps what it has and queues for the difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Upgrade {
    pub parallel: NonZeroU32,
    pub since: Timestamp,
}

/// When a waiting request should start, as it was estimated when it joined the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Eta {
    pub p50: Timestamp,
    pub p90: Timestamp,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ticket {
    /// Also the id of the lease.
    pub id: TicketId,
    /// The request; the same id if it is for one pool.
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
    /// None in the queue.
    pub granted: Option<NonZeroU32>,
    pub upgrade: Option<Upgrade>,
    /// Grows with every attempt of its holder; older epochs are refused.
    pub epoch: Epoch,
    pub enqueued_at: Timestamp,
    pub granted_at: Option<Timestamp>,
    pub claimed_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubted_at: Option<Timestamp>,
    /// When it should have ended; none: what is usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta: Option<Eta>,
    /// How many later requests started while it waited.
    #[serde(default, skip_serializing_if = "crate::newtype::is_default")]
    pub overtaken: u32,
    /// Until when its holder promised to ask again, in the queue or before the claim.
    pub ask_by: Timestamp,
    /// How long its holder may be silent; none without heartbeats.
    #[serde(with = "duration::optional_text")]
    pub lease_for: Option<Duration>,
    /// The table that it reads, which with the DAG determines the expected run time.
    pub table: String,
    pub hint: Option<String>,
    /// The call that created it, or last asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
}

impl Ticket {
    /// A new request for units of one pool, all or none of them.
    pub fn new(id: TicketId, holder: Holder, asked: NonZeroU32, enqueued_at: Timestamp) -> Self {
        Self {
            id,
            request: id,
            with: Vec::new(),
            holder,
            state: State::Waiting,
            class: Class::default(),
            weight: Weight::PLAIN,
            asked,
            least: asked,
            granted: None,
            upgrade: None,
            epoch: Epoch::ZERO,
            enqueued_at,
            granted_at: None,
            claimed_at: None,
            doubted_at: None,
            deadline: None,
            eta: None,
            overtaken: 0,
            ask_by: enqueued_at,
            lease_for: None,
            table: String::new(),
            hint: None,
            call: None,
        }
    }

    pub fn units(&self) -> u64 {
        self.granted.filter(|_| self.state.counts()).map_or(0, |granted| self.weight.units(granted))
    }

    pub fn wanted(&self) -> u64 {
        match (self.state, &self.upgrade) {
            (State::Waiting, _) => self.weight.units(self.asked),
            (state, Some(upgrade)) if state.counts() => {
                self.weight.units(upgrade.parallel).saturating_sub(self.units())
            }
            _ => 0,
        }
    }

    /// Waiting for its first units or for more.
    pub fn is_queued(&self) -> bool {
        self.state == State::Waiting || (self.upgrade.is_some() && self.state.counts())
    }

    pub fn queued_since(&self) -> Timestamp {
        match (&self.upgrade, self.state) {
            (Some(upgrade), state) if state.counts() => upgrade.since,
            _ => self.enqueued_at,
        }
    }

    /// When it got its units, or was created.
    pub fn held_since(&self) -> Timestamp {
        self.claimed_at.or(self.granted_at).unwrap_or(self.enqueued_at)
    }

    /// Its place in the queue, lowest first. The request's id breaks ties, in the same way in every pool.
    pub fn order(&self, now: Timestamp) -> (u8, Timestamp, TicketId) {
        let since = self.queued_since();
        (self.class.rank(since, now), since, self.request)
    }

    pub fn is_downgraded(&self) -> bool {
        self.granted.is_some_and(|granted| granted < self.asked)
    }
}

/// After this time in a class, a waiting request is promoted to the next higher class. It is the same for all pools on
/// purpose: if two requests for several pools could have different orders in two queues, each might wait for the other
/// forever.
pub const AGING: Duration = Duration::from_secs(15 * 60);

crate::words! {
    /// Queues are ordered by class, then by arrival. A long wait promotes a request, so that none waits forever.
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
    /// Lower goes first.
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

//! Invariants after every pass.

use super::world::World;
use crate::pool::breaker::Phase;
use crate::pool::pass::Outcome;
use crate::pool::{Breaker, Policy, PoolName, State, Ticket};
use crate::time::Timestamp;
use std::collections::BTreeSet;
use std::time::Duration;

impl World {
    /// Checks these pools, which have just had their turn.
    pub(super) fn check(&self, pools: &BTreeSet<PoolName>, outcome: &Outcome) {
        for (pool, tickets) in &outcome.tickets {
            for ticket in tickets.values() {
                self.check_together(ticket);
                match self.ledgers[pool].ticket(ticket.id) {
                    Some(live) => check_ticket(live),
                    None => assert!(ticket.state.has_ended(), "{ticket:?}"),
                }
            }
        }
        for pool in pools {
            let ledger = &self.ledgers[pool];
            let usage: u64 = ledger.tickets().map(Ticket::units).sum();
            assert_eq!(usage, ledger.usage(), "{pool}");
            assert_eq!(usage, self.seats[pool].usage, "{pool}");
            if !outcome.wider.contains(pool) {
                self.check_nobody_is_forgotten(pool);
            }
        }
    }

    /// Checks everything, also what no pass has touched for long.
    pub(super) fn check_all(&self) {
        for (pool, ledger) in &self.ledgers {
            for ticket in ledger.tickets() {
                check_ticket(ticket);
                self.check_together(ticket);
                assert_eq!(ledger.of_holder(&ticket.holder), Some(ticket), "a second ticket of one holder");
            }
            assert_eq!(ledger.tickets().count(), self.seats[pool].len(), "{pool}");
            let first = ledger.queue(self.now).first().map(|ticket| ticket.id);
            assert_eq!(first, self.seats[pool].first(self.now), "{pool}");
        }
    }

    /// All parts of a request have units or none has, except for released parts.
    fn check_together(&self, ticket: &Ticket) {
        for pool in &ticket.with {
            let sibling = self.ledgers[pool].of_holder(&ticket.holder);
            match sibling.filter(|sibling| sibling.request == ticket.request) {
                // A request that has left one queue has left all.
                Some(sibling) if ticket.state.has_ended() => assert_ne!(sibling.state, State::Waiting),
                None if ticket.state.has_ended() => {}
                Some(sibling) => assert_eq!(sibling.state.counts(), ticket.state.counts(), "{ticket:?}"),
                None => assert_ne!(ticket.state, State::Waiting, "{ticket:?}"),
            }
        }
    }

    /// The first of the queue does not fit, here or in another of its pools.
    fn check_nobody_is_forgotten(&self, pool: &PoolName) {
        let Some(first) = self.seats[pool].first(self.now) else { return };
        let ticket = self.ledgers[pool].ticket(first).unwrap();
        if !self.fits(pool, ticket) {
            return;
        }
        let is_stopped_elsewhere = ticket.with.iter().any(|other| {
            let sibling = self.ledgers[other].of_holder(&ticket.holder);
            let is_first = |sibling: &Ticket| self.seats[other].first(self.now) == Some(sibling.id);
            sibling.is_some_and(|sibling| !is_first(sibling) || !self.fits(other, sibling))
        });
        let waits_for_several = ticket.state == State::Waiting && !ticket.with.is_empty();
        assert!(waits_for_several && is_stopped_elsewhere, "{pool} has forgotten {ticket:?}");
    }

    /// Whether there is room for the minimum of a ticket.
    fn fits(&self, pool: &PoolName, ticket: &Ticket) -> bool {
        let ledger = &self.ledgers[pool];
        let settings = ledger.settings();
        let parallel = match (ticket.upgrade, settings.policy) {
            (Some(upgrade), _) => upgrade.parallel,
            (None, Policy::Fifo | Policy::Adaptive) => ticket.asked,
            (None, Policy::Halving) => ticket.least.min(ticket.asked),
        };
        let usage = ledger.usage() - ticket.units() + ticket.weight.units(parallel);
        let breaker = ledger.breaker();
        let limit = match breaker.phase {
            Phase::Closed | Phase::Probing { ticket: None } => settings.limit_at(self.now),
            Phase::Ramping => ramp(breaker, settings.limit_at(self.now), self.now),
            Phase::Probing { ticket: Some(_) } | Phase::Open { .. } => return false,
        };
        settings.paused.is_none() && usage <= limit
    }
}

/// The limit of a breaker that is ramping, step by step.
pub(super) fn ramp(breaker: &Breaker, limit: u64, now: Timestamp) -> u64 {
    let mut units = breaker.units.max(1);
    let mut at = breaker.since.plus(Duration::from_secs(30));
    while at <= now && units < limit {
        units += limit.div_ceil(20);
        at = at.plus(Duration::from_secs(30));
    }
    units.min(limit)
}

fn check_ticket(ticket: &Ticket) {
    assert!(!ticket.state.has_ended());
    assert_eq!(ticket.granted.is_some(), ticket.state.counts(), "{ticket:?}");
    if let Some(granted) = ticket.granted {
        assert!(ticket.least <= granted && granted <= ticket.asked, "{ticket:?}");
        assert!(ticket.upgrade.is_none_or(|upgrade| upgrade.parallel > granted), "{ticket:?}");
    }
    assert_eq!(ticket.claimed_at.is_some(), matches!(ticket.state, State::Running | State::Suspect));
}

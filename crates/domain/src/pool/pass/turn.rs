//! The turn of the queues: grants units to the tickets that may start.
//!
//! A request for several pools starts in all of them or in none. So offers are withdrawn from requests that were not
//! offered units in all pools, and the policies run again with these held, until nothing changes. That ends, because held
//! requests only grow. Every queue has the same order, so the first of all requests is the first in each of its pools,
//! and two requests never wait for each other.

use super::Pass;
use crate::pool::decide::{Claimant, Grant, Policy, Size, View, adaptive_steps, decide};
use crate::pool::estimate::Outlook;
use crate::pool::ledger::Contradiction;
use crate::pool::{End, Event, Ledger, PoolName, State, Ticket, TicketId};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

impl Pass<'_> {
    pub(super) fn turn(&mut self) -> Result<(), Contradiction> {
        self.advance_breakers()?;
        self.turn_away()?;
        let queue = |ledger: &Ledger| {
            let queue = ledger.queue(self.now).into_iter().map(Claimant::of).collect();
            ledger.breaker().admits(queue, ledger.settings().policy)
        };
        let queues: BTreeMap<PoolName, Vec<Claimant>> =
            self.ledgers.iter().map(|(pool, ledger)| (pool.clone(), queue(ledger))).collect();
        let unreachable = self.unreachable();
        let mut held = unreachable.clone();
        let offers = loop {
            let offers = self.offers(&queues, &held);
            let partly = self.partly_offered(&offers);
            if partly.is_empty() {
                break offers;
            }
            held.extend(partly);
        };
        for (pool, grants) in &offers {
            let is_left = |claimant: &&Claimant| !grants.iter().any(|grant| grant.ticket == claimant.ticket);
            let head = queues.get(pool).and_then(|queue| queue.iter().find(is_left));
            let is_stuck = |head: &&Claimant| {
                unreachable.contains(&head.ticket) && self.may_move(pool, grants, &queues, head)
            };
            if let Some(head) = head.filter(is_stuck) {
                let needed = self.ticket(pool, head.ticket).map(|ticket| self.needed_pools(ticket));
                self.outcome.wider.extend(needed.into_iter().flatten());
                self.outcome.wider.insert(pool.clone());
            }
        }
        for (pool, grants) in offers {
            for grant in grants {
                self.grant(&pool, grant)?;
            }
        }
        self.raise()
    }

    /// Where nobody waits, requests that got less get more, as long as their holders have not heard of the grant.
    fn raise(&mut self) -> Result<(), Contradiction> {
        let mut raised = Vec::new();
        for (pool, ledger) in self.ledgers.iter() {
            let settings = ledger.settings();
            let is_stopped = settings.paused.is_some() || ledger.breaker().is_open();
            if settings.policy != Policy::Adaptive || is_stopped || ledger.tickets().any(Ticket::is_queued) {
                continue;
            }
            let mut room = ledger.level_at(self.now).available();
            let is_small = |ticket: &&Ticket| {
                ticket.state == State::Granted && ticket.is_downgraded() && ticket.upgrade.is_none()
            };
            for ticket in ledger.tickets().filter(is_small) {
                let more =
                    |parallel: &NonZeroU32| ticket.weight.units(*parallel).saturating_sub(ticket.units());
                let mut steps = adaptive_steps(ticket.asked, ticket.least);
                let largest = steps.find(|step| Some(*step) > ticket.granted && more(step) <= room);
                if let Some(parallel) = largest {
                    room -= more(&parallel);
                    raised.push((pool.clone(), ticket.id, parallel, ticket.asked));
                }
            }
        }
        for (pool, ticket, parallel, asked) in raised {
            self.apply(&pool, Event::Resized { ticket, parallel, asked })?;
        }
        Ok(())
    }

    /// Whether the head of a queue would get units or be refused here if its other pools were part of the pass.
    fn may_move(
        &self,
        pool: &PoolName,
        grants: &[Grant],
        queues: &BTreeMap<PoolName, Vec<Claimant>>,
        head: &Claimant,
    ) -> bool {
        let (Some(ledger), Some(queue)) = (self.ledgers.get(pool), queues.get(pool)) else { return false };
        let settings = ledger.settings();
        let claimant = |grant: &Grant| queue.iter().find(|claimant| claimant.ticket == grant.ticket);
        let given: u64 = grants.iter().filter_map(|grant| Some(claimant(grant)?.needs(grant.parallel))).sum();
        let needs = head.needs(settings.policy.least(head.asked, head.least));
        let fits =
            ledger.usage().saturating_add(given).saturating_add(needs) <= ledger.grant_limit_at(self.now);
        (fits && settings.paused.is_none()) || needs > settings.greatest_limit()
    }

    /// Ends requests that the pool has become too small for. A holder that waits for more keeps what it has.
    fn turn_away(&mut self) -> Result<(), Contradiction> {
        let mut hopeless: Vec<(PoolName, Ticket)> = Vec::new();
        for (pool, ledger) in self.ledgers.iter() {
            let (most, policy) = (ledger.settings().greatest_limit(), ledger.settings().policy);
            let is_hopeless = |ticket: &&Ticket| {
                ticket.state == State::Waiting
                    && ticket.weight.units(policy.least(ticket.asked, ticket.least)) > most
                    && ticket.with.iter().all(|pool| self.ledgers.contains_key(pool))
            };
            hopeless
                .extend(ledger.tickets().filter(is_hopeless).map(|ticket| (pool.clone(), ticket.clone())));
        }
        for (pool, ticket) in hopeless {
            if self.ticket(&pool, ticket.id).is_some_and(|ticket| ticket.state == State::Waiting) {
                self.end(&pool, &ticket, End::ExceedsPool)?;
            }
        }
        let mut content: Vec<(PoolName, TicketId)> = Vec::new();
        for (pool, ledger) in self.ledgers.iter() {
            let most = ledger.settings().greatest_limit();
            let is_in_vain = |ticket: &&Ticket| {
                ticket.upgrade.is_some_and(|upgrade| ticket.weight.units(upgrade.parallel) > most)
            };
            content.extend(ledger.tickets().filter(is_in_vain).map(|ticket| (pool.clone(), ticket.id)));
        }
        for (pool, ticket) in content {
            self.apply(&pool, Event::Wanted { ticket, parallel: None })?;
        }
        Ok(())
    }

    /// Requests for a pool that is not part of this pass.
    fn unreachable(&self) -> BTreeSet<TicketId> {
        let is_outside = |ticket: &&Ticket| {
            ticket.state == State::Waiting && ticket.with.iter().any(|pool| !self.ledgers.contains_key(pool))
        };
        let tickets = self.ledgers.values().flat_map(|ledger| ledger.tickets());
        tickets.filter(is_outside).map(|ticket| ticket.id).collect()
    }

    fn offers(
        &self,
        queues: &BTreeMap<PoolName, Vec<Claimant>>,
        held: &BTreeSet<TicketId>,
    ) -> BTreeMap<PoolName, Vec<Grant>> {
        let offer = |(pool, ledger): (&PoolName, &Ledger)| {
            let settings = ledger.settings();
            let queue = queues.get(pool).map_or(&[][..], Vec::as_slice);
            let limit = ledger.grant_limit_at(self.now);
            let forecast = &Outlook { ledger, now: self.now };
            let view = View { limit, usage: ledger.usage(), queue, held, forecast };
            let grants = if settings.paused.is_some() { Vec::new() } else { decide(settings.policy, &view) };
            (pool.clone(), grants)
        };
        self.ledgers.iter().map(offer).collect()
    }

    /// Requests that were offered units in one of their pools and not in another.
    fn partly_offered(&self, offers: &BTreeMap<PoolName, Vec<Grant>>) -> BTreeSet<TicketId> {
        let offered: BTreeSet<TicketId> = offers.values().flatten().map(|grant| grant.ticket).collect();
        let is_partly_offered = |pool: &PoolName, id: &TicketId| {
            let Some(ticket) = self.ticket(pool, *id) else { return false };
            let is_missing = |(_, sibling): &(PoolName, TicketId)| !offered.contains(sibling);
            ticket.state == State::Waiting && self.siblings(ticket).iter().any(is_missing)
        };
        offers
            .iter()
            .flat_map(|(pool, grants)| grants.iter().map(move |grant| (pool, grant.ticket)))
            .filter(|(pool, id)| is_partly_offered(pool, id))
            .map(|(_, id)| id)
            .collect()
    }

    fn grant(&mut self, pool: &PoolName, grant: Grant) -> Result<(), Contradiction> {
        let Grant { ticket: id, parallel, turn, size } = grant;
        let Some(ledger) = self.ledgers.get(pool) else { return Ok(()) };
        let claim_for = ledger.settings().claim_for;
        let Some(ticket) = ledger.ticket(id) else { return Ok(()) };
        let (state, ask_by) = (ticket.state, ticket.ask_by.max(self.now).plus(claim_for));
        let (probe, is_less) = (ledger.breaker().with_probe(id, self.now), parallel < ticket.asked);
        let size = if probe.is_some() && is_less { Size::Probe } else { size };
        if let Some(breaker) = probe {
            self.set_breaker(pool, breaker)?;
        }
        if state == State::Waiting {
            self.apply(pool, Event::Granted { ticket: id, parallel, ask_by, turn, size })?;
            if let Some(call) = self.present.get(&id).cloned() {
                self.apply(pool, Event::Claimed { ticket: id, call })?;
            }
        } else {
            self.apply(pool, Event::Resized { ticket: id, parallel, asked: parallel })?;
        }
        self.levels.insert(id, self.level(pool));
        Ok(())
    }
}

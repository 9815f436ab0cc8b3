//! The turn of the queues: grants units to the tickets that may start.
//!
//! A request for several pools starts in all of them or in none. So offers are withdrawn from requests that were not
//! offered units in all pools, and the policies run again with these held, until nothing changes. That ends, because held
//! requests only grow. Every queue has the same order, so the first of all requests is the first in each of its pools,
//! and two requests never wait for each other.

use super::Pass;
use crate::pool::decide::{
    Claimant, Grant, LOOK_AHEAD, Policy, Size, View, adaptive_steps, decide, is_protected,
};
use crate::pool::estimate::Outlook;
use crate::pool::ledger::Contradiction;
use crate::pool::{End, Event, Ledger, PoolName, State, Ticket, TicketId};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU32;

/// Requests for several pools that cannot start now.
#[derive(Default)]
pub(super) struct Holds {
    /// One of their pools is not part of this pass.
    unreachable: BTreeSet<TicketId>,
    /// Another of their pools is paused, or its breaker lets nothing start.
    stopped: BTreeSet<TicketId>,
    /// All of these, and those for which another of their pools has no room.
    pub(super) held: BTreeSet<TicketId>,
}

type Queues = BTreeMap<PoolName, Vec<Claimant>>;

type Offers = BTreeMap<PoolName, Vec<Grant>>;

/// After so many rounds, requests that some pool offers nothing are no longer tried in this pass.
const ROUNDS: u32 = 8;

impl Pass<'_> {
    pub(super) fn turn(&mut self) -> Result<(), Contradiction> {
        for pool in self.ledgers.keys().cloned().collect::<Vec<_>>() {
            self.advance_breaker(&pool)?;
        }
        self.turn_away()?;
        let (queues, mut holds) = (self.claimants(), self.holds());
        let (offers, _rounds) = self.agreed_offers(&queues, &mut holds);
        for (pool, grants) in &offers {
            self.widen(pool, &queues, grants, &holds);
        }
        for (pool, grants) in offers {
            for grant in grants {
                self.grant(&pool, grant)?;
            }
        }
        self.raise()
    }

    /// The offers when no request is offered units in only some of its pools, and after how many rounds.
    pub(super) fn agreed_offers(&self, queues: &Queues, holds: &mut Holds) -> (Offers, u32) {
        let mut rounds = 1;
        loop {
            let offers = self.offers(queues, holds);
            let partly = self.partly_offered(&offers);
            if partly.is_empty() {
                return (offers, rounds);
            }
            if rounds >= ROUNDS {
                holds.held.extend(self.left_out(&offers));
            }
            holds.held.extend(partly);
            rounds += 1;
        }
    }

    pub(super) fn claimants(&self) -> Queues {
        let queue = |ledger: &Ledger| ledger.queue(self.now).into_iter().map(Claimant::of).collect();
        self.ledgers.iter().map(|(pool, ledger)| (pool.clone(), queue(ledger))).collect()
    }

    /// Found before the policies decide, so that these need few rounds.
    pub(super) fn holds(&self) -> Holds {
        let mut holds = Holds::default();
        let waiting = self.ledgers.values().flat_map(Ledger::tickets);
        for ticket in waiting.filter(|ticket| ticket.state == State::Waiting && !ticket.with.is_empty()) {
            let is_unreachable = ticket.with.iter().any(|pool| !self.ledgers.contains_key(pool));
            let (mut is_stopped, mut has_room) = (false, true);
            for (pool, sibling) in self.siblings(ticket) {
                let Some(ledger) = self.ledgers.get(&pool) else { continue };
                let Some(claimant) = ledger.ticket(sibling).map(Claimant::of) else { continue };
                let settings = ledger.settings();
                is_stopped |= settings.paused.is_some() || ledger.breaker().stops_all();
                let room = ledger.grant_limit_at(self.now).saturating_sub(ledger.usage());
                has_room &= claimant.needs(settings.policy.least(claimant.asked, claimant.least)) <= room;
            }
            holds.unreachable.extend(is_unreachable.then_some(ticket.id));
            holds.stopped.extend(is_stopped.then_some(ticket.id));
            holds.held.extend((is_unreachable || is_stopped || !has_room).then_some(ticket.id));
        }
        holds
    }

    /// The part of a queue that may start. A probe need not be the first, if that cannot start.
    fn admitted<'q>(&self, pool: &PoolName, queues: &'q Queues, holds: &Holds) -> Cow<'q, [Claimant]> {
        let ledger = self.ledgers.get(pool).filter(|ledger| ledger.settings().paused.is_none());
        let (Some(ledger), Some(queue)) = (ledger, queues.get(pool)) else { return Cow::Borrowed(&[]) };
        // Who is only unreachable may start in a wider pass.
        let can_start = |claimant: &Claimant| {
            let id = &claimant.ticket;
            !holds.stopped.contains(id) && (!holds.held.contains(id) || holds.unreachable.contains(id))
        };
        ledger.breaker().admits(queue, can_start, ledger.settings().policy)
    }

    /// Asks for the other pools of waiting requests that might then start or be refused, or no longer stop others.
    fn widen(&mut self, pool: &PoolName, queues: &Queues, grants: &[Grant], holds: &Holds) {
        let (Some(ledger), Some(queue)) = (self.ledgers.get(pool), queues.get(pool)) else { return };
        if holds.unreachable.is_empty() {
            return;
        }
        let (settings, now) = (ledger.settings(), self.now);
        let granted: HashMap<TicketId, NonZeroU32> =
            grants.iter().map(|grant| (grant.ticket, grant.parallel)).collect();
        let given = |claimant: &Claimant| Some(claimant.needs(*granted.get(&claimant.ticket)?));
        let usage = queue.iter().filter_map(given).fold(ledger.usage(), u64::saturating_add);
        let room = ledger.grant_limit_at(now).saturating_sub(usage);
        let is_adaptive = settings.policy == Policy::Adaptive;
        let lets_start = settings.paused.is_none() && !ledger.breaker().stops_all();
        // The request that others wait for, as the first or as the probe: not if another of its pools stops it.
        let is_next = |claimant: &&Claimant| {
            !granted.contains_key(&claimant.ticket) && !holds.stopped.contains(&claimant.ticket)
        };
        let others_wait = room > 0 && (is_adaptive || ledger.breaker().is_open());
        let admitted = self.admitted(pool, queues, holds);
        let next = admitted.iter().find(is_next).map(|claimant| claimant.ticket).filter(|_| others_wait);
        let matters = |claimant: &&Claimant| {
            let needs = claimant.needs(settings.policy.least(claimant.asked, claimant.least));
            let is_in_the_way = next == Some(claimant.ticket) || (is_adaptive && is_protected(claimant, now));
            let may_start = lets_start && !holds.stopped.contains(&claimant.ticket);
            let is_too_large = needs > settings.greatest_limit();
            holds.unreachable.contains(&claimant.ticket)
                && (is_too_large || (may_start && (needs <= room || is_in_the_way)))
        };
        let left = queue.iter().filter(|claimant| !granted.contains_key(&claimant.ticket));
        let most = if is_adaptive { LOOK_AHEAD + 1 } else { 1 };
        let is_looked_at =
            |(place, claimant): &(usize, &Claimant)| *place < most || next == Some(claimant.ticket);
        let looked_at = left.enumerate().filter(is_looked_at).map(|(_, claimant)| claimant);
        for ticket in looked_at.filter(matters).filter_map(|claimant| ledger.ticket(claimant.ticket)) {
            self.outcome.wider.extend(ticket.with.iter().chain([pool]).cloned());
        }
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

    pub(super) fn offers(&self, queues: &Queues, holds: &Holds) -> Offers {
        let offer = |(pool, ledger): (&PoolName, &Ledger)| {
            let (policy, mut queue) = (ledger.settings().policy, self.admitted(pool, queues, holds));
            // Where requests may overtake others, nothing is reserved for one that another pool stops.
            if policy == Policy::Adaptive && !holds.stopped.is_empty() {
                queue.to_mut().retain(|claimant| !holds.stopped.contains(&claimant.ticket));
            }
            let (limit, usage) = (ledger.grant_limit_at(self.now), ledger.usage());
            let forecast = &Outlook { ledger, now: self.now };
            let view = View { limit, usage, queue: &queue, held: &holds.held, forecast };
            (pool.clone(), decide(policy, &view))
        };
        self.ledgers.iter().map(offer).collect()
    }

    /// Requests that were offered units in one of their pools and not in another.
    pub(super) fn partly_offered(&self, offers: &Offers) -> BTreeSet<TicketId> {
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

    /// Requests for several pools that were not offered units in all of them.
    fn left_out(&self, offers: &Offers) -> BTreeSet<TicketId> {
        let offered: BTreeSet<TicketId> = offers.values().flatten().map(|grant| grant.ticket).collect();
        let is_left_out = |ticket: &&Ticket| {
            let is_missing = |(_, sibling): &(PoolName, TicketId)| !offered.contains(sibling);
            ticket.state == State::Waiting
                && !ticket.with.is_empty()
                && (!offered.contains(&ticket.id) || self.siblings(ticket).iter().any(is_missing))
        };
        let tickets = self.ledgers.values().flat_map(Ledger::tickets);
        tickets.filter(is_left_out).map(|ticket| ticket.id).collect()
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

//! The answers after the turn of the queues.

use super::{EarlyAnswer, Pass};
use crate::pool::command::{Admitted, Answer, Level, Waits};
use crate::pool::decide::{Claimant, View, reasons};
use crate::pool::estimate::{Estimate, Outlook, estimate, wait_seconds};
use crate::pool::ledger::Contradiction;
use crate::pool::settings::admit_limit;
use crate::pool::ticket::Eta;
use crate::pool::weight::lever;
use crate::pool::{End, Event, Ledger, PoolName, Reason, State, Ticket, TicketId};
use crate::time::Timestamp;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

pub(super) struct Queue {
    places: HashMap<TicketId, (u32, Reason)>,
    estimates: HashMap<TicketId, Estimate>,
}

/// All waiting requests in order, with reason and estimate.
pub fn queue_positions(ledger: &Ledger, now: Timestamp) -> Vec<(TicketId, Reason, Option<Estimate>)> {
    let queue = Queue::of(ledger, now);
    let mut places: Vec<_> = queue.places.iter().collect();
    places.sort_by_key(|(_, (position, _))| *position);
    let with_estimate =
        |(id, (_, reason)): (&TicketId, &(u32, Reason))| (*id, *reason, queue.estimates.get(id).copied());
    places.into_iter().map(with_estimate).collect()
}

fn stopped(ledger: &Ledger, now: Timestamp) -> Option<Reason> {
    let (settings, level) = (ledger.settings(), ledger.level_at(now));
    let (limit, usage) = (settings.limit_at(now), level.usage);
    if settings.paused.is_some() {
        return Some(Reason::PoolPaused);
    }
    if ledger.breaker().is_open() || (level.over_by() > 0 && usage <= limit) {
        return Some(Reason::BreakerOpen);
    }
    let usual = admit_limit(settings.max_units, settings.threshold_percent);
    match usage > limit {
        true if limit < usual => Some(Reason::OutsideWindow),
        true => Some(Reason::CapacityShrunk),
        false if limit == 0 && usual > 0 => Some(Reason::OutsideWindow),
        false => None,
    }
}

impl Queue {
    fn of(ledger: &Ledger, now: Timestamp) -> Self {
        let policy = ledger.settings().policy;
        let under_policy = |ticket| {
            let claimant = Claimant::of(ticket);
            (Claimant { least: policy.least(claimant.asked, claimant.least), ..claimant }, ticket)
        };
        let queue: Vec<(Claimant, &Ticket)> = ledger.queue(now).into_iter().map(under_policy).collect();
        let claimants: Vec<Claimant> = queue.iter().map(|(claimant, _)| *claimant).collect();
        let Level { limit, usage, .. } = ledger.level_at(now);
        // If the first request would fit here, another of its pools keeps it waiting.
        let fits = |claimant: &&(Claimant, &Ticket)| {
            usage.saturating_add(claimant.0.needs(claimant.0.least)) <= limit && !claimant.1.with.is_empty()
        };
        let held: BTreeSet<TicketId> =
            queue.first().filter(fits).map(|(claimant, _)| claimant.ticket).into_iter().collect();
        let outlook = Outlook { ledger, now };
        let view = View { limit, usage, queue: &claimants, held: &held, forecast: &outlook };
        let reasons = reasons(policy, &view, stopped(ledger, now));
        let places = (1..).zip(reasons).map(|(position, (id, reason))| (id, (position, reason))).collect();
        // The ramp of a breaker is left out: it is short, and a probe starts with whatever fits the pool.
        let limit = ledger.settings().limit_at(now);
        // The end of a pause is unknown, and so is that of a breaker that was opened by hand.
        let wait = ledger.breaker().wait(now).filter(|_| ledger.settings().paused.is_none());
        let estimates = wait.map_or_else(HashMap::new, |wait| {
            let starts = estimate(outlook, limit, &queue).into_iter();
            starts.map(|(id, estimate)| (id, estimate.not_before(wait))).collect()
        });
        Self { places, estimates }
    }
}

impl Pass<'_> {
    /// Records when new requests in the queues should start, so that the estimates can be compared with what happens.
    pub(super) fn estimate(&mut self) -> Result<(), Contradiction> {
        let is_new = |ticket: &Ticket| ticket.state == State::Waiting && ticket.eta.is_none();
        let pools: Vec<PoolName> = self.outcome.tickets.keys().cloned().collect();
        for pool in pools {
            let Some(ledger) = self.ledgers.get(&pool) else { continue };
            let new: Vec<TicketId> =
                ledger.tickets().filter(|ticket| is_new(ticket)).map(|ticket| ticket.id).collect();
            if new.is_empty() {
                continue;
            }
            let queue = Queue::of(ledger, self.now);
            for ticket in new {
                if let Some(Estimate { p50, p90 }) = queue.estimates.get(&ticket) {
                    let eta = Eta { p50: self.now.plus(*p50), p90: self.now.plus(*p90) };
                    self.apply(&pool, Event::Estimated { ticket, eta })?;
                }
            }
            self.queues.insert(pool, queue);
        }
        Ok(())
    }

    pub(super) fn answer(&mut self, early: EarlyAnswer) -> Answer {
        let (tickets, is_duplicate) = match early {
            EarlyAnswer::Now(answer) => return answer,
            EarlyAnswer::Depends { tickets, is_duplicate } => (tickets, is_duplicate),
        };
        let mut parts = Vec::with_capacity(tickets.len());
        for (pool, id) in &tickets {
            let Some(ledger) = self.ledgers.get(pool) else { return self.ended_at_once(&tickets) };
            match ledger.ticket(*id) {
                Some(ticket) if ticket.state.counts() => {
                    let (pool, ticket, settings) = (pool.clone(), ticket.clone(), ledger.settings());
                    let level = self.levels.get(id).copied().unwrap_or_else(|| self.level(&pool));
                    let lever = lever(settings.weight, settings.hint_effective);
                    parts.push(Admitted { pool, ticket, lever, level });
                }
                Some(_) => {}
                None => return self.ended_at_once(&tickets),
            }
        }
        if parts.len() == tickets.len() {
            return Answer::Admitted { parts, is_duplicate };
        }
        self.waits(tickets)
    }

    /// The answer for a ticket that ended in the same pass that made it.
    fn ended_at_once(&self, tickets: &[(PoolName, TicketId)]) -> Answer {
        let is_too_small =
            |(_, id): &&(PoolName, TicketId)| self.outcome.ends.get(id) == Some(&End::ExceedsPool);
        match tickets.iter().find(is_too_small) {
            Some((pool, _)) => Answer::Refused { pool: pool.clone(), reason: Reason::ExceedsPool },
            None => Answer::Gone,
        }
    }

    fn waits(&mut self, tickets: Vec<(PoolName, TicketId)>) -> Answer {
        let mut longest: Option<Waits> = None;
        for (pool, id) in &tickets {
            let Some(ledger) = self.ledgers.get(pool) else { continue };
            let Some(ticket) = ledger.ticket(*id).filter(|ticket| ticket.state == State::Waiting) else {
                continue;
            };
            let queue = self.queues.entry(pool.clone()).or_insert_with(|| Queue::of(ledger, self.now));
            let (position, reason) = queue.places.get(id).copied().unwrap_or((1, Reason::PoolFull));
            let estimate = queue.estimates.get(id).copied();
            let waits = Waits {
                pool: pool.clone(),
                tickets: Vec::new(),
                requested: ticket.weight.units(ticket.asked),
                position,
                reason,
                level: Level::default(),
                estimate,
                at: self.now,
                overtaken: ticket.overtaken,
                wait_seconds: wait_seconds(estimate, self.now.since(ticket.enqueued_at), *id, self.pace),
            };
            // Of several pools, the answer names the one with the longest wait.
            let gravity = |waits: &Waits| {
                let likely = waits.estimate.map_or(Duration::MAX, |estimate| estimate.p50);
                (waits.reason != Reason::OtherPool, likely)
            };
            let is_worse = longest.as_ref().is_none_or(|known| gravity(known) < gravity(&waits));
            if is_worse {
                longest = Some(waits);
            }
        }
        match longest {
            Some(mut waits) => {
                waits.level = self.level(&waits.pool);
                let is_waiting = |(pool, id): &(PoolName, TicketId)| {
                    self.ticket(pool, *id).is_some_and(|ticket| ticket.state == State::Waiting)
                };
                waits.tickets = tickets.into_iter().filter(is_waiting).collect();
                Answer::Waits(Box::new(waits))
            }
            None => Answer::Gone,
        }
    }
}

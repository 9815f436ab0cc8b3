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

/// So many requests whose callers are not heard of in a pass get an estimate in it: after a pause, thousands may lack one.
const ESTIMATES_AT_ONCE: u32 = 100;

/// Position, reason and estimate of the requests in a queue.
pub(super) type Queue = HashMap<TicketId, (u32, Reason, Option<Estimate>)>;

fn queue_of(ledger: &Ledger, now: Timestamp) -> Queue {
    let place = |(position, (id, reason, estimate))| (id, (position, reason, estimate));
    (1..).zip(queue_positions(ledger, now)).map(place).collect()
}

/// Why nobody in the queue starts; `first` are the units that its first request needs at least.
fn stopped(ledger: &Ledger, now: Timestamp, first: u64) -> Option<Reason> {
    let (settings, level) = (ledger.settings(), ledger.level_at(now));
    let (limit, usage) = (settings.limit_at(now), level.usage);
    if settings.paused.is_some() {
        return Some(Reason::PoolPaused);
    }
    let with_first = usage.saturating_add(first);
    let fits_but_for_the_breaker = level.limit < with_first && with_first <= limit;
    if ledger.breaker().is_open() || fits_but_for_the_breaker || (level.over_by() > 0 && usage <= limit) {
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

/// All waiting requests in order, with reason and estimate.
pub fn queue_positions(ledger: &Ledger, now: Timestamp) -> Vec<(TicketId, Reason, Option<Estimate>)> {
    let policy = ledger.settings().policy;
    let under_policy = |ticket| {
        let claimant = Claimant::of(ticket);
        (Claimant { least: policy.least(claimant.asked, claimant.least), ..claimant }, ticket)
    };
    let queue: Vec<(Claimant, &Ticket)> = ledger.queue(now).into_iter().map(under_policy).collect();
    let claimants: Vec<Claimant> = queue.iter().map(|(claimant, _)| *claimant).collect();
    let Level { limit, usage, .. } = ledger.level_at(now);
    let first = claimants.first().map_or(0, |claimant| claimant.needs(claimant.least));
    // If the first request would fit here, another of its pools keeps it waiting.
    let fits = usage.saturating_add(first) <= limit;
    let held = queue.iter().take(1).filter(|(_, ticket)| fits && !ticket.with.is_empty());
    let held: BTreeSet<TicketId> = held.map(|(claimant, _)| claimant.ticket).collect();
    let outlook = Outlook { ledger, now };
    let view = View { limit, usage, queue: &claimants, held: &held, forecast: &outlook };
    let reasons = reasons(policy, &view, stopped(ledger, now, first));
    // The ramp of a breaker is left out: it is short, and a probe starts with whatever fits the pool.
    let limit = ledger.settings().limit_at(now);
    // The end of a pause is unknown, and so is that of a breaker that was opened by hand.
    let wait = ledger.breaker().wait(now).filter(|_| ledger.settings().paused.is_none());
    let estimates = wait.into_iter().flat_map(|wait| estimate(outlook, limit, &queue, wait)).map(Some);
    let estimates = estimates.chain(std::iter::repeat(None));
    reasons.into_iter().zip(estimates).map(|((id, reason), estimate)| (id, reason, estimate)).collect()
}

impl Pass<'_> {
    /// Records when new requests in the queues should start, so that the estimates can be compared with what happens.
    pub(super) fn estimate(&mut self) -> Result<(), Contradiction> {
        let mut others = 0..ESTIMATES_AT_ONCE;
        let pools: Vec<PoolName> = self.outcome.tickets.keys().cloned().collect();
        for pool in pools {
            let Some(ledger) = self.ledgers.get(&pool) else { continue };
            let lacks_one = |ticket: &&Ticket| ticket.state == State::Waiting && ticket.eta.is_none();
            let is_due = |ticket: &&Ticket| self.present.contains_key(&ticket.id) || others.next().is_some();
            let due = ledger.tickets().filter(lacks_one).filter(is_due);
            let new: Vec<TicketId> = due.map(|ticket| ticket.id).collect();
            if new.is_empty() {
                continue;
            }
            let queue = queue_of(ledger, self.now);
            for ticket in new {
                if let Some((_, _, Some(Estimate { p50, p90 }))) = queue.get(&ticket) {
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
            let queue = self.queues.entry(pool.clone()).or_insert_with(|| queue_of(ledger, self.now));
            let (position, reason, estimate) = queue.get(id).copied().unwrap_or((1, Reason::PoolFull, None));
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

//! The auditor: replays a log and checks each step with its own code: no grant beyond the limit or against the policy,
//! nobody out of turn or overtaken too often, none but the probe while the breaker is open, no second ticket of a holder,
//! no missing record, and no impossible event.

mod queue;

use super::breaker::Phase;
use super::decide::{OVERTAKES_MAX, SLACK, Turn};
use super::ledger::{Contradiction, Ledger};
use super::{Event, Policy, Record, Settings, State, Ticket, TicketId};
use crate::time::Timestamp;
use queue::{Place, Queue};
use std::num::NonZeroU32;
use std::time::Duration;

/// Pools are audited from 03:00 on, in their time zone.
const NIGHT_BEGINS: Duration = Duration::from_secs(3 * 3600);

/// Whether a pool is to be audited now: once each night, and at once if it never was.
pub fn is_audit_due(settings: &Settings, last: Option<Timestamp>, now: Timestamp) -> bool {
    let night = |at: Timestamp| settings.zone.local(at.minus(NIGHT_BEGINS)).map(|local| local.date());
    last.is_none_or(|last| night(last) != night(now))
}

/// Further violations are counted, but not kept.
pub const VIOLATIONS_KEPT: usize = 100;

#[derive(Clone, PartialEq, Debug)]
pub struct Audit {
    pub ledger: Ledger,
    pub records: u64,
    pub peak: u64,
    /// The first ones.
    pub violations: Vec<Violation>,
    pub violation_count: u64,
}

/// A decision that breaks a rule. The log can be followed all the same.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{fault} (record {version}.{seq})")]
pub struct Violation {
    pub version: i64,
    pub seq: i32,
    pub fault: Fault,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    #[error("a grant of {parallel} to the ticket {ticket}, which the policy does not allow")]
    AgainstPolicy { ticket: TicketId, parallel: NonZeroU32 },
    #[error("a grant to the ticket {ticket} while the pool is paused")]
    Paused { ticket: TicketId },
    #[error("{usage} units are in use after a grant to the ticket {ticket}, but the limit is {limit}")]
    OverAdmitted { ticket: TicketId, usage: u64, limit: u64 },
    #[error(
        "a grant to the ticket {ticket} by the rule `{turn}` with {ahead} requests ahead of it (policy {policy})"
    )]
    WrongTurn { ticket: TicketId, turn: Turn, ahead: usize, policy: Policy },
    #[error("the ticket {by} overtook the ticket {ticket}, which {why}")]
    Overtaken { ticket: TicketId, by: TicketId, why: &'static str },
    #[error(
        "the ticket {ticket} was overtaken {stored} times by its own count, and {counted} times by the log"
    )]
    WrongOvertakes { ticket: TicketId, stored: u32, counted: u32 },
    #[error("the snapshot does not match the records before it")]
    WrongSnapshot,
    #[error("a grant to the ticket {ticket}, which is not the probe of the open breaker")]
    BreakerOpen { ticket: TicketId },
}

/// A replay in progress, so that a long log need not be in memory. Its records begin with the creation of the pool or with
/// a snapshot.
#[derive(Debug)]
pub struct Replay {
    audit: Audit,
    last: Option<(i64, i32)>,
    usage: u64,
    queue: Queue,
}

impl Replay {
    pub fn new(settings: &Settings) -> Self {
        let ledger = Ledger::new(settings.clone(), 0);
        let audit = Audit { ledger, records: 0, peak: 0, violations: Vec::new(), violation_count: 0 };
        Self { audit, last: None, usage: 0, queue: Queue::default() }
    }

    /// After a contradiction, the rest of the log cannot be followed.
    pub fn follow(&mut self, record: &Record) -> Result<(), Contradiction> {
        if let Some(last) = self.last.replace((record.version, record.seq)) {
            follows(last, record)?;
        }
        let ledger = &mut self.audit.ledger;
        let is_other = matches!(&record.event, Event::Snapshot { .. }) && record.event != ledger.snapshot();
        let before = record.event.ticket().and_then(|id| ledger.ticket(id)).cloned();
        ledger.set_version(record.version);
        ledger.apply(record.at, &record.event)?;
        let after = record.event.ticket().and_then(|id| ledger.ticket(id)).cloned();
        let used = self.usage;
        self.usage =
            used + after.as_ref().map_or(0, Ticket::units) - before.as_ref().map_or(0, Ticket::units);
        if is_other {
            self.usage = ledger.tickets().map(Ticket::units).sum();
            self.queue = Queue::of(ledger.tickets());
            // The first snapshot is trusted; others must equal the state that follows from the log.
            if self.audit.records > 0 {
                self.add(Fault::WrongSnapshot);
            }
        }
        if let Some(before) = &before {
            self.check_grant(record, before, used);
        }
        self.move_place(before.as_ref(), after.as_ref());
        self.audit.records += 1;
        self.audit.peak = self.audit.peak.max(self.usage);
        Ok(())
    }

    pub fn end(mut self) -> Audit {
        let live: Vec<Ticket> = self.audit.ledger.tickets().cloned().collect();
        live.iter().for_each(|ticket| self.move_place(Some(ticket), None));
        self.audit
    }

    fn add(&mut self, fault: Fault) {
        self.audit.violation_count += 1;
        if let Some((version, seq)) = self.last.filter(|_| self.audit.violations.len() < VIOLATIONS_KEPT) {
            self.audit.violations.push(Violation { version, seq, fault });
        }
    }

    /// Who leaves the queue must have counted the same overtakes.
    fn move_place(&mut self, before: Option<&Ticket>, after: Option<&Ticket>) {
        let (from, to) = (before.and_then(Place::of), after.and_then(Place::of));
        if from == to {
            return;
        }
        let counted = from.and_then(|from| self.queue.leave(&from));
        if let (Some(Ticket { id, state: State::Waiting, overtaken, .. }), Some(counted)) = (before, counted)
            && counted.min(OVERTAKES_MAX) != *overtaken
        {
            self.add(Fault::WrongOvertakes { ticket: *id, stored: *overtaken, counted });
        }
        if let Some(to) = to {
            self.queue.join(to, 0);
        }
    }

    /// Grants must be within the limit and as the policy says. The queue is as it was before this record.
    fn check_grant(&mut self, record: &Record, before: &Ticket, used: u64) {
        let settings = self.audit.ledger.settings();
        let (policy, is_paused) = (settings.policy, settings.paused.is_some());
        if !matches!(record.event, Event::Granted { .. }) && self.usage <= used {
            return;
        }
        let Some((limit, is_probe)) = breaker_limit(&self.audit.ledger, record.at, before.id) else {
            return self.add(Fault::BreakerOpen { ticket: before.id });
        };
        let is_adaptive = policy == Policy::Adaptive;
        let (parallel, turn, is_due) = match (&record.event, before.upgrade) {
            (Event::Granted { parallel, turn, .. }, _) => {
                let room = limit.saturating_sub(used);
                let is_due = match is_adaptive {
                    _ if is_probe => *parallel == policy.least(before.asked, before.least),
                    true => is_step(before, *parallel),
                    false => Some(*parallel) == largest(policy, before, room),
                };
                (*parallel, Some(*turn), is_due)
            }
            (Event::Resized { parallel, .. }, Some(upgrade)) => {
                (*parallel, Some(Turn::First), upgrade.parallel == *parallel)
            }
            // More, before its holder has heard of the grant, while nobody waits and the breaker is closed.
            (Event::Resized { parallel, .. }, None) => {
                let is_raised =
                    is_adaptive && !is_probe && before.state == State::Granted && is_step(before, *parallel);
                (*parallel, None, is_raised && !self.audit.ledger.tickets().any(Ticket::is_queued))
            }
            _ => return,
        };
        let ticket = before.id;
        if self.usage > limit {
            self.add(Fault::OverAdmitted { ticket, usage: self.usage, limit });
        }
        if is_paused {
            self.add(Fault::Paused { ticket });
        }
        if !is_due {
            self.add(Fault::AgainstPolicy { ticket, parallel });
        }
        if let Some(turn) = turn {
            self.check_turn(record, before, turn, policy, is_probe);
        }
    }

    /// The first of the queue starts, or under the adaptive policy one that overtakes others within bounds. The log does not
    /// tell when another pool stops a request for several pools: then probes and the adaptive policy pass it over.
    fn check_turn(&mut self, record: &Record, before: &Ticket, turn: Turn, policy: Policy, is_probe: bool) {
        let (ticket, at, ledger) = (before.id, record.at, &self.audit.ledger);
        let Some(place) = Place::of(before) else { return };
        let ahead: Vec<Place> = self.queue.ahead_of(&place, at).copied().collect();
        let is_adaptive = policy == Policy::Adaptive;
        let waits_for_several = |other: &Ticket| other.state == State::Waiting && !other.with.is_empty();
        let may_be_stopped = |id| ledger.ticket(id).is_some_and(waits_for_several);
        let is_right = match turn {
            Turn::First => {
                ahead.iter().all(|ahead| (is_adaptive || is_probe) && may_be_stopped(ahead.ticket))
            }
            Turn::EndsBefore | Turn::SpareUnits => is_adaptive && !ahead.is_empty(),
        };
        if !is_right {
            self.add(Fault::WrongTurn { ticket, turn, ahead: ahead.len(), policy });
        }
        for place in ahead.into_iter().filter(|_| turn != Turn::First) {
            let overtakes = self.queue.overtake(&place);
            let other = self.audit.ledger.ticket(place.ticket);
            let is_late = other.and_then(|other| other.eta).is_some_and(|eta| at > eta.p50.plus(SLACK));
            let why = match other {
                Some(other) if other.state != State::Waiting => "has units and waits for more",
                Some(other) if !other.with.is_empty() => continue,
                _ if overtakes > OVERTAKES_MAX => "had been overtaken too often",
                _ if is_late => "had waited too long beyond its estimate",
                _ => continue,
            };
            self.add(Fault::Overtaken { ticket: place.ticket, by: ticket, why });
        }
    }
}

/// Passes are numbered without gaps, and so are the records of each.
fn follows((version, seq): (i64, i32), next: &Record) -> Result<(), Contradiction> {
    match (next.version.saturating_sub(version), next.seq) {
        (0, next) if next == seq.saturating_add(1) => Ok(()),
        (1, 0) => Ok(()),
        (0 | 1, found) => Err(Contradiction::Missing { version: next.version, last: seq, found }),
        _ => Err(Contradiction::Gap { last: version, found: next.version }),
    }
}

/// Whether the adaptive policy grants this: all, half, a quarter, or the least.
fn is_step(ticket: &Ticket, parallel: NonZeroU32) -> bool {
    let (asked, parallel) = (ticket.asked.get(), parallel.get());
    let least = ticket.least.get().min(asked);
    parallel >= least && [asked, asked / 2, asked / 4, least].map(|step| step.max(least)).contains(&parallel)
}

/// The limit for a grant to this ticket, and whether it is the probe. None while the breaker lets only another start.
fn breaker_limit(ledger: &Ledger, at: Timestamp, ticket: TicketId) -> Option<(u64, bool)> {
    let (limit, breaker) = (ledger.settings().limit_at(at), ledger.breaker());
    match breaker.phase {
        Phase::Closed => Some((limit, false)),
        Phase::Probing { ticket: Some(probe) } if probe == ticket => Some((limit, true)),
        Phase::Probing { .. } | Phase::Open { .. } => None,
        Phase::Ramping => {
            let half_minutes = at.since(breaker.since).as_secs() / 30;
            let raised = u128::from(half_minutes) * u128::from(limit.div_ceil(20));
            let units = u128::from(breaker.units).saturating_add(raised).max(1);
            Some((u64::try_from(units).map_or(limit, |units| units.min(limit)), false))
        }
    }
}

/// The most that a ticket may be granted with `room` units left.
fn largest(policy: Policy, ticket: &Ticket, room: u64) -> Option<NonZeroU32> {
    let fits =
        |parallel: u32| NonZeroU32::new(parallel).filter(|parallel| ticket.weight.units(*parallel) <= room);
    let (mut parallel, least) = (ticket.asked.get(), ticket.least.get().min(ticket.asked.get()));
    match policy {
        Policy::Adaptive => None,
        Policy::Fifo => fits(parallel),
        Policy::Halving => {
            while fits(parallel).is_none() && parallel > least {
                parallel = (parallel / 2).max(least);
            }
            fits(parallel)
        }
    }
}

#[cfg(test)]
pub(super) mod tests;

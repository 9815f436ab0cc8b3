//! The auditor: replays a log and checks each step with its own code: no grant beyond the limit or against the policy,
//! none but to the probe of an open breaker, no second ticket of a holder, no missing record, and no impossible event.

use super::breaker::Phase;
use super::ledger::{Contradiction, Ledger};
use super::{Event, Policy, Record, Settings, State, Ticket, TicketId};
use crate::time::Timestamp;
use std::num::NonZeroU32;

#[derive(Clone, PartialEq, Debug)]
pub struct Audit {
    pub ledger: Ledger,
    pub records: u64,
    pub peak: u64,
}

/// `records` begin with the creation of the pool or with a snapshot.
pub fn replay<'a>(
    settings: &Settings,
    records: impl IntoIterator<Item = &'a Record>,
) -> Result<Audit, Contradiction> {
    let mut ledger: Option<Ledger> = None;
    let mut last: Option<&Record> = None;
    let (mut count, mut peak, mut usage) = (0, 0, 0);
    for record in records {
        if let Some(last) = last.replace(record) {
            follows(last, record)?;
        }
        let ledger =
            ledger.get_or_insert_with(|| Ledger::new(settings.clone(), record.version.saturating_sub(1)));
        // The first snapshot is trusted; others must equal the state that follows from the log.
        let differs = matches!(&record.event, Event::Snapshot { .. }) && record.event != ledger.snapshot();
        if differs && count > 0 {
            return Err(Contradiction::WrongSnapshot { version: record.version });
        }
        let before = record.event.ticket().and_then(|id| ledger.ticket(id)).cloned();
        ledger.set_version(record.version);
        ledger.apply(record.at, &record.event)?;
        let after = record.event.ticket().and_then(|id| ledger.ticket(id));
        let used = usage;
        usage = match record.event {
            Event::Snapshot { .. } => ledger.tickets().map(Ticket::units).sum(),
            _ => used + after.map_or(0, Ticket::units) - before.as_ref().map_or(0, Ticket::units),
        };
        if let Some(before) = &before {
            check_grant(ledger, record, before, used, usage)?;
        }
        count += 1;
        peak = peak.max(usage);
    }
    let ledger = ledger.unwrap_or_else(|| Ledger::new(settings.clone(), 0));
    Ok(Audit { ledger, records: count, peak })
}

/// Passes are numbered without gaps, and so are the records of each.
fn follows(last: &Record, next: &Record) -> Result<(), Contradiction> {
    match (next.version.saturating_sub(last.version), next.seq) {
        (0, seq) if seq == last.seq.saturating_add(1) => Ok(()),
        (1, 0) => Ok(()),
        (0 | 1, found) => Err(Contradiction::Missing { version: next.version, last: last.seq, found }),
        _ => Err(Contradiction::Gap { last: last.version, found: next.version }),
    }
}

/// Grants must be within the limit and as the policy says.
fn check_grant(
    ledger: &Ledger,
    record: &Record,
    before: &Ticket,
    used: u64,
    usage: u64,
) -> Result<(), Contradiction> {
    let settings = ledger.settings();
    let (ticket, parallel) = match record.event {
        Event::Granted { ticket, parallel, .. } => (ticket, parallel),
        Event::Resized { ticket, parallel, .. } if usage > used => (ticket, parallel),
        _ => return Ok(()),
    };
    let (limit, is_probe) = breaker_limit(ledger, record.at, ticket)?;
    if usage > limit {
        return Err(Contradiction::OverAdmitted { ticket, usage, limit });
    }
    let is_due = match (&record.event, before.upgrade) {
        (Event::Granted { .. }, _) if is_probe => {
            parallel == settings.policy.least(before.asked, before.least)
        }
        (Event::Granted { .. }, _) if settings.policy == Policy::Adaptive => is_step(before, parallel),
        (Event::Granted { .. }, _) => {
            let room = limit.saturating_sub(used);
            Some(parallel) == largest(settings.policy, before, room)
        }
        // More, before its holder has heard of the grant.
        (_, None) if settings.policy == Policy::Adaptive && before.state == State::Granted => is_step(before, parallel),
        (_, upgrade) => upgrade.is_some_and(|upgrade| upgrade.parallel == parallel),
    };
    if settings.paused.is_some() || !is_due {
        return Err(Contradiction::AgainstPolicy { ticket, parallel });
    }
    Ok(())
}

/// Whether the adaptive policy grants this: all, half, a quarter, or the least.
fn is_step(ticket: &Ticket, parallel: NonZeroU32) -> bool {
    let (asked, parallel) = (ticket.asked.get(), parallel.get());
    let least = ticket.least.get().min(asked);
    parallel >= least && [asked, asked / 2, asked / 4, least].map(|step| step.max(least)).contains(&parallel)
}

/// The limit for a grant to this ticket, and whether it is the probe. Only the probe may start while the breaker is open.
fn breaker_limit(ledger: &Ledger, at: Timestamp, ticket: TicketId) -> Result<(u64, bool), Contradiction> {
    let (limit, breaker) = (ledger.settings().limit_at(at), ledger.breaker());
    match breaker.phase {
        Phase::Closed => Ok((limit, false)),
        Phase::Probing { ticket: Some(probe) } if probe == ticket => Ok((limit, true)),
        Phase::Probing { .. } | Phase::Open { .. } => Err(Contradiction::BreakerOpen { ticket }),
        Phase::Ramping => {
            let half_minutes = at.since(breaker.since).as_secs() / 30;
            let raised = u128::from(half_minutes) * u128::from(limit.div_ceil(20));
            let units = u128::from(breaker.units).saturating_add(raised).max(1);
            Ok((u64::try_from(units).map_or(limit, |units| units.min(limit)), false))
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
mod tests;

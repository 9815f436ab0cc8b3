//! Counts what a pass did with requests. [`Meter`] keeps the sums until they are fetched.

use crate::{locked, metrics};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;
use tidemill_domain::pool::pass::Outcome;
use tidemill_domain::pool::{Answer, Command, End, Event, PoolName, Reason, Record, Ticket, TicketId};

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// New requests; repeats do not count.
    pub requests: u64,
    /// Got everything at once.
    pub allowed: u64,
    /// Got less than requested, at once or after a wait.
    pub downgraded: u64,
    /// Got units after a wait, all or less.
    pub waited: u64,
    /// Left the queue without units.
    pub timeouts: u64,
    /// How long each waited that got units after a wait.
    pub waits: Vec<Duration>,
}

/// By pool. Unknown pools are left out, because callers may invent names.
pub fn happened(commands: &[Command], outcome: &Outcome) -> BTreeMap<PoolName, Tally> {
    let mut tallies: BTreeMap<PoolName, Tally> = BTreeMap::new();
    for (command, answer) in commands.iter().zip(&outcome.answers) {
        if let (Command::Acquire(_), Answer::Refused { pool, reason }) = (command, answer)
            && *reason != Reason::UnknownPool
        {
            tallies.entry(pool.clone()).or_default().requests += 1;
        }
    }
    for (pool, records) in &outcome.records {
        let tickets = outcome.tickets.get(pool);
        let ticket = |id: TicketId| tickets.and_then(|tickets| tickets.get(&id));
        let tally = of_records(records, ticket);
        if tally != Tally::default() {
            let known = tallies.entry(pool.clone()).or_default();
            known.requests += tally.requests;
            *known = Tally { requests: known.requests, ..tally };
        }
    }
    tallies
}

fn of_records<'t>(records: &[Record], ticket: impl Fn(TicketId) -> Option<&'t Ticket>) -> Tally {
    let mut tally = Tally::default();
    let mut new = BTreeSet::new();
    for record in records {
        match &record.event {
            Event::Enqueued { ticket } => {
                tally.requests += 1;
                new.insert(ticket.id);
            }
            Event::Granted { ticket: id, parallel, .. } => {
                let Some(ticket) = ticket(*id) else { continue };
                let (is_less, has_waited) = (*parallel < ticket.asked, !new.contains(id));
                tally.allowed += u64::from(!is_less && !has_waited);
                tally.downgraded += u64::from(is_less);
                if has_waited {
                    tally.waited += 1;
                    tally.waits.push(record.at.since(ticket.enqueued_at));
                }
            }
            Event::Ended { ticket: id, end } => {
                let had_nothing = ticket(*id).is_some_and(|ticket| ticket.granted.is_none());
                let is_own_choice = matches!(end, End::StoppedAsking | End::GaveUp | End::Released { .. });
                tally.timeouts += u64::from(had_nothing && is_own_choice);
            }
            _ => {}
        }
    }
    tally
}

/// Sums since the last fetch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sums {
    pub requests: u64,
    /// Got everything at once.
    pub allowed: u64,
    pub downgraded: u64,
    /// Got units after a wait.
    pub waited: u64,
    /// Left without units.
    pub timeouts: u64,
    /// Total wait of those that got units after a wait.
    pub wait: Duration,
}

impl Sums {
    pub fn add(&mut self, tally: &Tally) {
        self.requests += tally.requests;
        self.allowed += tally.allowed;
        self.downgraded += tally.downgraded;
        self.waited += tally.waited;
        self.timeouts += tally.timeouts;
        self.wait = tally.waits.iter().fold(self.wait, |sum, wait| sum.saturating_add(*wait));
    }

    /// None if no request waited.
    pub fn average_wait(&self) -> Option<Duration> {
        let waited = u32::try_from(self.waited).unwrap_or(u32::MAX);
        self.wait.checked_div(waited)
    }
}

#[derive(Debug, Default)]
pub(super) struct Meter {
    sums: Mutex<BTreeMap<PoolName, Sums>>,
}

impl Meter {
    /// Counts a pass after its commit.
    pub(super) fn note(&self, commands: &[Command], outcome: &Outcome, took: Duration) {
        metrics::pool_pass().record(took);
        metrics::pool_pass_commands().increment(commands.len() as u64);
        let happened = happened(commands, outcome);
        if happened.is_empty() {
            return;
        }
        let mut sums = locked(&self.sums);
        for (pool, tally) in happened {
            let name = pool.as_str();
            metrics::pool_requests(name).increment(tally.requests);
            metrics::pool_allowed(name).increment(tally.allowed);
            metrics::pool_downgraded(name).increment(tally.downgraded);
            metrics::pool_waited(name).increment(tally.waited);
            metrics::pool_timeouts(name).increment(tally.timeouts);
            for wait in &tally.waits {
                metrics::pool_wait(name).record(*wait);
            }
            sums.entry(pool).or_default().add(&tally);
        }
    }

    /// The sums since the last call.
    pub(super) fn take(&self) -> BTreeMap<PoolName, Sums> {
        std::mem::take(&mut *locked(&self.sums))
    }
}

#[cfg(test)]
mod tests;

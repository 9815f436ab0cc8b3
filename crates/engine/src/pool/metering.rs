//! Counts what a pass did with requests. [`Meter`] keeps the sums until they are fetched.

use crate::{locked, metrics};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;
use tidemill_domain::pool::pass::Outcome;
use tidemill_domain::pool::{Answer, Command, End, Event, PoolName, Reason, Record, Ticket, TicketId};

/// What a pass did with the requests for units of a pool, and how long each waited that got units after a wait.
type Tally = (Sums, Vec<Duration>);

/// By pool. Unknown pools are left out, because callers may invent names.
fn happened(commands: &[Command], outcome: &Outcome) -> BTreeMap<PoolName, Tally> {
    let mut tallies: BTreeMap<PoolName, Tally> = BTreeMap::new();
    for (command, answer) in commands.iter().zip(&outcome.answers) {
        if let (Command::Acquire(_), Answer::Refused { pool, reason }) = (command, answer)
            && *reason != Reason::UnknownPool
        {
            tallies.entry(pool.clone()).or_default().0.requests += 1;
        }
    }
    for (pool, records) in &outcome.records {
        let tickets = outcome.tickets.get(pool);
        let ticket = |id: TicketId| tickets.and_then(|tickets| tickets.get(&id));
        let (sums, waits) = of_records(records, ticket);
        if sums != Sums::default() {
            let known = tallies.entry(pool.clone()).or_default();
            known.0.add(&sums);
            known.1 = waits;
        }
    }
    tallies
}

fn of_records<'t>(records: &[Record], ticket: impl Fn(TicketId) -> Option<&'t Ticket>) -> Tally {
    let (mut sums, mut waits) = Tally::default();
    let mut new = BTreeSet::new();
    for record in records {
        match &record.event {
            Event::Enqueued { ticket } => {
                sums.requests += 1;
                new.insert(ticket.id);
            }
            Event::Granted { ticket: id, parallel, .. } => {
                let Some(ticket) = ticket(*id) else { continue };
                let (is_less, has_waited) = (*parallel < ticket.asked, !new.contains(id));
                sums.allowed += u64::from(!is_less && !has_waited);
                sums.downgraded += u64::from(is_less);
                if has_waited {
                    let wait = record.at.since(ticket.enqueued_at);
                    sums.waited += 1;
                    sums.wait = sums.wait.saturating_add(wait);
                    waits.push(wait);
                }
            }
            Event::Ended { ticket: id, end } => {
                let had_nothing = ticket(*id).is_some_and(|ticket| ticket.granted.is_none());
                let is_own_choice = matches!(
                    end,
                    End::StoppedAsking | End::GaveUp | End::Released { .. } | End::Refused { .. }
                );
                sums.timeouts += u64::from(had_nothing && is_own_choice);
            }
            _ => {}
        }
    }
    (sums, waits)
}

/// What passes did with requests.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sums {
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
    /// Total wait of those that got units after a wait.
    pub wait: Duration,
}

impl Sums {
    fn add(&mut self, more: &Self) {
        self.requests += more.requests;
        self.allowed += more.allowed;
        self.downgraded += more.downgraded;
        self.waited += more.waited;
        self.timeouts += more.timeouts;
        self.wait = self.wait.saturating_add(more.wait);
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
        for (pool, (tally, waits)) in happened {
            let name = pool.as_str();
            metrics::pool_requests(name).increment(tally.requests);
            metrics::pool_allowed(name).increment(tally.allowed);
            metrics::pool_downgraded(name).increment(tally.downgraded);
            metrics::pool_waited(name).increment(tally.waited);
            metrics::pool_timeouts(name).increment(tally.timeouts);
            for wait in waits {
                metrics::pool_wait(name).record(wait);
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

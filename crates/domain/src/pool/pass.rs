//! One pass over some pools: decides commands, then gives the queues a turn. Pure: the caller stores the result first.
//!
//! Reading order: this file, [`acquire`], [`give_back`] and [`lapse`] (each command), [`turn`] (the queues), [`answer`].

mod acquire;
mod answer;
mod give_back;
mod lapse;
mod turn;

use super::command::{Answer, Command, Level};
use super::estimate::Pace;
use super::ledger::{Contradiction, Ledger};
use super::{Event, PoolName, Reason, Record, Ticket, TicketId};
use crate::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

pub use acquire::QUEUE_MAX;
pub use answer::queue_positions;
pub use lapse::{STOPPED_ASKING, expires_at};

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    /// One for each command, in order.
    pub answers: Vec<Answer>,
    pub records: BTreeMap<PoolName, Vec<Record>>,
    pub tickets: BTreeMap<PoolName, BTreeMap<TicketId, Ticket>>,
    pub ends: BTreeMap<TicketId, super::event::End>,
    /// Pools that the head of a queue needs: make another pass over all of these.
    pub wider: BTreeSet<PoolName>,
}

/// Decides `commands` in order, then gives the queues a turn.
pub fn pass(
    ledgers: &mut BTreeMap<PoolName, Ledger>,
    now: Timestamp,
    pace: Pace,
    commands: &[Command],
) -> Result<Outcome, Contradiction> {
    let mut pass = Pass {
        ledgers,
        now,
        pace,
        present: BTreeMap::new(),
        levels: BTreeMap::new(),
        queues: BTreeMap::new(),
        outcome: Outcome::default(),
    };
    let mut early = Vec::with_capacity(commands.len());
    // Expired tickets come last: a holder that was heard of in this pass keeps its ticket.
    let (lapsed, others): (Vec<_>, Vec<_>) =
        (0..).zip(commands).partition(|(_, command)| matches!(command, Command::Lapsed { .. }));
    for (index, command) in others.into_iter().chain(lapsed) {
        early.push((index, pass.command(command)?));
    }
    pass.turn()?;
    early.sort_unstable_by_key(|(index, _): &(usize, EarlyAnswer)| *index);
    let answers = early.into_iter().map(|(_, early)| pass.answer(early)).collect();
    let Pass { outcome, .. } = pass;
    for (pool, records) in &outcome.records {
        if let (Some(last), Some(ledger)) = (records.last(), ledgers.get_mut(pool)) {
            ledger.set_version(last.version);
        }
    }
    Ok(Outcome { answers, ..outcome })
}

/// The answer to a command before the turn of the queues.
enum EarlyAnswer {
    Now(Answer),
    Depends { tickets: Vec<(PoolName, TicketId)>, is_duplicate: bool },
}

type EarlyResult = Result<EarlyAnswer, Contradiction>;

fn answer_now(answer: Answer) -> EarlyResult {
    Ok(EarlyAnswer::Now(answer))
}

struct Pass<'a> {
    ledgers: &'a mut BTreeMap<PoolName, Ledger>,
    now: Timestamp,
    pace: Pace,
    /// Tickets whose holders wait for the answer, and their calls.
    present: BTreeMap<TicketId, Option<String>>,
    /// The level of a pool right after a ticket was granted.
    levels: BTreeMap<TicketId, Level>,
    /// The queues after the turn, made when an answer needs them.
    queues: BTreeMap<PoolName, answer::Queue>,
    outcome: Outcome,
}

impl Pass<'_> {
    fn command(&mut self, command: &Command) -> EarlyResult {
        match command {
            Command::Acquire(acquire) => self.acquire(acquire),
            Command::Release(release) => self.give_back(release),
            Command::Claim { parts } => self.claim(parts),
            Command::Unclaim { pool, ticket, epoch } => self.unclaim(pool, *ticket, *epoch),
            Command::Heartbeat { pool, ticket, epoch } => self.heartbeat(pool, *ticket, *epoch),
            Command::Lapsed { pool, ticket } => self.lapsed(pool, *ticket),
            Command::Probed { pool, ticket, doubted_at, sessions } => {
                self.probed(pool, *ticket, *doubted_at, *sessions)
            }
            Command::Configure { settings } if !self.ledgers.contains_key(&settings.name) => {
                let pool = settings.name.clone();
                answer_now(Answer::Refused { pool, reason: Reason::UnknownPool })
            }
            Command::Configure { settings } => {
                self.apply(&settings.name, Event::Configured { settings: settings.clone() })?;
                answer_now(Answer::Done)
            }
            Command::Look { .. } => answer_now(Answer::Done),
        }
    }

    fn apply(&mut self, pool: &PoolName, event: Event) -> Result<(), Contradiction> {
        let Some(ledger) = self.ledgers.get_mut(pool) else { return Ok(()) };
        let ticket = ledger.apply(self.now, &event)?;
        let version = ledger.version() + 1;
        if let Event::Ended { ticket, end } = &event {
            self.outcome.ends.insert(*ticket, end.clone());
        }
        let holder = ticket.as_ref().map(|ticket| ticket.holder.clone());
        if let Some(ticket) = ticket {
            self.outcome.tickets.entry(pool.clone()).or_default().insert(ticket.id, ticket);
        }
        let records = self.outcome.records.entry(pool.clone()).or_default();
        let seq = i32::try_from(records.len()).unwrap_or(i32::MAX);
        records.push(Record { version, seq, at: self.now, holder, event });
        Ok(())
    }

    /// Notes that the holder was heard of, without a decision.
    fn touch(&mut self, pool: &PoolName, ticket: TicketId) {
        if let Some(known) = self.ticket(pool, ticket).cloned() {
            self.outcome.tickets.entry(pool.clone()).or_default().insert(ticket, known);
        }
    }

    fn ticket(&self, pool: &PoolName, ticket: TicketId) -> Option<&Ticket> {
        self.ledgers.get(pool).and_then(|ledger| ledger.ticket(ticket))
    }

    fn level(&self, pool: &PoolName) -> Level {
        let of = |ledger: &Ledger| Level::of(ledger.settings(), ledger.usage(), self.now);
        self.ledgers.get(pool).map(of).unwrap_or_default()
    }

    /// All other pools of a ticket's request, if one of them is missing in this pass.
    fn needed_pools(&self, ticket: &Ticket) -> BTreeSet<PoolName> {
        let is_missing = |pool: &PoolName| !self.ledgers.contains_key(pool);
        if ticket.with.iter().any(is_missing) {
            ticket.with.iter().cloned().collect()
        } else {
            BTreeSet::new()
        }
    }

    /// The tickets of the same request in the other pools.
    fn siblings(&self, ticket: &Ticket) -> Vec<(PoolName, TicketId)> {
        let of = |pool: &PoolName| {
            let sibling = self.ledgers.get(pool)?.of_holder(&ticket.holder)?;
            (sibling.request == ticket.request).then(|| (pool.clone(), sibling.id))
        };
        ticket.with.iter().filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests;

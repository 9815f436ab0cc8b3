//! One pass over some pools: decides commands, then gives the queues a turn. Pure: the caller stores the result first.

mod acquire;
mod answer;
mod breaker;
mod turn;

use super::command::{Answer, Command, Level, Release, ReleaseBy, Released};
use super::estimate::Pace;
use super::event_summary::story;
use super::ledger::{Applied, Contradiction, Ledger};
use super::state::{State, next};
use super::{End, Event, Holder, PoolName, Reason, Record, Settings, Ticket, TicketId};
use crate::lease::Epoch;
use crate::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use acquire::QUEUE_MAX;
pub use answer::queue_positions;

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    /// One for each command, in order.
    pub answers: Vec<Answer>,
    pub records: BTreeMap<PoolName, Vec<Record>>,
    pub tickets: BTreeMap<PoolName, BTreeMap<TicketId, Ticket>>,
    pub ends: BTreeMap<TicketId, End>,
    /// Of `tickets`, those whose callers were not heard of: they expire when they would have expired.
    pub unheard: BTreeSet<TicketId>,
    /// Pools that waiting requests need: make another pass over all of these.
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
    pass.estimate()?;
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

/// A request leaves the queue this long after it should have asked again.
pub const STOPPED_ASKING: Duration = Duration::from_secs(600);

/// When the time of a ticket is over whose holder was heard of just now.
pub fn expires_at(ticket: &Ticket, settings: &Settings, now: Timestamp) -> Option<Timestamp> {
    match ticket.state {
        State::Waiting => Some(ticket.ask_by.plus(STOPPED_ASKING)),
        State::Granted => Some(ticket.ask_by),
        State::Running => {
            ticket.lease_for.map(|lease_for| now.plus(lease_for)).or(held_until(ticket, settings))
        }
        State::Suspect => held_until(ticket, settings),
        State::Released | State::Expired | State::Cancelled => None,
    }
}

/// Until when a silent holder keeps its units: from its first missed heartbeat, or from its claim if it sends none.
fn held_until(ticket: &Ticket, settings: &Settings) -> Option<Timestamp> {
    let since = match ticket.state {
        State::Suspect => ticket.doubted_at,
        State::Running if ticket.lease_for.is_none() => ticket.claimed_at,
        _ => None,
    };
    since.map(|since| since.plus(settings.max_hold))
}

fn began_at(ticket: &Ticket) -> Timestamp {
    let since = match ticket.state {
        State::Granted => ticket.granted_at,
        State::Running => ticket.claimed_at,
        State::Suspect => ticket.doubted_at,
        State::Waiting | State::Released | State::Expired | State::Cancelled => None,
    };
    since.unwrap_or(ticket.enqueued_at)
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
            Command::Breaker { pool, change } => self.change_breaker(pool, change),
            Command::Configure { settings, .. } if !self.ledgers.contains_key(&settings.name) => {
                let pool = settings.name.clone();
                answer_now(Answer::Refused { pool, reason: Reason::UnknownPool })
            }
            Command::Configure { settings, by } => {
                let event = Event::Configured { settings: settings.clone(), by: by.clone() };
                self.apply(&settings.name, event)?;
                answer_now(Answer::Done)
            }
            Command::Look { .. } => answer_now(Answer::Done),
        }
    }

    fn apply(&mut self, pool: &PoolName, event: Event) -> Result<(), Contradiction> {
        let Some(ledger) = self.ledgers.get_mut(pool) else { return Ok(()) };
        let before = matches!(event, Event::Configured { .. }).then(|| ledger.settings().clone());
        let Applied { ticket, overtaken } = ledger.apply(self.now, &event)?;
        let summary = story(self.now, &event, before.as_ref(), ticket.as_ref());
        let version = ledger.version() + 1;
        if let Event::Ended { ticket, end } = &event {
            self.outcome.ends.insert(*ticket, end.clone());
        }
        let holder = ticket.as_ref().map(|ticket| ticket.holder.clone());
        if let Some(ticket) = ticket {
            // Others may have brought these about.
            let is_heard =
                !matches!(event, Event::Estimated { .. } | Event::Resized { .. } | Event::Wanted { .. });
            let is_heard = is_heard || self.present.contains_key(&ticket.id);
            self.save(pool, ticket, is_heard);
        }
        for id in overtaken {
            if let Some(ticket) = self.ticket(pool, id).cloned() {
                self.save(pool, ticket, false);
            }
        }
        let records = self.outcome.records.entry(pool.clone()).or_default();
        let seq = i32::try_from(records.len()).unwrap_or(i32::MAX);
        records.push(Record { version, seq, at: self.now, holder, event, summary });
        Ok(())
    }

    fn save(&mut self, pool: &PoolName, ticket: Ticket, is_heard: bool) {
        let id = ticket.id;
        let is_known = self.outcome.tickets.entry(pool.clone()).or_default().insert(id, ticket).is_some();
        if is_heard {
            self.outcome.unheard.remove(&id);
        } else if !is_known {
            self.outcome.unheard.insert(id);
        }
    }

    /// Notes that the holder was heard of, without a decision.
    fn touch(&mut self, pool: &PoolName, ticket: TicketId) {
        if let Some(known) = self.ticket(pool, ticket).cloned() {
            self.save(pool, known, true);
        }
    }

    fn ticket(&self, pool: &PoolName, ticket: TicketId) -> Option<&Ticket> {
        self.ledgers.get(pool).and_then(|ledger| ledger.ticket(ticket))
    }

    fn held(&self, pool: &PoolName, holder: &Holder) -> Option<&Ticket> {
        self.ledgers.get(pool)?.of_holder(holder)
    }

    fn level(&self, pool: &PoolName) -> Level {
        self.ledgers.get(pool).map(|ledger| ledger.level_at(self.now)).unwrap_or_default()
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
            let sibling = self.held(pool, &ticket.holder)?;
            (sibling.request == ticket.request).then(|| (pool.clone(), sibling.id))
        };
        ticket.with.iter().filter_map(of).collect()
    }

    /// Releases. Releasing twice, or what was never granted, is no error.
    fn give_back(&mut self, release: &Release) -> EarlyResult {
        let pool = &release.pool;
        if !self.ledgers.contains_key(pool) {
            return answer_now(Answer::Refused { pool: pool.clone(), reason: Reason::UnknownPool });
        }
        let found = self.matching(release);
        let waiting = || found.iter().filter(|ticket| ticket.state == State::Waiting);
        if waiting().any(|ticket| !self.needed_pools(ticket).is_empty()) {
            let all: BTreeSet<PoolName> = waiting().flat_map(|ticket| ticket.with.iter().cloned()).collect();
            return answer_now(Answer::Wider(all));
        }
        // A later epoch than the ticket's belongs to an earlier ticket of the same holder.
        let is_ghost = |ticket: &Ticket| release.epoch.is_some_and(|epoch| epoch != ticket.epoch);
        if !found.is_empty() && found.iter().all(is_ghost) {
            return answer_now(Answer::Gone);
        }
        let (mut units, mut cancelled_waiting, mut released) = (0, false, false);
        // A request that only leaves the queue keeps units that it got meanwhile.
        let can_end = |ticket: &&Ticket| next(ticket.state, release.end.change()).is_some();
        let ending: Vec<&Ticket> = found.iter().filter(|ticket| !is_ghost(ticket)).filter(can_end).collect();
        self.note_refusal(pool, &release.end, &ending)?;
        for ticket in ending {
            units += ticket.units();
            released |= ticket.state.counts();
            cancelled_waiting |= ticket.state == State::Waiting;
            self.end(pool, ticket, release.end.clone())?;
        }
        let level = self.level(pool);
        answer_now(Answer::Released(Released { released, units, cancelled_waiting, level }))
    }

    fn matching(&self, release: &Release) -> Vec<Ticket> {
        let Some(ledger) = self.ledgers.get(&release.pool) else { return Vec::new() };
        match &release.by {
            ReleaseBy::Holder(holder) => ledger.of_holder(holder).into_iter().cloned().collect(),
            ReleaseBy::Ticket(id) => ledger.ticket(*id).into_iter().cloned().collect(),
            ReleaseBy::Run { dag_id, run_id } => {
                ledger.tickets().filter(|ticket| ticket.holder.is_of(dag_id, run_id)).cloned().collect()
            }
        }
    }

    /// Ends a ticket. A request for several pools leaves all queues together, and loses all grants if it does not claim one:
    /// no holder may keep units of one pool while it waits for another.
    fn end(&mut self, pool: &PoolName, ticket: &Ticket, end: End) -> Result<(), Contradiction> {
        let (siblings, too) = match (ticket.state, &end) {
            (State::Waiting, _) => (self.siblings(ticket), End::GaveUp),
            (State::Granted, End::Unclaimed) => (self.siblings(ticket), End::Unclaimed),
            _ => (Vec::new(), End::GaveUp),
        };
        self.apply(pool, Event::Ended { ticket: ticket.id, end })?;
        for (pool, sibling) in siblings {
            if self.ticket(&pool, sibling).is_some_and(|sibling| sibling.state == ticket.state) {
                self.apply(&pool, Event::Ended { ticket: sibling, end: too.clone() })?;
            }
        }
        Ok(())
    }

    fn heartbeat(&mut self, pool: &PoolName, id: TicketId, epoch: Epoch) -> EarlyResult {
        let state = self.ticket(pool, id).filter(|ticket| ticket.epoch == epoch).map(|ticket| ticket.state);
        match state {
            Some(State::Running) => self.touch(pool, id),
            Some(State::Suspect) => self.apply(pool, Event::Confirmed { ticket: id })?,
            _ => return answer_now(Answer::Gone),
        }
        answer_now(Answer::Alive)
    }

    fn lapsed(&mut self, pool: &PoolName, id: TicketId) -> EarlyResult {
        let was_heard_of = self.outcome.tickets.get(pool).is_some_and(|heard| heard.contains_key(&id));
        let Some(ledger) = self.ledgers.get(pool) else { return answer_now(Answer::Gone) };
        let Some(ticket) = ledger.ticket(id).cloned() else { return answer_now(Answer::Gone) };
        // Its time cannot be over before this instant: the caller saw it before it was claimed, granted or asked for again.
        let heard_of_at = ticket.claimed_at.unwrap_or(ticket.enqueued_at);
        let earliest = expires_at(&ticket, ledger.settings(), heard_of_at);
        // After the clock has gone back, only the stored end was corrected, not the ticket.
        let has_gone_back = began_at(&ticket) > self.now;
        let is_early = !has_gone_back && earliest.is_none_or(|earliest| self.now < earliest);
        if was_heard_of || is_early {
            // Stored again, with the later end.
            self.touch(pool, id);
            return answer_now(Answer::Alive);
        }
        let held_until = held_until(&ticket, ledger.settings());
        let is_held_too_long = held_until.is_some_and(|held_until| has_gone_back || self.now >= held_until);
        let needed = self.needed_pools(&ticket);
        match ticket.state {
            State::Waiting | State::Granted if !needed.is_empty() => {
                return answer_now(Answer::Wider(needed));
            }
            State::Waiting => self.end(pool, &ticket, End::StoppedAsking)?,
            State::Granted => self.end(pool, &ticket, End::Unclaimed)?,
            State::Running | State::Suspect if is_held_too_long => {
                self.end(pool, &ticket, End::HeldTooLong)?;
            }
            State::Running if ticket.lease_for.is_some() => {
                self.apply(pool, Event::Doubted { ticket: id })?;
            }
            _ => return answer_now(Answer::Alive),
        }
        answer_now(Answer::Done)
    }

    /// A probe frees only suspect tickets: a live holder may be between two statements.
    fn probed(&mut self, pool: &PoolName, id: TicketId, doubted_at: Timestamp, sessions: u32) -> EarlyResult {
        let Some(ticket) = self.ticket(pool, id).cloned() else { return answer_now(Answer::Gone) };
        if ticket.doubted_at != Some(doubted_at) {
            return answer_now(Answer::Done);
        }
        match (ticket.state, sessions) {
            (State::Suspect, 0) => self.end(pool, &ticket, End::ByProbe)?,
            (State::Suspect, _) => self.apply(pool, Event::Confirmed { ticket: id })?,
            _ => {}
        }
        answer_now(Answer::Done)
    }
}

#[cfg(test)]
mod tests;

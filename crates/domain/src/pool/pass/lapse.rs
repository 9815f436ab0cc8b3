//! Heartbeats, silent holders, and probes.

use super::{EarlyResult, Pass, answer_now};
use crate::lease::Epoch;
use crate::pool::{Answer, End, Event, PoolName, Settings, State, Ticket, TicketId};
use crate::time::Timestamp;
use std::time::Duration;

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

impl Pass<'_> {
    pub(super) fn heartbeat(&mut self, pool: &PoolName, id: TicketId, epoch: Epoch) -> EarlyResult {
        let state = self.ticket(pool, id).filter(|ticket| ticket.epoch == epoch).map(|ticket| ticket.state);
        match state {
            Some(State::Running) => self.touch(pool, id),
            Some(State::Suspect) => self.apply(pool, Event::Confirmed { ticket: id })?,
            _ => return answer_now(Answer::Gone),
        }
        answer_now(Answer::Alive)
    }

    pub(super) fn lapsed(&mut self, pool: &PoolName, id: TicketId) -> EarlyResult {
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
    pub(super) fn probed(
        &mut self,
        pool: &PoolName,
        id: TicketId,
        doubted_at: Timestamp,
        sessions: u32,
    ) -> EarlyResult {
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

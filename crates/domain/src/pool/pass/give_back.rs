//! Releases. Releasing twice, or what was never granted, is no error.

use super::{EarlyResult, Pass, answer_now};
use crate::pool::command::{Answer, Release, ReleaseBy, Released};
use crate::pool::ledger::Contradiction;
use crate::pool::state::{State, next};
use crate::pool::{End, Event, PoolName, Reason, Ticket};
use std::collections::BTreeSet;

impl Pass<'_> {
    pub(super) fn give_back(&mut self, release: &Release) -> EarlyResult {
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
        for ticket in found.iter().filter(|ticket| !is_ghost(ticket)).filter(can_end) {
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
    pub(super) fn end(&mut self, pool: &PoolName, ticket: &Ticket, end: End) -> Result<(), Contradiction> {
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
}

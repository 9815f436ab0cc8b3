//! Changes of the circuit breakers: by refusals, by operators, and by the time.

use super::{EarlyResult, Pass, answer_now};
use crate::pool::breaker::{Phase, Probe};
use crate::pool::ledger::Contradiction;
use crate::pool::{Answer, Breaker, BreakerChange, End, Event, Ledger, PoolName, Reason, Ticket};

impl Pass<'_> {
    pub(super) fn change_breaker(&mut self, pool: &PoolName, change: &BreakerChange) -> EarlyResult {
        if !self.ledgers.contains_key(pool) {
            return answer_now(Answer::Refused { pool: pool.clone(), reason: Reason::UnknownPool });
        }
        // The change is judged by the phase of this instant.
        self.advance_breaker(pool)?;
        let changed = |ledger: &Ledger| ledger.breaker().changed(change, self.level(pool), self.now);
        if let Some(breaker) = self.ledgers.get(pool).and_then(changed) {
            self.set_breaker(pool, breaker)?;
        }
        answer_now(Answer::Done)
    }

    /// A refusal counts if one of the holders that report it had units.
    pub(super) fn note_refusal(
        &mut self,
        pool: &PoolName,
        end: &End,
        ending: &[&Ticket],
    ) -> Result<(), Contradiction> {
        if let End::Refused { reason } = end
            && ending.iter().any(|ticket| ticket.state.counts())
        {
            self.change_breaker(pool, &BreakerChange::Refused { reason: reason.clone() })?;
        }
        Ok(())
    }

    pub(super) fn set_breaker(&mut self, pool: &PoolName, breaker: Breaker) -> Result<(), Contradiction> {
        self.apply(pool, Event::Breaker { breaker: Box::new(breaker) })
    }

    /// Records what follows from the time and from the probe.
    pub(super) fn advance_breaker(&mut self, pool: &PoolName) -> Result<(), Contradiction> {
        let Some(ledger) = self.ledgers.get(pool) else { return Ok(()) };
        let breaker = ledger.breaker();
        let probe = match breaker.phase {
            Phase::Probing { ticket: Some(id) } => {
                let ended = || self.outcome.tickets.get(pool).and_then(|tickets| tickets.get(&id));
                let (ticket, end) = (ledger.ticket(id).or_else(ended), self.outcome.ends.get(&id));
                Probe::of(ticket, end, breaker.since, self.now)
            }
            _ => Probe::Pending,
        };
        match breaker.advanced(ledger.settings().limit_at(self.now), probe, self.now) {
            Some(breaker) => self.set_breaker(pool, breaker),
            None => Ok(()),
        }
    }
}

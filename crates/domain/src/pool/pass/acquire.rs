//! Requests for units: a new ticket, a kept place in the queue, a claimed grant, or a change of what the holder has.

use super::{EarlyAnswer, EarlyResult, Pass, answer_now};
use crate::lease::Epoch;
use crate::pool::ledger::Contradiction;
use crate::pool::{
    Acquire, Answer, End, Event, Holder, Part, PoolName, Reason, State, Ticket, TicketId, Weight,
};
use crate::time::Timestamp;
use std::collections::BTreeSet;
use std::num::NonZeroU32;

/// Most waiting requests of a pool: every pass reads all of them.
pub const QUEUE_MAX: usize = 10_000;

/// The cost of a part of a request in its pool.
struct PricedPart<'p> {
    part: &'p Part,
    asked: NonZeroU32,
    least: NonZeroU32,
    weight: Weight,
}

impl Pass<'_> {
    pub(super) fn acquire(&mut self, acquire: &Acquire) -> EarlyResult {
        let mut priced = Vec::with_capacity(acquire.parts.len());
        for part in &acquire.parts {
            match self.price(part, &acquire.holder) {
                Ok(part) => priced.push(part),
                Err(reason) => {
                    let pool = part.pool.clone();
                    return answer_now(Answer::Refused { pool, reason });
                }
            }
        }
        if let Some(wider) = self.leave_other_queues(acquire)? {
            return answer_now(Answer::Wider(wider));
        }
        let ask_by = self.now.plus(acquire.stays).plus(self.pace.most);
        let pools = acquire.parts.iter().map(|part| &part.pool);
        let new: Vec<PoolName> =
            pools.filter(|pool| self.held(pool, &acquire.holder).is_none()).cloned().collect();
        let call = acquire.call.as_ref().map(|call| call.id.clone());
        let mut tickets = Vec::with_capacity(priced.len());
        let mut is_duplicate = !acquire.parts.is_empty();
        for part in priced {
            let pool = part.part.pool.clone();
            let known = self.held(&pool, &acquire.holder).cloned();
            let id = match known {
                Some(known) => {
                    // The same call again is a network retry, not another attempt.
                    let is_same_call = call.is_some() && call == known.call;
                    is_duplicate &= !is_same_call && matches!(known.state, State::Running | State::Suspect);
                    if !is_same_call || !matches!(known.state, State::Running) {
                        self.ask_again(&pool, &known, &part, ask_by, &call)?;
                    }
                    known.id
                }
                None => {
                    is_duplicate = false;
                    let with = new.iter().filter(|other| **other != pool).cloned().collect();
                    let ticket = Ticket {
                        request: acquire.request,
                        with,
                        class: acquire.class,
                        weight: part.weight,
                        least: part.least,
                        deadline: acquire.deadline,
                        ask_by,
                        lease_for: acquire.lease_for,
                        table: acquire.table.clone(),
                        hint: acquire.hint.clone(),
                        call: call.clone(),
                        ..Ticket::new(part.part.ticket, acquire.holder.clone(), part.asked, self.now)
                    };
                    self.apply(&pool, Event::Enqueued { ticket: Box::new(ticket) })?;
                    part.part.ticket
                }
            };
            self.present.insert(id, call.clone());
            tickets.push((pool, id));
        }
        Ok(EarlyAnswer::Depends { tickets, is_duplicate })
    }

    /// A holder that waits for other pools than it asks for now loses its place: a request starts in all of its pools or in
    /// none. Returns the pools that are needed to end the old request.
    fn leave_other_queues(&mut self, acquire: &Acquire) -> Result<Option<BTreeSet<PoolName>>, Contradiction> {
        let mut asked = BTreeSet::new();
        let mut waiting = Vec::new();
        for Part { pool, .. } in &acquire.parts {
            let known = self.held(pool, &acquire.holder);
            if known.is_none_or(|ticket| !ticket.state.counts()) {
                asked.insert(pool.clone());
                waiting.extend(known.map(|ticket| (pool.clone(), ticket.clone())));
            }
        }
        for (pool, ticket) in waiting {
            let of_request: BTreeSet<PoolName> = ticket.with.iter().cloned().chain([pool.clone()]).collect();
            if of_request == asked || self.ticket(&pool, ticket.id).is_none_or(|known| known.state.counts()) {
                continue;
            }
            let needed = self.needed_pools(&ticket);
            if !needed.is_empty() {
                return Ok(Some(needed.into_iter().chain(asked).collect()));
            }
            self.end(&pool, &ticket, End::GaveUp)?;
        }
        Ok(None)
    }

    /// The cost, or why it cannot be granted. A holder is not refused what it has.
    fn price<'p>(&self, part: &'p Part, holder: &Holder) -> Result<PricedPart<'p>, Reason> {
        let ledger = self.ledgers.get(&part.pool).ok_or(Reason::UnknownPool)?;
        let settings = ledger.settings();
        let (_, asked, weight) = settings.weigh(part.parallel, part.sessions);
        // A repeated request without a number keeps its number.
        let known = ledger.of_holder(holder).filter(|_| part.parallel.is_none() && part.sessions.is_none());
        let (asked, weight) = known.map_or((asked, weight), |known| (known.asked, known.weight));
        let least = part.least.unwrap_or(settings.min_units).max(settings.min_units).min(asked);
        let has_it = ledger.of_holder(holder).is_some_and(|ticket| ticket.state.counts());
        if !has_it && weight.units(settings.policy.least(asked, least)) > settings.greatest_limit() {
            return Err(Reason::ExceedsPool);
        }
        if ledger.of_holder(holder).is_none() && ledger.waiting() >= QUEUE_MAX {
            return Err(Reason::QueueFull);
        }
        Ok(PricedPart { part, asked, least, weight })
    }

    fn ask_again(
        &mut self,
        pool: &PoolName,
        known: &Ticket,
        part: &PricedPart<'_>,
        ask_by: Timestamp,
        call: &Option<String>,
    ) -> Result<(), Contradiction> {
        let ticket = known.id;
        match known.state {
            State::Waiting => {
                let PricedPart { asked, least, weight, .. } = *part;
                self.apply(pool, Event::Asked { ticket, asked, least, weight, ask_by })
            }
            State::Granted => {
                self.apply(pool, Event::Claimed { ticket, call: call.clone() })?;
                self.resize(pool, known, part)
            }
            State::Running | State::Suspect => {
                self.apply(pool, Event::Reacquired { ticket, call: call.clone() })?;
                self.resize(pool, known, part)
            }
            State::Released | State::Expired | State::Cancelled => Ok(()),
        }
    }

    /// Repeating a request changes nothing. A smaller one releases the rest; a larger one queues for the difference.
    fn resize(
        &mut self,
        pool: &PoolName,
        known: &Ticket,
        part: &PricedPart<'_>,
    ) -> Result<(), Contradiction> {
        // With other sessions or another weight model, the same number means something else: units are compared.
        let asked = match part.weight == known.weight {
            true => part.asked,
            false => known.weight.covering(part.weight.units(part.asked)),
        };
        let ticket = known.id;
        let granted = known.granted.unwrap_or(NonZeroU32::MIN);
        if asked > known.asked {
            let fits_ever = self
                .ledgers
                .get(pool)
                .is_some_and(|ledger| known.weight.units(asked) <= ledger.settings().greatest_limit());
            let is_known = known.upgrade.is_some_and(|upgrade| upgrade.parallel == asked);
            if fits_ever && !is_known {
                self.apply(pool, Event::Wanted { ticket, parallel: Some(asked) })?;
            }
            return Ok(());
        }
        if known.upgrade.is_some() {
            self.apply(pool, Event::Wanted { ticket, parallel: None })?;
        }
        if asked < known.asked {
            let parallel = granted.min(asked);
            self.apply(pool, Event::Resized { ticket, parallel, asked })?;
        }
        Ok(())
    }

    pub(super) fn claim(&mut self, parts: &[(PoolName, TicketId)]) -> EarlyResult {
        if parts.iter().any(|(pool, id)| self.ticket(pool, *id).is_none()) {
            return answer_now(Answer::Gone);
        }
        for (pool, id) in parts {
            if self.ticket(pool, *id).is_some_and(|ticket| ticket.state == State::Granted) {
                self.apply(pool, Event::Claimed { ticket: *id, call: None })?;
            }
            self.present.insert(*id, None);
        }
        Ok(EarlyAnswer::Depends { tickets: parts.to_vec(), is_duplicate: false })
    }

    /// Only for the attempt that claimed it: a later one has heard of the grant.
    pub(super) fn unclaim(&mut self, pool: &PoolName, id: TicketId, epoch: Epoch) -> EarlyResult {
        let Some(ledger) = self.ledgers.get(pool) else { return answer_now(Answer::Gone) };
        let ask_by = self.now.plus(self.pace.most).plus(ledger.settings().claim_for);
        match ledger.ticket(id) {
            Some(ticket) if ticket.state == State::Running && ticket.epoch == epoch => {
                self.apply(pool, Event::Unclaimed { ticket: id, ask_by })?;
                answer_now(Answer::Done)
            }
            Some(_) => answer_now(Answer::Done),
            None => answer_now(Answer::Gone),
        }
    }
}

//! The adaptive policy: a reservation for the first request, early starts that do not delay it, and less parallelism where
//! that helps.
//!
//! - The first request of the queue starts when it fits. Otherwise it has a reservation: the time at which enough units are
//!   expected back.
//! - Others may start before it only if they should end before that time, or leave its units free. The shortest goes first.
//! - A request that was overtaken [`OVERTAKES_MAX`] times, or waits [`SLACK`] longer than estimated, is protected: nobody
//!   behind it starts before it. So is a holder that waits for more.
//! - A request starts with less only if it should then end earlier than by waiting, or if the pool is under pressure and
//!   its deadline still holds.

use super::{Claimant, Grant, Size, Turn, View, downgrade_steps};
use crate::time::Timestamp;
use std::num::NonZeroU32;
use std::time::Duration;

/// So many later requests may start before a waiting one.
pub const OVERTAKES_MAX: u32 = 60;

/// So long after its estimated start, nobody overtakes a request any more.
pub const SLACK: Duration = Duration::from_secs(30 * 60);

/// A pool is under pressure when the waiting requests want more than this share of its limit, in percent.
const PRESSURE_PERCENT: u64 = 12;

/// Under pressure, a request that fits is made smaller only while less than the wanted units divided by this are free.
const SCARCE: u64 = 2;

/// An expected run time is multiplied by this before it is compared with a deadline, in percent.
const DEADLINE_MARGIN_PERCENT: u32 = 160;

/// So many requests behind the first are considered for an early start.
pub(in crate::pool) const LOOK_AHEAD: usize = 500;

pub(super) fn decide(view: &View<'_>) -> Vec<Grant> {
    let mut plan = Plan::new(view);
    let mut waiting = view.queue.iter();
    let first = loop {
        let Some(claimant) = waiting.next() else { return plan.grants };
        match plan.offer(claimant) {
            Some((parallel, size)) => plan.grant(claimant, parallel, Turn::First, size),
            None => break claimant,
        }
    };
    plan.start_others(first, waiting.as_slice());
    plan.grants
}

/// What the policy may grant: what was asked for, half, a quarter, or the least.
pub fn adaptive_steps(asked: NonZeroU32, least: NonZeroU32) -> impl Iterator<Item = NonZeroU32> {
    let least = least.min(asked);
    let halved = downgrade_steps(asked, least).take(3);
    let is_reached = downgrade_steps(asked, least).take(3).any(|step| step == least);
    halved.chain(std::iter::once(least).filter(move |_| !is_reached))
}

/// Whether nobody may start before it any more.
pub(in crate::pool) fn is_protected(claimant: &Claimant, now: Timestamp) -> bool {
    claimant.has > 0
        || claimant.overtaken >= OVERTAKES_MAX
        || claimant.estimated_start.is_some_and(|start| now > start.plus(SLACK))
}

/// Whether a request whose least fits should rather wait for all of its units.
pub(super) fn waits_for_all<'a>(view: &'a View<'a>) -> impl FnMut(&Claimant) -> bool {
    let mut plan = Plan::new(view);
    move |claimant| plan.offer(claimant).is_none()
}

struct Plan<'a> {
    view: &'a View<'a>,
    now: Timestamp,
    room: u64,
    /// The units that the waiting requests want.
    demand: u64,
    /// When units are expected back, in order; read when first needed.
    releases: Option<Vec<(Timestamp, u64)>>,
    /// The same for those granted before.
    granted: Vec<(Timestamp, u64)>,
    grants: Vec<Grant>,
}

impl<'a> Plan<'a> {
    fn new(view: &'a View<'a>) -> Self {
        let wanted = |claimant: &Claimant| claimant.needs(claimant.asked);
        Self {
            view,
            now: view.forecast.now(),
            room: view.limit.saturating_sub(view.usage),
            demand: view.queue.iter().map(wanted).fold(0, u64::saturating_add),
            releases: None,
            granted: Vec::new(),
            grants: Vec::new(),
        }
    }

    /// What a request may start with now, and why.
    fn offer(&mut self, claimant: &Claimant) -> Option<(NonZeroU32, Size)> {
        let fits = |parallel: NonZeroU32| claimant.needs(parallel) <= self.room;
        if self.view.held.contains(&claimant.ticket) || !fits(claimant.least.min(claimant.asked)) {
            return None;
        }
        let is_under_pressure =
            self.demand.saturating_mul(100) > self.view.limit.saturating_mul(PRESSURE_PERCENT);
        let half = adaptive_steps(claimant.asked, claimant.least).nth(1).filter(|_| is_under_pressure);
        if fits(claimant.asked) {
            let is_scarce = self.room < self.demand / SCARCE;
            let smaller = half.filter(|half| is_scarce && self.meets_deadline(claimant, *half));
            return Some(smaller.map_or((claimant.asked, Size::Full), |half| (half, Size::Pressure)));
        }
        let in_full = self.ends_in_full(claimant);
        for step in adaptive_steps(claimant.asked, claimant.least).skip(1) {
            if claimant.needs(step) > self.room {
                continue;
            }
            if self.end(claimant, step) <= in_full {
                return Some((step, Size::EndsEarlier));
            }
            if half == Some(step) && self.meets_deadline(claimant, step) {
                return Some((step, Size::Pressure));
            }
        }
        None
    }

    fn grant(&mut self, claimant: &Claimant, parallel: NonZeroU32, turn: Turn, size: Size) {
        let units = claimant.needs(parallel);
        self.room = self.room.saturating_sub(units);
        self.demand = self.demand.saturating_sub(claimant.needs(claimant.asked));
        let end = self.end(claimant, parallel);
        match &mut self.releases {
            Some(releases) => {
                let place = releases.partition_point(|(at, _)| *at <= end);
                releases.insert(place, (end, units));
            }
            None => self.granted.push((end, units)),
        }
        self.grants.push(Grant { ticket: claimant.ticket, parallel, turn, size });
    }

    /// Starts requests behind the first that do not delay it, the shortest first.
    fn start_others(&mut self, first: &Claimant, others: &[Claimant]) {
        if self.room == 0 {
            return;
        }
        let (reserved_at, mut spare) = self.reservation(first);
        // Nobody behind the first protected request starts before it.
        let mut overtaken: Vec<u32> = Vec::with_capacity(others.len().min(LOOK_AHEAD) + 1);
        let mut candidates: Vec<(Duration, usize)> = Vec::new();
        let queue = std::iter::once(first).chain(others).take(LOOK_AHEAD + 1);
        for (place, claimant) in queue.enumerate() {
            // A holder that waits for more gets it only in its turn.
            if place > 0 && claimant.has == 0 && claimant.needs(claimant.least) <= self.room {
                candidates.push((self.run_time(claimant, claimant.asked), place));
            }
            overtaken.push(claimant.overtaken);
            if is_protected(claimant, self.now) {
                break;
            }
        }
        candidates.sort_unstable();
        for (_, place) in candidates {
            let is_blocked = |ahead: &[u32]| ahead.iter().any(|count| *count >= OVERTAKES_MAX);
            let Some(claimant) = place.checked_sub(1).and_then(|index| others.get(index)) else { continue };
            if overtaken.get(..place).is_none_or(is_blocked) {
                continue;
            }
            let Some((parallel, size)) = self.offer(claimant) else { continue };
            let units = claimant.needs(parallel);
            let turn = match reserved_at {
                Some(reserved_at) if self.end(claimant, parallel) <= reserved_at => Turn::EndsBefore,
                _ if units <= spare => Turn::SpareUnits,
                _ => continue,
            };
            if turn == Turn::SpareUnits {
                spare -= units;
            }
            self.grant(claimant, parallel, turn, size);
            overtaken.iter_mut().take(place).for_each(|count| *count += 1);
        }
    }

    /// When the first request should be able to start, and how many units are then left over. The time is none when it
    /// cannot be said.
    fn reservation(&mut self, first: &Claimant) -> (Option<Timestamp>, u64) {
        // More than the limit never becomes free.
        let reserved = adaptive_steps(first.asked, first.least)
            .map(|step| first.needs(step))
            .find(|units| *units <= self.view.limit)
            .unwrap_or(first.needs(first.least));
        match self.free_at(reserved) {
            Some((at, free)) => (Some(at), free - reserved),
            None => (None, 0),
        }
    }

    /// When so many units should be free, and how many there are then.
    fn free_at(&mut self, units: u64) -> Option<(Timestamp, u64)> {
        let mut free = self.room;
        if free >= units {
            return Some((self.now, free));
        }
        let releases = self.releases.get_or_insert_with(|| {
            let mut releases = self.view.forecast.releases();
            releases.append(&mut self.granted);
            releases.sort_unstable();
            releases
        });
        for (at, released) in releases {
            free = free.saturating_add(*released);
            if free >= units {
                return Some((*at, free));
            }
        }
        None
    }

    /// When a request should end if it waits for all that it asks for.
    fn ends_in_full(&mut self, claimant: &Claimant) -> Timestamp {
        match self.free_at(claimant.needs(claimant.asked)) {
            Some((at, _)) => at.plus(self.run_time(claimant, claimant.asked)),
            None => Timestamp::MAX,
        }
    }

    fn end(&self, claimant: &Claimant, parallel: NonZeroU32) -> Timestamp {
        self.now.plus(self.run_time(claimant, parallel))
    }

    fn meets_deadline(&self, claimant: &Claimant, parallel: NonZeroU32) -> bool {
        let careful = self.run_time(claimant, parallel).saturating_mul(DEADLINE_MARGIN_PERCENT) / 100;
        self.now.plus(careful) <= self.view.forecast.deadline(claimant.ticket)
    }

    fn run_time(&self, claimant: &Claimant, parallel: NonZeroU32) -> Duration {
        self.view.forecast.run_time(claimant.ticket, parallel)
    }
}

#[cfg(test)]
mod tests;

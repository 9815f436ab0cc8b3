//! How many units a pool needs now and soon, for autoscalers.
//!
//! Later demand is what the present tickets are still expected to need then, and what was requested in the same minutes
//! of past days. Without a history, a pool is expected to need what it needs now.

use super::estimate::{Estimate, left_of};
use super::pass::queue_positions;
use super::run_times::quantile;
use super::usage::{STEP, step_of};
use super::{Event, Ledger, Record, State, Ticket, TicketId};
use crate::time::Timestamp;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Past days whose requests are counted.
pub const PAST_DAYS: u32 = 7;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// 5 and 15 minutes.
const HORIZONS: [Duration; 2] = [STEP, Duration::from_secs(900)];

/// In units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Demand {
    /// Units in use, and units that waiting requests want.
    pub now: u64,
    pub in_5_min: LaterDemand,
    pub in_15_min: LaterDemand,
}

/// In half of all cases the demand is at most `p50`, in nine of ten at most `p90`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaterDemand {
    pub p50: u64,
    pub p90: u64,
}

/// Units that were requested at this time of day until each horizon, sorted: one number for each past day that is known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PastRequests([Vec<u64>; 2]);

impl PastRequests {
    /// The steps of the usage whose readings are needed.
    pub fn steps(now: Timestamp) -> Vec<Timestamp> {
        let ends = [Duration::ZERO, HORIZONS[0], HORIZONS[1]];
        past_starts(now).flat_map(|start| ends.map(|end| start.plus(end).minus(STEP))).collect()
    }

    /// `readings` has, by step, how many units had ever been requested at its end. Days with a gap do not count.
    pub fn new(readings: &BTreeMap<Timestamp, u64>, now: Timestamp) -> Self {
        let at = |end: Timestamp| readings.get(&end.minus(STEP));
        Self(HORIZONS.map(|horizon| {
            let until = |start: Timestamp| Some(at(start.plus(horizon))?.saturating_sub(*at(start)?));
            let mut requested: Vec<u64> = past_starts(now).filter_map(until).collect();
            requested.sort_unstable();
            requested
        }))
    }
}

/// The start of a step that is nearest to this time of day, on each past day.
fn past_starts(now: Timestamp) -> impl Iterator<Item = Timestamp> {
    let start = step_of(now.plus(STEP / 2));
    (1..=PAST_DAYS).map(move |days| start.minus(DAY * days))
}

/// Units of new requests. One counts at most as much as the largest pool has, so that the sum of many fits a column.
pub fn requested(records: &[Record]) -> u64 {
    let units = records.iter().map(|record| match &record.event {
        Event::Enqueued { ticket } => ticket.weight.units(ticket.asked).min(u32::MAX.into()),
        _ => 0,
    });
    units.fold(0, u64::saturating_add)
}

pub fn demand(ledger: &Ledger, now: Timestamp, past: &PastRequests) -> Demand {
    let starts = queue_positions(ledger, now).into_iter().map(|(ticket, _, start)| (ticket, start)).collect();
    let [likely, late] = [50, 90].map(|percent| later(ledger, now, past, &starts, percent));
    let both = |horizon: usize| LaterDemand { p50: likely[horizon], p90: late[horizon].max(likely[horizon]) };
    let now = ledger.tickets().map(units).fold(0, u64::saturating_add);
    Demand { now, in_5_min: both(0), in_15_min: both(1) }
}

/// What a ticket has and still waits for.
fn units(ticket: &Ticket) -> u64 {
    ticket.units().saturating_add(ticket.wanted())
}

/// The demand at each horizon. What is unknown takes longer than any horizon.
fn later(
    ledger: &Ledger,
    now: Timestamp,
    past: &PastRequests,
    starts: &HashMap<TicketId, Option<Estimate>>,
    percent: u8,
) -> [u64; 2] {
    let usual = ledger.run_times.of_pool(percent);
    let start = |start: &Option<Estimate>| {
        start.map_or(Duration::MAX, |start| if percent > 50 { start.p90 } else { start.p50 })
    };
    // A new request waits behind the whole queue.
    let wait = starts.values().map(start).max().unwrap_or_default();
    let mut demand = [0, 0];
    for (horizon, length) in HORIZONS.into_iter().enumerate() {
        // New requests arrive evenly; without a queue, the first of them may have ended by then.
        let share = usual.filter(|usual| wait.saturating_add(*usual) <= length).unwrap_or(length);
        let new = u128::from(quantile(&past.0[horizon], percent).unwrap_or(0)) * share.as_millis();
        demand[horizon] = u64::try_from(new.div_ceil(length.as_millis())).unwrap_or(u64::MAX);
    }
    for ticket in ledger.tickets() {
        let (dag_id, parallel) = (ticket.holder.dag_id(), ticket.granted.unwrap_or(ticket.asked));
        let expected = || ledger.run_times.expected((dag_id, &ticket.table, ticket.class), parallel, percent);
        let needed_for = match ticket.state {
            _ if usual.is_none() => Duration::MAX,
            State::Waiting => starts.get(&ticket.id).map_or(Duration::MAX, start).saturating_add(expected()),
            _ => left_of(expected(), ticket.held_since(), now),
        };
        for (demand, length) in demand.iter_mut().zip(HORIZONS) {
            *demand = demand.saturating_add(if needed_for > length { units(ticket) } else { 0 });
        }
    }
    demand
}

#[cfg(test)]
mod tests;

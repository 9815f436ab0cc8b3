//! Estimates waiting times: simulates releases from past run times, and fills the queue into the free room.

use super::decide::{Claimant, Forecast, Grant, Policy, View, adaptive_steps, decide, downgrade_steps};
use super::ledger::Ledger;
use super::run_times::quantile;
use super::ticket::{Eta, Ticket, TicketId};
use super::weight::Weight;
use crate::duration;
use crate::time::Timestamp;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;
use uuid::Uuid;

/// The least remaining time of a run that takes longer than expected.
const OVERDUE: Duration = Duration::from_secs(30);

/// Most simulated releases: beyond them it is a guess anyway.
const HORIZON: usize = 20_000;

/// For so many requests of the queue and releases, the decisions of the adaptive policy are foreseen. Others are estimated
/// as if nobody overtook another.
const FORESEEN: usize = 64;
const FORESEEN_RELEASES: usize = 256;

/// How long a request without a deadline may take from its arrival to its end: twice its usual time, and 15 minutes.
pub fn allowed_time(usual: Duration) -> Duration {
    usual.saturating_mul(2).saturating_add(Duration::from_secs(15 * 60))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Estimate {
    /// In half of all cases the wait is at most this long.
    pub p50: Duration,
    /// In nine of ten.
    pub p90: Duration,
}

/// A pool and its history at an instant.
#[derive(Clone, Copy, Debug)]
pub struct Outlook<'a> {
    pub ledger: &'a Ledger,
    pub now: Timestamp,
}

impl Outlook<'_> {
    fn expected(&self, ticket: &Ticket, parallel: NonZeroU32, percent: u8) -> Duration {
        let work = (ticket.holder.dag_id(), ticket.table.as_str(), ticket.class);
        self.ledger.run_times.expected(work, parallel, percent)
    }

    /// In which time the units in use should come back, and how many.
    pub fn remaining(&self, percent: u8) -> impl Iterator<Item = (Duration, u64)> {
        let running = self.ledger.tickets().filter(|ticket| ticket.state.counts());
        running.take(HORIZON).filter_map(move |ticket| {
            let expected = self.expected(ticket, ticket.granted?, percent);
            Some((left_of(expected, ticket.held_since(), self.now), ticket.units()))
        })
    }
}

impl Forecast for Outlook<'_> {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn run_time(&self, ticket: TicketId, parallel: NonZeroU32) -> Duration {
        self.ledger.ticket(ticket).map_or(Duration::ZERO, |ticket| self.expected(ticket, parallel, 50))
    }

    fn deadline(&self, ticket: TicketId) -> Timestamp {
        let Some(ticket) = self.ledger.ticket(ticket) else { return self.now };
        let allowed = || allowed_time(self.expected(ticket, ticket.asked, 80));
        ticket.deadline.unwrap_or_else(|| ticket.enqueued_at.plus(allowed()))
    }

    fn releases(&self) -> Vec<(Timestamp, u64)> {
        let mut releases: Vec<_> =
            self.remaining(50).map(|(left, units)| (self.now.plus(left), units)).collect();
        releases.sort_unstable();
        releases
    }
}

/// When each request is likely to start, in order, if none starts before `wait`. It ends before the first request that does
/// not fit even in an empty pool.
pub fn estimate(
    outlook: Outlook<'_>,
    limit: u64,
    queue: &[(Claimant, &Ticket)],
    wait: Duration,
) -> impl Iterator<Item = Estimate> {
    let (likely, late) = (starts(outlook, limit, queue, 50), starts(outlook, limit, queue, 90));
    likely
        .into_iter()
        .zip(late)
        .map(move |(p50, p90)| Estimate { p50: p50.max(wait), p90: p90.max(p50).max(wait) })
}

/// When each request starts, in order, as far as that can be said.
fn starts(outlook: Outlook<'_>, limit: u64, queue: &[(Claimant, &Ticket)], percent: u8) -> Vec<Duration> {
    let mut starts = in_order(outlook, limit, queue, percent);
    if outlook.ledger.settings().policy == Policy::Adaptive {
        let queue = &queue[..queue.len().min(FORESEEN)];
        for (place, start) in Foresight::new(outlook, limit, queue, percent).starts() {
            starts.get_mut(place).into_iter().for_each(|known| *known = start);
        }
    }
    starts
}

/// The pool at a later time: what the adaptive policy decides at each expected release.
struct Foresight<'a> {
    outlook: Outlook<'a>,
    percent: u8,
    limit: u64,
    usage: u64,
    now: Timestamp,
    /// When units are expected back, in order.
    releases: Vec<(Timestamp, u64)>,
    /// Those that wait, with their places in the queue and their tickets.
    waiting: Vec<(Claimant, usize, &'a Ticket)>,
    /// Stands for later requests, which want as much as those that have started. It never starts.
    next: Claimant,
}

impl<'a> Foresight<'a> {
    fn new(outlook: Outlook<'a>, limit: u64, queue: &[(Claimant, &'a Ticket)], percent: u8) -> Self {
        let mut releases: Vec<_> =
            outlook.remaining(percent).map(|(left, units)| (outlook.now.plus(left), units)).collect();
        releases.sort_unstable();
        releases.truncate(FORESEEN_RELEASES);
        Self {
            outlook,
            percent,
            limit,
            usage: outlook.ledger.usage(),
            now: outlook.now,
            releases,
            waiting: (0..)
                .zip(queue)
                .map(|(place, (claimant, ticket))| (*claimant, place, *ticket))
                .collect(),
            next: Claimant {
                ticket: TicketId::new(Uuid::max()),
                asked: NonZeroU32::MIN,
                least: NonZeroU32::MIN,
                weight: Weight::PLAIN,
                has: 0,
                overtaken: 0,
                estimated_start: None,
            },
        }
    }

    /// The places in the queue of those that start, and when.
    fn starts(mut self) -> Vec<(usize, Duration)> {
        let mut starts = Vec::with_capacity(self.waiting.len());
        while !self.waiting.is_empty() {
            let Some((at, _)) = self.releases.first().copied() else { break };
            let due = self.releases.partition_point(|(end, _)| *end <= at);
            let released: u64 = self.releases.drain(..due).map(|(_, units)| units).sum();
            (self.now, self.usage) = (at, self.usage.saturating_sub(released));
            let room = self.limit.saturating_sub(self.usage);
            if self.waiting.iter().all(|(claimant, ..)| claimant.needs(claimant.least) > room) {
                continue;
            }
            for grant in self.decide() {
                starts.extend(self.start(grant));
            }
        }
        starts
    }

    fn decide(&self) -> Vec<Grant> {
        let queue = self.waiting.iter().map(|(claimant, ..)| *claimant);
        let queue: Vec<Claimant> = queue.chain(std::iter::once(self.next)).collect();
        let (limit, usage, held) = (self.limit, self.usage, BTreeSet::from([self.next.ticket]));
        decide(Policy::Adaptive, &View { limit, usage, queue: &queue, held: &held, forecast: self })
    }

    fn start(&mut self, Grant { ticket, parallel, .. }: Grant) -> Option<(usize, Duration)> {
        let index = self.waiting.iter().position(|(claimant, ..)| claimant.ticket == ticket)?;
        let (claimant, place, ticket) = self.waiting.remove(index);
        self.waiting.iter_mut().take(index).for_each(|(ahead, ..)| ahead.overtaken += 1);
        let wanted = u32::try_from(claimant.needs(claimant.asked)).unwrap_or(u32::MAX);
        self.next.asked = self.next.asked.saturating_add(wanted);
        let units = claimant.needs(parallel);
        self.usage += units;
        let end = self.now.plus(self.outlook.expected(ticket, parallel, self.percent));
        let index = self.releases.partition_point(|(at, _)| *at <= end);
        self.releases.insert(index, (end, units));
        Some((place, self.now.since(self.outlook.now)))
    }
}

impl Forecast for Foresight<'_> {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn run_time(&self, ticket: TicketId, parallel: NonZeroU32) -> Duration {
        self.outlook.run_time(ticket, parallel)
    }

    fn deadline(&self, ticket: TicketId) -> Timestamp {
        self.outlook.deadline(ticket)
    }

    fn releases(&self) -> Vec<(Timestamp, u64)> {
        self.releases.clone()
    }
}

/// When each request starts if nobody overtakes another.
fn in_order(outlook: Outlook<'_>, limit: u64, queue: &[(Claimant, &Ticket)], percent: u8) -> Vec<Duration> {
    let policy = outlook.ledger.settings().policy;
    let mut usage = outlook.ledger.usage();
    // When units are released, counted from now.
    let mut releases: BinaryHeap<Reverse<(Duration, u64)>> =
        outlook.remaining(percent).map(Reverse).collect();
    let mut clock = Duration::ZERO;
    let mut starts = Vec::with_capacity(queue.len());
    for (claimant, ticket) in queue.iter().take(HORIZON) {
        let enough = match policy {
            // Where requests wait, most start with half.
            Policy::Adaptive => {
                let mut halves = adaptive_steps(claimant.asked, claimant.least).skip(1);
                halves.find(|step| claimant.needs(*step) <= limit).unwrap_or(claimant.least)
            }
            Policy::Halving => claimant.least,
            Policy::Fifo => claimant.asked,
        };
        // It starts as soon as that fits, with as much as fits then.
        let room = loop {
            let room = limit.saturating_sub(usage);
            if claimant.needs(enough) <= room {
                break room;
            }
            let Some(Reverse((at, units))) = releases.pop() else { return starts };
            clock = clock.max(at);
            usage = usage.saturating_sub(units);
        };
        let parallel = match policy {
            Policy::Halving => {
                downgrade_steps(claimant.asked, enough).find(|step| claimant.needs(*step) <= room)
            }
            Policy::Adaptive | Policy::Fifo => Some(enough),
        };
        let parallel = parallel.unwrap_or(enough);
        starts.push(clock);
        let needs = claimant.needs(parallel);
        usage += needs;
        releases.push(Reverse((clock.saturating_add(outlook.expected(ticket, parallel, percent)), needs)));
    }
    starts
}

/// How long a run still takes. An overdue one is assumed to need another quarter of its time so far.
pub(super) fn left_of(expected: Duration, since: Timestamp, now: Timestamp) -> Duration {
    let elapsed = now.since(since);
    match expected.checked_sub(elapsed) {
        Some(left) => left.max(OVERDUE),
        None => OVERDUE.max(elapsed / 4),
    }
}

/// How good estimates were.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accuracy {
    /// Starts after a wait with an estimate. Fewer than [`SCORED_LEAST`] say nothing.
    pub count: usize,
    /// Half of the starts were at most this far from the estimate.
    pub median_error: Duration,
    /// So many percent started before the p90.
    pub p90_held_percent: u8,
}

impl Accuracy {
    pub const fn is_enough(&self) -> bool {
        self.count >= SCORED_LEAST
    }
}

impl fmt::Display for Accuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, median_error, p90_held_percent } = self;
        if !self.is_enough() {
            return write!(f, "too few waits yet to judge the estimates ({count} of {SCORED_LEAST})");
        }
        let error = duration::show(Duration::from_secs(median_error.as_secs()));
        write!(
            f,
            "half of the starts within {error}, {p90_held_percent} % before the p90, of the last {count}"
        )
    }
}

/// Fewer starts say nothing about the estimates.
pub const SCORED_LEAST: usize = 20;

/// Compares estimates with when the requests started.
pub fn accuracy(started: impl IntoIterator<Item = (Timestamp, Eta)>) -> Accuracy {
    let (mut errors, mut held) = (Vec::new(), 0);
    for (at, eta) in started {
        errors.push(at.since(eta.p50).max(eta.p50.since(at)));
        held += usize::from(at <= eta.p90);
    }
    errors.sort_unstable();
    let (count, median_error) = (errors.len(), quantile(&errors, 50).unwrap_or_default());
    Accuracy { count, median_error, p90_held_percent: u8::try_from(held * 100 / count.max(1)).unwrap_or(100) }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    pub least: Duration,
    pub most: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { least: Duration::from_secs(30), most: Duration::from_secs(300) }
    }
}

/// When a poller should ask again: at its likely start, within bounds; up to a tenth later, by its ticket, so that not all
/// poll at once. At the upper bound it is up to a tenth earlier instead. After a long wait the interval grows whatever the
/// estimate says: some callers give up after a number of polls.
pub fn wait_seconds(estimate: Option<Estimate>, waited: Duration, ticket: TicketId, pace: Pace) -> u32 {
    let least = pace.least.as_secs().max(1);
    let most = pace.most.as_secs().max(least);
    let likely = estimate.map_or(most, |estimate| estimate.p50.as_secs());
    let likely = likely.max(waited.as_secs() / 8).clamp(least, most);
    let spread = u64::try_from(ticket.get().as_u128() % 11).unwrap_or(0);
    let later = likely + likely * spread / 100;
    let wait = if later <= most { later } else { most - most * spread / 100 };
    u32::try_from(wait.clamp(least, most)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::tests::at;
    use proptest::prelude::*;

    #[test]
    fn who_has_run_for_longer_than_expected_is_taken_to_need_a_quarter_more() {
        let left = |elapsed| left_of(Duration::from_secs(100), at(0), at(elapsed)).as_secs();

        assert_eq!(left(0), 100);
        assert_eq!(left(60), 40);
        assert_eq!(left(80), 30, "nobody is taken to end at once");
        assert_eq!(left(100), 30);
        assert_eq!(left(1_000), 250);
    }

    #[test]
    fn estimates_are_judged_by_what_happened_once_there_are_enough() {
        // The starts are 0 to 19 or 20 seconds late, and the p90 is 17 seconds after the p50.
        let late = |count: u64| (0..count).map(|late| (at(100 + late), Eta { p50: at(100), p90: at(117) }));

        assert!(!accuracy(late(0)).is_enough() && !accuracy(late(19)).is_enough());
        assert_eq!(accuracy(late(19)).to_string(), "too few waits yet to judge the estimates (19 of 20)");
        let expected = Accuracy { count: 20, median_error: Duration::from_secs(9), p90_held_percent: 90 };
        assert_eq!(accuracy(late(20)), expected);
        let told = "half of the starts within 9s, 90 % before the p90, of the last 20";
        assert_eq!(accuracy(late(20)).to_string(), told);
        let early = (0..20).map(|early| (at(100 - early), Eta { p50: at(100), p90: at(117) }));
        assert_eq!(
            accuracy(early),
            Accuracy { p90_held_percent: 100, ..expected },
            "an early start is an error too"
        );
    }

    #[test]
    fn pollers_are_spread_and_also_those_at_the_bound() {
        let told = |likely: Option<u64>| -> std::collections::BTreeSet<u32> {
            let estimate = likely.map(Duration::from_secs).map(|p50| Estimate { p50, p90: p50 });
            let id = |id| TicketId::new(Uuid::from_u128(id));
            (0..100)
                .map(|ticket| wait_seconds(estimate, Duration::ZERO, id(ticket), Pace::default()))
                .collect()
        };

        assert_eq!(told(Some(100)), (100..=110).collect());
        assert!(told(Some(100_000)).len() > 5);
        assert!(told(None).len() > 5);
    }

    proptest! {
        #[test]
        fn a_poller_waits_within_its_pace(likely in prop::option::of(0_u64..1_000_000), id: u128) {
            let estimate = likely.map(Duration::from_secs).map(|p50| Estimate { p50, p90: p50 });
            let wait = wait_seconds(estimate, Duration::ZERO, TicketId::new(Uuid::from_u128(id)), Pace::default());
            prop_assert!((30..=300).contains(&wait));
        }
    }
}

//! Estimates waiting times: simulates releases from past run times, and fills the queue into the free room.

use super::decide::{Claimant, downgrade_steps};
use super::ticket::{Ticket, TicketId};
use crate::time::Timestamp;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

/// Runs remembered of each kind.
pub const RUNS_KEPT: usize = 30;

/// Assumed duration of a run without any history.
const UNKNOWN_RUN: Duration = Duration::from_secs(600);

/// The least remaining time of a run that takes longer than expected.
const OVERDUE: Duration = Duration::from_secs(30);

/// Most simulated releases: beyond them it is a guess anyway.
const HORIZON: usize = 20_000;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RunKind {
    pub dag_id: String,
    pub table: String,
    pub parallel: NonZeroU32,
}

/// The last [`RUNS_KEPT`] durations of each kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RunTimes {
    works: BTreeMap<String, BTreeMap<String, Work>>,
    all: Runs,
}

/// The same work with any parallelism.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Work {
    kinds: BTreeMap<NonZeroU32, (RunKind, Runs)>,
    all: Runs,
}

/// The last runs in seconds, in order of arrival and sorted, because reads are more frequent than writes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Runs {
    came: VecDeque<u32>,
    sorted: Vec<u32>,
}

impl Runs {
    fn add(&mut self, seconds: u32) {
        if self.came.len() == RUNS_KEPT {
            let oldest = self.came.pop_front();
            let place = oldest.and_then(|oldest| self.sorted.binary_search(&oldest).ok());
            place.map(|place| self.sorted.remove(place));
        }
        self.came.push_back(seconds);
        let place = self.sorted.partition_point(|known| *known <= seconds);
        self.sorted.insert(place, seconds);
    }

    fn quantile(&self, percent: u8) -> Option<Duration> {
        let last = self.sorted.len().checked_sub(1)?;
        let index = (self.sorted.len() * usize::from(percent)).div_ceil(100).saturating_sub(1);
        self.sorted.get(index.min(last)).map(|seconds| Duration::from_secs(u64::from(*seconds)))
    }
}

impl RunTimes {
    pub fn add(&mut self, ticket: &Ticket, took: Duration) {
        let Some(parallel) = ticket.granted else { return };
        let (dag_id, table) = (ticket.holder.dag_id().to_owned(), ticket.table.clone());
        let seconds = u32::try_from(took.as_secs()).unwrap_or(u32::MAX);
        self.add_seconds(RunKind { dag_id, table, parallel }, seconds);
    }

    pub fn add_seconds(&mut self, kind: RunKind, seconds: u32) {
        self.all.add(seconds);
        let tables = self.works.entry(kind.dag_id.clone()).or_default();
        let work = tables.entry(kind.table.clone()).or_default();
        work.all.add(seconds);
        work.kinds.entry(kind.parallel).or_insert_with(|| (kind, Runs::default())).1.add(seconds);
    }

    /// By kind, the oldest run first.
    pub fn kinds(&self) -> impl Iterator<Item = (&RunKind, Vec<u32>)> {
        let works = self.works.values().flat_map(BTreeMap::values);
        let kinds = works.flat_map(|work| work.kinds.values());
        kinds.map(|(kind, runs)| (kind, runs.came.iter().copied().collect()))
    }

    /// A quantile of this kind's run times; without any, of the same work with other parallelism, or of the pool.
    pub fn quantile(&self, dag_id: &str, table: &str, parallel: NonZeroU32, percent: u8) -> Duration {
        let work = self.works.get(dag_id).and_then(|tables| tables.get(table));
        let kind = work.and_then(|work| work.kinds.get(&parallel));
        kind.and_then(|(_, runs)| runs.quantile(percent))
            .or_else(|| work.and_then(|work| work.all.quantile(percent)))
            .or_else(|| self.all.quantile(percent))
            .unwrap_or(UNKNOWN_RUN)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Estimate {
    /// In half of all cases the wait is at most this long.
    pub p50: Duration,
    /// In nine of ten.
    pub p90: Duration,
}

#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    pub now: Timestamp,
    pub limit: u64,
    pub usage: u64,
    pub run_times: &'a RunTimes,
}

/// When each request is likely to start. Requests that do not fit even in an empty pool are left out.
pub fn estimate(
    situation: Situation<'_>,
    running: &[&Ticket],
    queue: &[(Claimant, &Ticket)],
) -> HashMap<TicketId, Estimate> {
    let likely = starts(situation, running, queue, 50);
    let late = starts(situation, running, queue, 90);
    let both = likely.into_iter().zip(late);
    queue
        .iter()
        .zip(both)
        .map(|((claimant, _), (p50, p90))| (claimant.ticket, Estimate { p50, p90: p90.max(p50) }))
        .collect()
}

/// When each request starts, in order, as far as that can be said.
fn starts(
    situation: Situation<'_>,
    running: &[&Ticket],
    queue: &[(Claimant, &Ticket)],
    percent: u8,
) -> Vec<Duration> {
    let Situation { now, limit, mut usage, run_times } = situation;
    let expected = |ticket: &Ticket, parallel| {
        run_times.quantile(ticket.holder.dag_id(), &ticket.table, parallel, percent)
    };
    // When units are released, counted from now.
    let mut releases: BinaryHeap<Reverse<(Duration, u64)>> = running
        .iter()
        .take(HORIZON)
        .filter_map(|ticket| {
            let expected = expected(ticket, ticket.granted?);
            Some(Reverse((left_of(expected, ticket.held_since(), now), ticket.units())))
        })
        .collect();
    let mut clock = Duration::ZERO;
    let mut starts = Vec::with_capacity(queue.len());
    for (claimant, ticket) in queue.iter().take(HORIZON) {
        // It starts as soon as its minimum fits, with as much as fits then.
        let parallel = loop {
            let room = limit.saturating_sub(usage);
            if claimant.needs(claimant.least) <= room {
                break downgrade_steps(claimant.asked, claimant.least)
                    .find(|step| claimant.needs(*step) <= room);
            }
            let Some(Reverse((at, units))) = releases.pop() else { return starts };
            clock = clock.max(at);
            usage = usage.saturating_sub(units);
        };
        let parallel = parallel.unwrap_or(claimant.least);
        starts.push(clock);
        let needs = claimant.needs(parallel);
        usage += needs;
        releases.push(Reverse((clock.saturating_add(expected(ticket, parallel)), needs)));
    }
    starts
}

/// How long a run still takes. An overdue one is assumed to need another quarter of its time so far.
fn left_of(expected: Duration, since: Timestamp, now: Timestamp) -> Duration {
    let elapsed = now.since(since);
    match expected.checked_sub(elapsed) {
        Some(left) if left >= OVERDUE => left,
        _ => OVERDUE.max(elapsed / 4),
    }
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
    use proptest::prelude::*;
    use uuid::Uuid;

    fn some(number: u32) -> NonZeroU32 {
        NonZeroU32::new(number).unwrap()
    }

    fn kind(dag_id: &str, table: &str, parallel: u32) -> RunKind {
        RunKind { dag_id: dag_id.to_owned(), table: table.to_owned(), parallel: some(parallel) }
    }

    #[test]
    fn the_nearest_past_counts() {
        let mut past = RunTimes::default();
        let of = |past: &RunTimes, dag: &str, parallel| past.quantile(dag, "T", some(parallel), 50).as_secs();
        assert_eq!(of(&past, "a", 8), 600, "nothing is known");

        past.add_seconds(kind("b", "T", 8), 50);
        assert_eq!(of(&past, "a", 8), 50, "something else of this pool");

        past.add_seconds(kind("a", "T", 4), 200);
        assert_eq!(of(&past, "a", 8), 200, "the same with another parallelism");

        past.add_seconds(kind("a", "T", 8), 100);
        assert_eq!(of(&past, "a", 8), 100, "the same");
        assert_eq!(past.kinds().count(), 3);
    }

    #[test]
    fn who_has_run_for_longer_than_expected_is_taken_to_need_a_quarter_more() {
        let at = |seconds| Timestamp::EPOCH.plus(Duration::from_secs(seconds));
        let left = |elapsed| left_of(Duration::from_secs(100), at(0), at(elapsed)).as_secs();

        assert_eq!(left(0), 100);
        assert_eq!(left(60), 40);
        assert_eq!(left(80), 30, "nobody is taken to end at once");
        assert_eq!(left(100), 30);
        assert_eq!(left(1_000), 250);
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

        #[test]
        fn only_the_last_runs_count_and_a_greater_quantile_is_no_less(
            runs in prop::collection::vec(0_u32..5_000, 1..100),
        ) {
            let mut past = RunTimes::default();
            for seconds in &runs {
                past.add_seconds(kind("a", "T", 8), *seconds);
            }
            let mut last = runs[runs.len().saturating_sub(RUNS_KEPT)..].to_vec();
            let (_, kept) = past.kinds().next().unwrap();
            prop_assert_eq!(&kept, &last);

            last.sort_unstable();
            let of = |percent| past.quantile("a", "T", some(8), percent).as_secs();
            prop_assert_eq!(of(100), u64::from(last[last.len() - 1]));
            prop_assert_eq!(of(0), u64::from(last[0]));
            prop_assert!(of(50) <= of(90));
        }
    }
}

//! How long runs take: the last runs of each kind, and how much more parallelism shortens them.

use super::ticket::{Class, Ticket};
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

/// Runs remembered of each kind.
pub const RUNS_KEPT: usize = 30;

/// Assumed duration of a run without any history.
const UNKNOWN_RUN: Duration = Duration::from_secs(600);

/// Fewer runs say little about how long the slow ones take.
const FEW_RUNS: usize = 3;

/// The part of a run that parallelism does not shorten: start-up, at most half of the run.
const START_UP_SECONDS: f64 = 90.0;

/// The share of the rest that runs in parallel, if history does not tell.
pub const PARALLEL_SHARE: f64 = 0.9;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RunKind {
    pub dag_id: String,
    pub table: String,
    pub parallel: NonZeroU32,
}

/// The last [`RUNS_KEPT`] durations of each kind, of each class, and of the pool.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RunTimes {
    works: BTreeMap<String, BTreeMap<String, Work>>,
    classes: BTreeMap<Class, Runs>,
    all: Runs,
}

/// The same work, by parallelism.
#[derive(Clone, PartialEq, Debug)]
struct Work {
    kinds: BTreeMap<NonZeroU32, (RunKind, Class, Runs)>,
    /// The share of it that runs in parallel.
    share: f64,
}

impl Default for Work {
    fn default() -> Self {
        Self { kinds: BTreeMap::new(), share: PARALLEL_SHARE }
    }
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

    /// Few runs are not taken for all that can happen.
    fn quantile(&self, percent: u8) -> Option<Duration> {
        let at = |percent| quantile(&self.sorted, percent).map(|seconds| Duration::from_secs(seconds.into()));
        let seen = at(percent)?;
        match self.sorted.len() < FEW_RUNS {
            true => Some(seen.max(widened(at(50)?, percent))),
            false => Some(seen),
        }
    }

    fn median(&self) -> Option<f64> {
        self.quantile(50).map(|median| median.as_secs_f64())
    }
}

/// The nearest rank; none of an empty list.
pub fn quantile<T: Copy>(sorted: &[T], percent: u8) -> Option<T> {
    let index = (sorted.len() * usize::from(percent)).div_ceil(100).saturating_sub(1);
    sorted.get(index).or(sorted.last()).copied()
}

/// A quantile around a median when nothing else is known: nine of ten runs take at most twice as long.
fn widened(median: Duration, percent: u8) -> Duration {
    median + median * u32::from(percent.saturating_sub(50)) / 40
}

impl RunTimes {
    pub fn add(&mut self, ticket: &Ticket, took: Duration) {
        let Some(parallel) = ticket.granted else { return };
        let (dag_id, table) = (ticket.holder.dag_id().to_owned(), ticket.table.clone());
        let seconds = u32::try_from(took.as_secs()).unwrap_or(u32::MAX);
        self.add_seconds(RunKind { dag_id, table, parallel }, ticket.class, seconds);
    }

    pub fn add_seconds(&mut self, kind: RunKind, class: Class, seconds: u32) {
        self.all.add(seconds);
        self.classes.entry(class).or_default().add(seconds);
        let tables = self.works.entry(kind.dag_id.clone()).or_default();
        let work = tables.entry(kind.table.clone()).or_default();
        let (_, latest, runs) =
            work.kinds.entry(kind.parallel).or_insert_with(|| (kind, class, Runs::default()));
        *latest = class;
        runs.add(seconds);
        if work.kinds.len() > 1 {
            work.share = fitted_share(work);
        }
    }

    /// By kind with its last class, the oldest run first.
    pub fn kinds(&self) -> impl Iterator<Item = (&RunKind, Class, Vec<u32>)> {
        let works = self.works.values().flat_map(BTreeMap::values);
        let kinds = works.flat_map(|work| work.kinds.values());
        kinds.map(|(kind, class, runs)| (kind, *class, runs.came.iter().copied().collect()))
    }

    /// A quantile of the pool's last run times, of any kind.
    pub fn of_pool(&self, percent: u8) -> Option<Duration> {
        self.all.quantile(percent)
    }

    /// The share of a work that runs in parallel.
    pub fn parallel_share(&self, dag_id: &str, table: &str) -> f64 {
        let work = self.works.get(dag_id).and_then(|tables| tables.get(table));
        work.map_or(PARALLEL_SHARE, |work| work.share)
    }

    /// So many percent of such runs take at most this long. Without any history of this kind it follows from the same
    /// work with other parallelism, from the class, or from the pool.
    pub fn expected(
        &self,
        (dag_id, table, class): (&str, &str, Class),
        parallel: NonZeroU32,
        percent: u8,
    ) -> Duration {
        let work = self.works.get(dag_id).and_then(|tables| tables.get(table));
        work.and_then(|work| expected_of_work(work, parallel, percent))
            .or_else(|| self.classes.get(&class)?.quantile(percent))
            .or_else(|| self.all.quantile(percent))
            .unwrap_or(widened(UNKNOWN_RUN, percent))
    }
}

fn expected_of_work(work: &Work, parallel: NonZeroU32, percent: u8) -> Option<Duration> {
    if let Some((_, _, runs)) = work.kinds.get(&parallel) {
        return runs.quantile(percent);
    }
    // The parallelism with the most runs is known best; among equals, the next.
    let distance = |known: NonZeroU32| known.get().abs_diff(parallel.get());
    let (from, (_, _, runs)) = work
        .kinds
        .iter()
        .min_by_key(|(known, (_, _, runs))| (std::cmp::Reverse(runs.came.len()), distance(**known)))?;
    let seconds = scaled(runs.quantile(percent)?.as_secs_f64(), *from, parallel, work.share);
    Duration::try_from_secs_f64(seconds).ok()
}

/// Amdahl's law: the part `share` of the work is divided by the parallelism.
fn amdahl(parallel: NonZeroU32, share: f64) -> f64 {
    (1.0 - share) + share / f64::from(parallel.get())
}

/// The time with `to`, if it is `seconds` with `from`.
pub fn scaled(seconds: f64, from: NonZeroU32, to: NonZeroU32, share: f64) -> f64 {
    let start_up = START_UP_SECONDS.min(seconds / 2.0);
    start_up + (seconds - start_up) * amdahl(to, share) / amdahl(from, share)
}

/// The share of the work that runs in parallel, in the best fit of the medians; two parallelisms are needed for one.
fn fitted_share(work: &Work) -> f64 {
    let medians: Vec<(NonZeroU32, f64)> = work
        .kinds
        .iter()
        .filter(|(_, (_, _, runs))| runs.came.len() >= FEW_RUNS)
        .filter_map(|(parallel, (_, _, runs))| Some((*parallel, runs.median()?)))
        .collect();
    let [(from, seconds), others @ ..] = medians.as_slice() else { return PARALLEL_SHARE };
    let error = |share: f64| -> f64 {
        let miss = |(parallel, median): &(NonZeroU32, f64)| {
            (scaled(*seconds, *from, *parallel, share) - median).powi(2)
        };
        others.iter().map(miss).sum()
    };
    let shares = (0_u8..100).map(|percent| f64::from(percent) / 100.0);
    match others.is_empty() {
        true => PARALLEL_SHARE,
        false => shares.min_by(|one, other| error(*one).total_cmp(&error(*other))).unwrap_or(PARALLEL_SHARE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::tests::some;
    use proptest::prelude::*;

    fn kind(dag_id: &str, table: &str, parallel: u32) -> RunKind {
        RunKind { dag_id: dag_id.to_owned(), table: table.to_owned(), parallel: some(parallel) }
    }

    fn expected(past: &RunTimes, dag: &str, class: Class, parallel: u32, percent: u8) -> u64 {
        past.expected((dag, "T", class), some(parallel), percent).as_secs()
    }

    #[test]
    fn the_nearest_history_counts() {
        let mut past = RunTimes::default();
        let of = |past: &RunTimes, parallel| expected(past, "a", Class::Bulk, parallel, 50);
        assert_eq!(of(&past, 8), 600, "nothing is known");

        past.add_seconds(kind("b", "T", 8), Class::Normal, 50);
        assert_eq!(of(&past, 8), 50, "something else of this pool");

        past.add_seconds(kind("c", "T", 8), Class::Bulk, 70);
        assert_eq!(of(&past, 8), 70, "something else of this class");

        past.add_seconds(kind("a", "T", 4), Class::Normal, 890);
        assert_eq!(of(&past, 4), 890);
        let (at_4, at_8) = (0.1 + 0.9 / 4.0, 0.1 + 0.9 / 8.0);
        assert_eq!(of(&past, 8), (90.0 + 800.0 * at_8 / at_4) as u64, "the same with another parallelism");

        past.add_seconds(kind("a", "T", 8), Class::Normal, 100);
        assert_eq!(of(&past, 8), 100, "the same");
        assert_eq!(past.kinds().count(), 4);
    }

    #[test]
    fn few_runs_are_never_a_single_point() {
        let mut past = RunTimes::default();
        assert_eq!(expected(&past, "a", Class::Normal, 8, 90), 1_200);
        past.add_seconds(kind("a", "T", 8), Class::Normal, 100);
        assert_eq!(expected(&past, "a", Class::Normal, 8, 90), 200);
        past.add_seconds(kind("a", "T", 8), Class::Normal, 100);
        past.add_seconds(kind("a", "T", 8), Class::Normal, 110);
        assert_eq!(expected(&past, "a", Class::Normal, 8, 90), 110);
    }

    #[test]
    fn the_parallel_share_is_learned_from_two_parallelisms() {
        for share in [0.3, 0.7, 0.95] {
            let mut past = RunTimes::default();
            for parallel in [4, 16] {
                let seconds = 90.0 + 4_000.0 * amdahl(some(parallel), share);
                for _ in 0..3 {
                    past.add_seconds(kind("a", "T", parallel), Class::Normal, seconds as u32);
                }
            }
            let truth = 90.0 + 4_000.0 * amdahl(some(2), share);
            let found = expected(&past, "a", Class::Normal, 2, 50) as f64;
            assert!((found - truth).abs() / truth < 0.03, "{share}: {found} for {truth}");
        }
    }

    proptest! {
        #[test]
        fn only_the_last_runs_count_and_a_greater_quantile_is_no_less(
            runs in prop::collection::vec(0_u32..5_000, 1..100),
        ) {
            let mut past = RunTimes::default();
            for seconds in &runs {
                past.add_seconds(kind("a", "T", 8), Class::Normal, *seconds);
            }
            let mut last = runs[runs.len().saturating_sub(RUNS_KEPT)..].to_vec();
            let (_, _, kept) = past.kinds().next().unwrap();
            prop_assert_eq!(&kept, &last);

            last.sort_unstable();
            let of = |percent| expected(&past, "a", Class::Normal, 8, percent);
            prop_assert!(of(100) >= u64::from(last[last.len() - 1]));
            prop_assert_eq!(of(0), u64::from(last[0]));
            prop_assert!(of(50) <= of(90));
        }

        #[test]
        fn more_parallelism_never_takes_longer_without_history_of_it(
            runs in prop::collection::vec((1_u32..64, 1_u32..50_000), 1..20),
            (less, more) in (1_u32..64, 1_u32..64),
        ) {
            let mut past = RunTimes::default();
            for (parallel, seconds) in runs {
                past.add_seconds(kind("a", "T", parallel + 100), Class::Normal, seconds);
            }
            let (less, more) = (less.min(more), less.max(more));
            let of = |parallel| expected(&past, "a", Class::Normal, parallel, 50);
            // The best known parallelism may differ between the two only by distance, which orders them the same way.
            prop_assert!(of(more) <= of(less).saturating_add(1) || past.kinds().count() > 1);
        }
    }
}

//! How good a night was, in numbers, and how full its pools were.

use super::bound::mean_flow_bound;
use super::{Batch, Night, PoolStart, Run, Start, Workload};
use crate::pool::PoolName;
use crate::pool::usage::{STEP, UsageStep, step_of};
use crate::time::Timestamp;
use std::collections::BTreeMap;
use std::ops::Bound::Excluded;
use std::time::Duration;

/// Requests for at least this parallelism are wide.
const WIDE: u32 = 16;

/// The peak: batches that arrive in this time after the beginning have to be done soon.
const PEAK: Duration = Duration::from_secs(3 * 3600);

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// The figures of a night, or their means. Times are in seconds.
        #[derive(Clone, Copy, PartialEq, Debug, Default)]
        pub struct Score {
            $($(#[$doc])* pub $name: f64,)+
        }

        impl Score {
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),+];

            /// In the order of [`NAMES`](Self::NAMES), rounded to three decimal places.
            pub fn values(&self) -> impl Iterator<Item = f64> {
                // The sum of nothing is -0.
                [$(self.$name),+].into_iter().map(|value| (value * 1e3).round() / 1e3 + 0.0)
            }

            pub fn mean(nights: &[Self]) -> Self {
                let count = nights.len().max(1) as f64;
                Self { $($name: nights.iter().map(|night| night.$name).sum::<f64>() / count,)+ }
            }
        }
    };
}

figures! {
    batches,
    /// Decisions that must not happen.
    violations,
    /// Batches that never started.
    failures,
    wait_mean,
    wait_p50,
    wait_p95,
    wait_max,
    /// Of requests for a parallelism of 16 or more.
    wide_wait_mean,
    wide_wait_p95,
    wide_wait_max,
    /// From arrival to end.
    flow_mean,
    /// Batches that took longer than twice their usual run and a quarter of an hour.
    sla_misses,
    downgrades,
    /// The most later arrivals that started while one request waited.
    overtakes,
    /// The median difference between the first estimate and the start, of batches that waited.
    eta_error,
    /// The percentage of waits that the first estimate's p90 covered.
    eta_covered,
    /// The last end of a batch of the first three hours, in hours from the beginning.
    clear_hours,
    /// The most units that were in use in one pool.
    peak,
    /// No policy could have a lower mean flow than this.
    flow_bound,
    /// The mean flow, divided by its bound.
    flow_ratio,
}

/// The figures that people compare.
const COMPARED: &str = "batches failures wait_mean wait_p95 wait_max wide_wait_p95 flow_mean sla_misses downgrades \
                        overtakes peak";

/// The names of figures with their values on both sides.
pub fn compare(one: &Score, other: &Score) -> impl Iterator<Item = (&'static str, f64, f64)> {
    let both = Score::NAMES.iter().zip(one.values().zip(other.values()));
    both.map(|(name, (one, other))| (*name, one, other))
        .filter(|(name, ..)| COMPARED.split(' ').any(|compared| compared == *name))
}

pub fn score(workload: &Workload, night: &Night) -> Score {
    let begins_at = workload.begins_at;
    let scored = || {
        let all = workload.batches.iter().zip(&night.runs);
        all.filter(move |(batch, _)| batch.arrives_at >= begins_at)
    };
    let started = || scored().filter_map(|(batch, run)| Some((batch, run, run.start?)));
    let wait = |(batch, _, start): (&Batch, &Run, Start)| start.at.since(batch.arrives_at).as_secs_f64();
    let waits = Sorted::new(started().map(wait));
    let wide = Sorted::new(started().filter(|(batch, ..)| batch.asked.get() >= WIDE).map(wait));
    let flow = |batch: &Batch, start: Start| start.until.since(batch.arrives_at);
    let flows = Sorted::new(started().map(|(batch, _, start)| flow(batch, start).as_secs_f64()));
    let told = || started().filter_map(|waited| Some((wait(waited), waited.1.estimate?)));
    let errors = Sorted::new(told().map(|(wait, told)| (wait - told.p50.as_secs_f64()).abs()));
    let covered = told().filter(|(wait, told)| *wait <= told.p90.as_secs_f64()).count();
    let count = scored().count();
    let is_in_peak = |batch: &Batch| batch.arrives_at < begins_at.plus(PEAK);
    let clear = started().filter(|(batch, ..)| is_in_peak(batch)).map(|(.., start)| start.until).max();
    let clear = clear.map_or(Duration::ZERO, |until| until.since(begins_at));
    let levels = |pool: &PoolStart| levels(workload, night, &pool.settings.name).into_values();
    let peak = workload.pools.iter().flat_map(levels).map(|(usage, _)| usage).max();
    let flow_bound = mean_flow_bound(workload);
    Score {
        batches: count as f64,
        violations: night.violations as f64,
        failures: (count - started().count()) as f64,
        wait_mean: waits.mean(),
        wait_p50: waits.quantile(0.5),
        wait_p95: waits.quantile(0.95),
        wait_max: waits.quantile(1.0),
        wide_wait_mean: wide.mean(),
        wide_wait_p95: wide.quantile(0.95),
        wide_wait_max: wide.quantile(1.0),
        flow_mean: flows.mean(),
        sla_misses: started().filter(|(batch, _, start)| flow(batch, *start) > batch.target).count() as f64,
        downgrades: started().filter(|(batch, _, start)| start.parallel < batch.asked).count() as f64,
        overtakes: overtakes(workload, night) as f64,
        eta_error: errors.quantile(0.5),
        eta_covered: covered as f64 * 100.0 / told().count().max(1) as f64,
        clear_hours: clear.as_secs_f64() / 3600.0,
        peak: peak.unwrap_or(0) as f64,
        flow_bound,
        flow_ratio: if flow_bound > 0.0 { flows.mean() / flow_bound } else { 0.0 },
    }
}

struct Sorted(Vec<f64>);

impl Sorted {
    fn new(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// The value at the rounded place, as in the programs that the figures are compared with.
    fn quantile(&self, share: f64) -> f64 {
        let place = (self.0.len().saturating_sub(1) as f64 * share).round();
        self.0.get(place as usize).copied().unwrap_or(0.0)
    }
}

fn overtakes(workload: &Workload, night: &Night) -> usize {
    let mut most = 0;
    for pool in &workload.pools {
        let of_pool =
            workload.batches.iter().zip(&night.runs).filter(|(batch, _)| batch.pool == pool.settings.name);
        let started: Vec<(Timestamp, Timestamp)> =
            of_pool.filter_map(|(batch, run)| Some((batch.arrives_at, run.start?.at))).collect();
        for (place, (_, start)) in started.iter().enumerate() {
            // Later arrivals follow in the list, and those after the start cannot have overtaken.
            let later = started[place + 1..].iter().take_while(|(arrival, _)| arrival < start);
            most = most.max(later.filter(|(_, other)| other < start).count());
        }
    }
    most
}

/// The units in use and the waiting requests of a pool, after each instant at which one of them changed.
fn levels(workload: &Workload, night: &Night, pool: &PoolName) -> BTreeMap<Timestamp, (i64, i64)> {
    let mut levels: BTreeMap<Timestamp, (i64, i64)> = BTreeMap::new();
    let mut change = |at: Timestamp, units: i64, waiting: i64| {
        let level = levels.entry(at).or_default();
        *level = (level.0 + units, level.1 + waiting);
    };
    for (batch, run) in workload.batches.iter().zip(&night.runs).filter(|(batch, _)| batch.pool == *pool) {
        change(batch.arrives_at, 0, 1);
        change(run.start.map(|start| start.at).or(run.left_at).unwrap_or(Timestamp::MAX), 0, -1);
        if let Some(Start { at, until, units, .. }) = run.start {
            let units = i64::try_from(units).unwrap_or(i64::MAX);
            change(at, units, 0);
            change(until, -units, 0);
        }
    }
    let (mut usage, mut waiting) = (0, 0);
    for level in levels.values_mut() {
        (usage, waiting) = (usage + level.0, waiting + level.1);
        *level = (usage, waiting);
    }
    levels
}

/// How full a pool was in each step from `since` up to `until`. The mean is over time.
pub fn usage_steps(
    workload: &Workload,
    night: &Night,
    pool: &PoolName,
    since: Timestamp,
    until: Timestamp,
) -> Vec<UsageStep> {
    let levels = levels(workload, night, pool);
    let step = |begin: Timestamp| {
        let end = begin.plus(STEP);
        let at_first = levels.range(..=begin).next_back().map_or((0, 0), |(_, level)| *level);
        let (mut least, mut most, mut most_waiting) = (at_first.0, at_first.0, at_first.1);
        let (mut area, mut last, mut before) = (0.0, begin, at_first.0);
        for (at, (usage, waiting)) in levels.range((Excluded(begin), Excluded(end))) {
            area += before as f64 * at.since(last).as_secs_f64();
            (last, before) = (*at, *usage);
            (least, most, most_waiting) = (least.min(*usage), most.max(*usage), most_waiting.max(*waiting));
        }
        area += before as f64 * end.since(last).as_secs_f64();
        let [least, most, most_waiting] =
            [least, most, most_waiting].map(|count| u64::try_from(count).unwrap_or(0));
        let total = (area / STEP.as_secs_f64()).round() as u64;
        UsageStep { at: begin, least, most, total, samples: 1, most_waiting }
    };
    let begins = std::iter::successors(Some(step_of(since)), |begin| Some(begin.plus(STEP)));
    begins.take_while(|begin| *begin < until).map(step).collect()
}

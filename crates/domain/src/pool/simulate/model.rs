//! The model of a night: 1,200 batches that request connections to two databases. The same seed gives the same night in
//! any program that draws in this order: interval, place in it, whether by cron, how late, parallelism, run time, parallel
//! share, noise, and 30 past runs.

use super::random::Random;
use super::{Batch, MIDNIGHT, PoolStart, RunLength, Workload, seconds};
use crate::pool::estimate::allowed_time;
use crate::pool::run_times::{RunKind, quantile};
use crate::pool::weight::Shape;
use crate::pool::{Class, Holder, Settings};
use std::num::NonZeroU32;

crate::words! {
    /// How much work a night has, by the median run in minutes of a batch with parallelism 8.
    pub enum Scenario: "a scenario is busy, crisis or storm" => median_minutes: u32 {
        /// The databases can just take the peak.
        Busy = "busy" => 14,
        /// A third more than they can take.
        Crisis = "crisis" => 21,
        /// Two thirds more.
        Storm = "storm" => 28,
    }
}

const BATCHES: u32 = 1_200;

/// The first ones request connections of the first database.
const BATCHES_OF_FIRST: u32 = 840;

const PAST_RUNS: u32 = 30;

/// Begin and end of an interval in seconds, and the share of batches that arrive before its end.
const ARRIVALS: [((f64, f64), f64); 4] = [
    ((0.0, 3_600.0), 0.1),
    ((3_600.0, 10_800.0), 0.7),
    ((10_800.0, 21_600.0), 0.9),
    ((21_600.0, 27_000.0), 1.0),
];

/// Parallelism, and the share of batches that request at most this.
const PARALLEL: [(u32, f64); 6] = [(1, 0.1), (2, 0.2), (4, 0.45), (8, 0.75), (16, 0.92), (32, 1.0)];

/// The two databases.
pub fn pools() -> [Settings; 2] {
    [("ADW", 4, 1_000, 95), ("ERP", 5, 500, 90)].map(|(name, external_id, max_units, threshold_percent)| {
        let name = name.parse().expect("letters are a name");
        Settings { external_id: Some(external_id), threshold_percent, ..Settings::new(name, max_units) }
    })
}

pub fn workload(scenario: Scenario, seed: u64) -> Workload {
    let mut random = Random::new(seed);
    let mut pools = pools().map(PoolStart::new);
    let mut batches = Vec::new();
    for number in 0..BATCHES {
        let pool = &mut pools[usize::from(number >= BATCHES_OF_FIRST)];
        batches.push(batch(number, scenario, &mut random, pool));
    }
    batches.sort_by_key(|batch| batch.arrives_at);
    Workload { begins_at: MIDNIGHT, pools: pools.into(), batches }
}

fn batch(number: u32, scenario: Scenario, random: &mut Random, pool: &mut PoolStart) -> Batch {
    let arrives = arrival(random);
    let parallel = NonZeroU32::new(random.pick(&PARALLEL)).unwrap_or(NonZeroU32::MIN);
    let median = f64::from(scenario.median_minutes()) * 60.0 * (f64::from(parallel.get()) / 8.0).powf(0.2);
    let usual = (median * (0.8 * random.normal()).exp()).clamp(180.0, 7_200.0);
    let share = 0.80 + 0.19 * random.unit();
    let noise = (0.25 * random.normal()).exp();
    let past: Vec<f64> = (0..PAST_RUNS).map(|_| usual * (0.25 * random.normal()).exp()).collect();
    let mut sorted = past.clone();
    sorted.sort_by(f64::total_cmp);
    let batch = Batch {
        pool: pool.settings.name.clone(),
        holder: Holder::run(&format!("batch_{number:04}"), "night").expect("both are short"),
        table: format!("TABLE_{number:04}"),
        class: Class::Normal,
        arrives_at: MIDNIGHT.plus(seconds(arrives)),
        shape: Shape { parallel, sessions: NonZeroU32::MIN },
        asked: parallel,
        least: None,
        run: RunLength { seconds: usual * noise, parallel, share },
        target: allowed_time(seconds(quantile(&sorted, 80).unwrap_or_default())),
    };
    let (dag_id, table) = (batch.holder.dag_id().to_owned(), batch.table.clone());
    let kind = RunKind { dag_id, table, parallel };
    for run in past {
        pool.run_times.add_seconds(kind.clone(), batch.class, run.round() as u32);
    }
    batch
}

/// In seconds after midnight. Three of four start by cron, a little late.
fn arrival(random: &mut Random) -> f64 {
    let (begin, end) = random.pick(&ARRIVALS);
    let at = begin + (end - begin) * random.unit();
    if random.unit() < 0.75 {
        return (at / 300.0).floor() * 300.0 + random.exponential(12.0).min(60.0);
    }
    at
}

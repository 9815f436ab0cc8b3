//! A lower bound of the mean flow: no policy, and no knowledge of the future, could do better.
//!
//! For each pool it is the greater of two: every batch starts at once with all that it asks for; or the pool is one machine
//! that works on one batch at a time with all its units, can change the batch at any time, and always takes the one with the
//! least work left. The work of a batch is then the least product of units and run time over the parallelisms that it
//! allows. Both leave out constraints of the real problem, so its mean flow cannot be lower.

use super::{Batch, Workload};
use crate::pool::Settings;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;
use std::time::Duration;

/// Parallelisms to look at. The work is the least with little parallelism.
const LOOKED_AT: usize = 256;

/// In seconds, over the batches that count.
pub fn mean_flow_bound(workload: &Workload) -> f64 {
    let (mut sum, mut count) = (0.0, 0_usize);
    for pool in &workload.pools {
        let is_scored =
            |batch: &&Batch| batch.pool == pool.settings.name && batch.arrives_at >= workload.begins_at;
        let batches: Vec<&Batch> = workload.batches.iter().filter(is_scored).collect();
        let alone: Duration = batches.iter().map(|batch| batch.run.with(batch.asked)).sum();
        sum += alone.as_secs_f64().max(one_machine(&pool.settings, &batches));
        count += batches.len();
    }
    sum / count.max(1) as f64
}

/// The least product of units and seconds.
fn least_work(settings: &Settings, batch: &Batch) -> f64 {
    let (_, asked, weight) = settings.weigh(Some(batch.shape.parallel), Some(batch.shape.sessions));
    let least = batch.least.unwrap_or(settings.min_units).max(settings.min_units).min(asked);
    let parallels = (least.get()..=asked.get()).take(LOOKED_AT).filter_map(NonZeroU32::new);
    let work = |parallel| weight.units(parallel) as f64 * batch.run.with(parallel).as_secs_f64();
    parallels.map(work).fold(f64::INFINITY, f64::min)
}

/// The sum of the flows if the pool were one machine, in seconds. `batches` are in order of arrival.
fn one_machine(settings: &Settings, batches: &[&Batch]) -> f64 {
    let capacity = settings.greatest_limit().max(1) as f64;
    let (mut sum, mut now) = (0.0, 0.0);
    // The work left, in microseconds so that it has an order, and the arrival.
    let mut left: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
    let mut arrivals = batches.iter().peekable();
    loop {
        let next = arrivals.peek().map(|batch| batch.arrives_at.as_micros() as f64);
        let Some(Reverse((work, arrived))) = left.pop() else {
            let Some(batch) = arrivals.next() else { return sum };
            now = batch.arrives_at.as_micros() as f64;
            left.push(arriving(settings, batch, capacity));
            continue;
        };
        let ends = now + work as f64;
        match next.filter(|next| *next < ends) {
            Some(next) => {
                left.push(Reverse(((ends - next) as u64, arrived)));
                now = next;
                left.extend(arrivals.next().map(|batch| arriving(settings, batch, capacity)));
            }
            None => {
                now = ends;
                sum += (now - arrived as f64) / 1e6;
            }
        }
    }
}

fn arriving(settings: &Settings, batch: &Batch, capacity: f64) -> Reverse<(u64, u64)> {
    let work = least_work(settings, batch) / capacity * 1e6;
    Reverse((work as u64, batch.arrives_at.as_micros().unsigned_abs()))
}

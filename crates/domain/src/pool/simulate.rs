//! Simulates nights of batches: drives the real decisions of pools with a simulated clock.
//!
//! Reading order: [`model`], [`file`] and [`past`] (where a workload comes from), [`night`] (what happens to it), [`score`]
//! and [`bound`] (how good it was), [`advice`] (what would be better).

pub mod advice;
pub mod bound;
pub mod file;
pub mod model;
pub mod night;
pub mod past;
pub mod random;
pub mod score;

use super::run_times::{RunTimes, scaled};
use super::weight::Shape;
use super::{Class, Holder, PoolName, Settings};
use crate::time::Timestamp;
use std::num::NonZeroU32;
use std::time::Duration;

pub use night::{Night, Run, Start, simulate};
pub use score::Score;

/// Midnight of a simulated night.
pub const MIDNIGHT: Timestamp = Timestamp::from_micros(1_706_140_800_000_000);

/// Pools, and the batches that request their units.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Batches that arrive earlier only fill the pools: they have no part in scores.
    pub begins_at: Timestamp,
    pub pools: Vec<PoolStart>,
    /// In order of arrival.
    pub batches: Vec<Batch>,
}

impl Workload {
    /// Changes the settings of all pools, from the beginning to the end.
    pub fn change(&mut self, change: impl Fn(&mut Settings)) {
        for pool in &mut self.pools {
            change(&mut pool.settings);
            pool.changes.iter_mut().for_each(|(_, settings)| change(settings));
        }
    }
}

#[derive(Clone, Debug)]
pub struct PoolStart {
    pub settings: Settings,
    /// The history before the night.
    pub run_times: RunTimes,
    /// Settings that replace the first ones later, in order.
    pub changes: Vec<(Timestamp, Settings)>,
}

impl PoolStart {
    pub fn new(settings: Settings) -> Self {
        Self { settings, run_times: RunTimes::default(), changes: Vec::new() }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    pub pool: PoolName,
    /// Different for each batch.
    pub holder: Holder,
    pub table: String,
    pub class: Class,
    pub arrives_at: Timestamp,
    pub shape: Shape,
    /// The requested parallelism, or the sessions where the pool counts these.
    pub asked: NonZeroU32,
    /// The minimum; the pool's if none.
    pub least: Option<NonZeroU32>,
    pub run: RunLength,
    /// A batch that takes longer from arrival to end misses its SLA.
    pub target: Duration,
}

/// How long a batch runs: a start-up, then work of which a share is parallel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RunLength {
    pub seconds: f64,
    /// The parallelism with which it takes this long.
    pub parallel: NonZeroU32,
    pub share: f64,
}

impl RunLength {
    pub fn with(self, parallel: NonZeroU32) -> Duration {
        seconds(scaled(self.seconds, self.parallel, parallel, self.share))
    }
}

/// Zero for what is no duration.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests;

//! A workload from a JSON file: pools, and batches with their run times.
//!
//! ```
//! let text = r#"{
//!     "pools": [{"name": "ADW", "max_units": 100, "threshold_percent": 95, "min_units": 2}],
//!     "batches": [{
//!         "pool": "ADW", "dag": "load_orders", "table": "ORDERS", "arrives_seconds": 3600, "parallel": 8,
//!         "min": 4, "class": "normal", "run_seconds": 1200, "parallel_share": 0.9, "past_seconds": [1150, 1240]
//!     }]
//! }"#;
//! let workload = tidemill_domain::pool::simulate::file::read(text.as_bytes()).unwrap();
//! assert_eq!(workload.batches.len(), 1);
//! ```

use super::{Batch, MIDNIGHT, PoolStart, RunLength, Workload, seconds};
use crate::pool::estimate::allowed_time;
use crate::pool::run_times::{PARALLEL_SHARE, RunKind};
use crate::pool::weight::Shape;
use crate::pool::{Class, Holder, PoolName, Settings};
use serde::Deserialize;
use std::num::NonZeroU32;

/// More would take minutes.
pub const BATCHES_MAX: usize = 100_000;

/// A week, for arrivals and run times.
const LONGEST: f64 = 604_800.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileShape {
    pools: Vec<FilePool>,
    batches: Vec<FileBatch>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePool {
    name: PoolName,
    max_units: u32,
    threshold_percent: Option<u8>,
    min_units: Option<NonZeroU32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileBatch {
    pool: PoolName,
    dag: String,
    #[serde(default)]
    table: String,
    /// After midnight.
    arrives_seconds: f64,
    parallel: NonZeroU32,
    min: Option<NonZeroU32>,
    #[serde(default)]
    class: Class,
    /// With the requested parallelism.
    run_seconds: f64,
    parallel_share: Option<f64>,
    /// Past runs with the requested parallelism; without any, `run_seconds` is one.
    #[serde(default)]
    past_seconds: Vec<u32>,
}

/// Fails with the reason.
pub fn read(text: &[u8]) -> Result<Workload, String> {
    let FileShape { pools, batches } = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if batches.len() > BATCHES_MAX {
        return Err(format!("it has {} batches; {BATCHES_MAX} are allowed", batches.len()));
    }
    let mut starts: Vec<PoolStart> = Vec::with_capacity(pools.len());
    for FilePool { name, max_units, threshold_percent, min_units } in pools {
        let mut settings = Settings::new(name.clone(), max_units);
        settings.threshold_percent = threshold_percent.unwrap_or(settings.threshold_percent);
        settings.min_units = min_units.unwrap_or(settings.min_units);
        settings.check().map_err(|bad| format!("pool {name}: {bad}"))?;
        if starts.iter().any(|start| start.settings.name == name) {
            return Err(format!("pool {name}: it is listed twice"));
        }
        starts.push(PoolStart::new(settings));
    }
    let mut read = Vec::with_capacity(batches.len());
    for (number, batch) in (1..).zip(batches) {
        read.push(check(number, batch, &mut starts).map_err(|why| format!("batch {number}: {why}"))?);
    }
    read.sort_by_key(|batch| batch.arrives_at);
    Ok(Workload { begins_at: MIDNIGHT, pools: starts, batches: read })
}

fn check(number: usize, batch: FileBatch, pools: &mut [PoolStart]) -> Result<Batch, String> {
    let FileBatch { pool, parallel, run_seconds, arrives_seconds, mut past_seconds, .. } = batch;
    let start = pools.iter_mut().find(|start| start.settings.name == pool);
    let start = start.ok_or_else(|| format!("the pool {pool} is not in `pools`"))?;
    let share = batch.parallel_share.unwrap_or(PARALLEL_SHARE);
    for (field, value, most) in [
        ("arrives_seconds", arrives_seconds, LONGEST),
        ("run_seconds", run_seconds, LONGEST),
        ("parallel_share", share, 1.0),
    ] {
        if !(0.0..=most).contains(&value) {
            return Err(format!("{field}: {value} is not from 0 to {most}"));
        }
    }
    if past_seconds.is_empty() {
        past_seconds.push(run_seconds.round() as u32);
    }
    let holder = Holder::run(&batch.dag, &number.to_string()).map_err(|bad| bad.to_string())?;
    let kind = RunKind { dag_id: batch.dag, table: batch.table.clone(), parallel };
    past_seconds.iter().for_each(|run| start.run_times.add_seconds(kind.clone(), batch.class, *run));
    let usual = start.run_times.expected((&kind.dag_id, &kind.table, batch.class), parallel, 80);
    Ok(Batch {
        pool,
        holder,
        table: batch.table,
        class: batch.class,
        arrives_at: MIDNIGHT.plus(seconds(arrives_seconds)),
        shape: Shape { parallel, sessions: NonZeroU32::MIN },
        asked: parallel,
        least: batch.min,
        run: RunLength { seconds: run_seconds, parallel, share },
        target: allowed_time(usual),
    })
}

//! Render workers: one row each.

use crate::statement::{statements, stored};
use std::time::Duration;
use tidemill_domain::process::ProcessId;
use tidemill_domain::time::Timestamp;

tidemill_domain::words! {
    pub enum WorkerState {
        Working = "working",
        /// Claims nothing until an external problem is fixed.
        Paused = "paused",
        /// Claims nothing, and is about to end.
        Draining = "draining",
    }
}

/// A worker's regular report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkerBeat<'a> {
    pub process: ProcessId,
    pub name: &'a str,
    pub capacity: u32,
    /// Places at the farm that are taken.
    pub in_flight: u32,
    pub state: WorkerState,
    /// Latency of nexrender's last answer.
    pub farm: Option<Duration>,
    /// Duration of the last copy to the NAS.
    pub copy: Option<Duration>,
}

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct WorkerRecord in ("render_worker", "process") |row| {
        pub process: ProcessId,
        pub name: String,
        pub capacity: u32,
        pub in_flight: u32,
        pub state: WorkerState,
        pub seen_at: Timestamp,
        /// Latency of nexrender's last answer.
        pub farm: Option<Duration> => row.get::<Option<i64>>("farm_micros")?.map(took),
        /// Duration of the last copy to the NAS.
        pub copy: Option<Duration> => row.get::<Option<i64>>("copy_micros")?.map(took),
    }
}

fn took(micros: i64) -> Duration {
    Duration::from_micros(micros.max(0).unsigned_abs())
}

fn micros(took: Duration) -> i64 {
    i64::try_from(took.as_micros()).unwrap_or(i64::MAX)
}

statements! {
    pub fn Renders::beat_worker(beat: WorkerBeat<'_>) at now -> () {
        bind(
            beat.process, beat.name, beat.capacity, beat.in_flight,
            beat.state.as_str(), now, beat.farm.map(micros), beat.copy.map(micros),
        )
        "insert into render_worker (process, name, capacity, in_flight, state, seen_at, farm_micros, copy_micros)
         values ($1, $2, $3, $4, $5, $6, $7, $8)
         on conflict (process) do update
         set name = excluded.name, capacity = excluded.capacity, in_flight = excluded.in_flight,
             state = excluded.state, seen_at = excluded.seen_at, farm_micros = excluded.farm_micros,
             copy_micros = excluded.copy_micros"
    }

    pub fn Renders::forget_worker(process: ProcessId) -> () {
        "delete from render_worker where process = $1"
    }

    /// Not seen since `before`.
    fn render_worker_prune(before: Timestamp) -> () {
        "delete from render_worker where seen_at < $1"
    }

    /// Workers seen within `within`, by name.
    pub fn Renders::workers(within: Duration) at now -> Vec<WorkerRecord> {
        bind(now.minus(within))
        "select process, name, capacity, in_flight, state, seen_at, farm_micros, copy_micros
         from render_worker where seen_at >= $1 order by name, process"
    }
}

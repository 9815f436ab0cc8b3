//! Render workers: one row each.

use crate::error::Result;
use crate::statement::stored;
use crate::tx::Renders;
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

impl Renders<'_> {
    pub async fn beat_worker(&mut self, beat: WorkerBeat<'_>) -> Result<()> {
        let now = self.now().await?;
        Ok(self.render_worker_save(&beat, now).await?)
    }

    /// Workers seen within `within`, by name.
    pub async fn workers(&mut self, within: Duration) -> Result<Vec<WorkerRecord>> {
        let since = self.now().await?.minus(within);
        Ok(self.render_worker_list(since).await?)
    }
}

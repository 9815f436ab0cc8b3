//! Who renders: one row for each worker.

use crate::error::StoreError;
use crate::statement::stored;
use crate::tx::Renders;
use std::time::Duration;
use tidemill_domain::process::ProcessId;
use tidemill_domain::time::Timestamp;

tidemill_domain::words! {
    pub enum WorkerState {
        Working = "working",
        /// It takes none until something outside is mended.
        Paused = "paused",
        /// It takes none, and is about to end.
        Draining = "draining",
    }
}

/// What a worker says of itself from time to time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkerBeat<'a> {
    pub process: ProcessId,
    pub name: &'a str,
    /// How many renders it can have.
    pub capacity: u32,
    pub in_flight: u32,
    pub state: WorkerState,
    /// How long nexrender took to answer when it was last asked.
    pub farm: Option<Duration>,
    /// How long the last copy to the NAS took.
    pub copy: Option<Duration>,
}

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct WorkerRecord in ("render_worker", "process") |row| {
        pub process: ProcessId,
        pub name: String,
        /// How many renders it can have.
        pub capacity: u32,
        pub in_flight: u32,
        pub state: WorkerState,
        /// When it last said so.
        pub seen_at: Timestamp,
        /// How long nexrender took to answer when it was last asked.
        pub farm: Option<Duration> => row.get::<Option<i64>>("farm_micros")?.map(took),
        /// How long the last copy to the NAS took.
        pub copy: Option<Duration> => row.get::<Option<i64>>("copy_micros")?.map(took),
    }
}

fn took(micros: i64) -> Duration {
    Duration::from_micros(micros.max(0).unsigned_abs())
}

impl Renders<'_> {
    pub async fn beat_worker(&mut self, beat: WorkerBeat<'_>) -> Result<(), StoreError> {
        let now = self.now().await?.into();
        Ok(self.render_worker_save(&beat, now).await?)
    }

    pub async fn forget_worker(&mut self, process: ProcessId) -> Result<(), StoreError> {
        Ok(self.render_worker_delete(process.into()).await?)
    }

    /// Those that were seen within `within`, by name.
    pub async fn workers(&mut self, within: Duration) -> Result<Vec<WorkerRecord>, StoreError> {
        let since = self.now().await?.minus(within);
        Ok(self.render_worker_list(since.into()).await?)
    }
}

//! Who renders: one row for each worker.

use crate::error::StoreError;
use crate::row::render::part::WorkerRow;
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

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerRecord {
    pub process: ProcessId,
    pub name: String,
    /// How many renders it can have.
    pub capacity: u32,
    pub in_flight: u32,
    pub state: WorkerState,
    /// When it last said so.
    pub seen_at: Timestamp,
    /// How long nexrender took to answer when it was last asked.
    pub farm: Option<Duration>,
    /// How long the last copy to the NAS took.
    pub copy: Option<Duration>,
}

impl Renders<'_> {
    /// A worker says that it is there.
    pub async fn beat_worker(&mut self, beat: WorkerBeat<'_>) -> Result<(), StoreError> {
        let micros = |took: Duration| i64::try_from(took.as_micros()).unwrap_or(i64::MAX);
        let row = WorkerRow {
            process: beat.process.into(),
            name: beat.name.to_owned(),
            capacity: beat.capacity.into(),
            in_flight: beat.in_flight.into(),
            state: beat.state.as_str().to_owned(),
            seen_at: self.now().await?.into(),
            farm_micros: beat.farm.map(micros),
            copy_micros: beat.copy.map(micros),
        };
        Ok(self.render_worker_save(&row).await?)
    }

    /// It is there no more.
    pub async fn forget_worker(&mut self, process: ProcessId) -> Result<(), StoreError> {
        Ok(self.render_worker_delete(process.into()).await?)
    }

    /// Those that were seen within `within`, by name.
    pub async fn workers(&mut self, within: Duration) -> Result<Vec<WorkerRecord>, StoreError> {
        let since = self.now().await?.minus(within);
        self.render_worker_list(since.into()).await?.into_iter().map(TryInto::try_into).collect()
    }
}

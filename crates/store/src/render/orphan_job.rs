//! nexrender jobs that are no longer needed. A dropped job (`Act::DropJob`) is recorded in the same transaction, so
//! that another worker removes it if this one dies.

use crate::error::Result;
use crate::statement::stored;
use crate::tx::Renders;
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::render::RenderId;
use tidemill_domain::render::lifecycle::{File, Slot};
use tidemill_domain::time::Timestamp;

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct OrphanJob in ("render_leftover", "render_id epoch") {
        pub render: RenderId = "render_id",
        /// The epoch that submitted it.
        pub epoch: Epoch,
        pub remote_job: String = "nexrender_job_id",
        /// Where the node leaves its file.
        pub staged_path: Option<String>,
        /// Whether its licence is free.
        pub slot: Slot,
        pub file: File,
        pub since: Timestamp,
    }
}

impl Renders<'_> {
    /// At most `limit` jobs to remove from nexrender now, reserved for `pause`. A job that a worker has dropped itself
    /// is left to that worker for the length of a lease. Needs a transaction.
    pub async fn take_leftovers(&mut self, limit: u32, pause: Duration) -> Result<Vec<OrphanJob>> {
        let now = self.now().await?;
        Ok(self.render_leftover_take(now, now.plus(pause), limit).await?)
    }

    /// Reserves a job for another `pause`. False if it is settled.
    pub async fn keep_leftover(&mut self, id: RenderId, epoch: Epoch, pause: Duration) -> Result<bool> {
        let look_after = self.now().await?.plus(pause);
        Ok(self.render_leftover_keep(id, epoch, look_after).await? == 1)
    }

    /// The job is gone from nexrender, and its file too if it had to be. False if it was settled before.
    pub async fn settle_leftover(&mut self, id: RenderId, epoch: Epoch) -> Result<bool> {
        Ok(self.render_leftover_delete(id, epoch).await? == 1)
    }
}

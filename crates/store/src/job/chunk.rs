//! The end of a chunk: counters, context and fence, in the transaction that has the items of the chunk.

use super::columns;
use crate::crash_point;
use crate::error::Result;
use crate::tx::Jobs;
use tidemill_domain::job::{Counters, ExecutionId, StepExecutionId};
use tidemill_domain::lease::{Fence, LeaseKey};

#[derive(Clone, Copy, Debug)]
pub struct ChunkSave<'a> {
    pub step: StepExecutionId,
    pub execution: ExecutionId,
    pub lease: &'a LeaseKey,
    pub fence: Fence,
    /// Totals of the step, this chunk included.
    pub counters: &'a Counters,
    /// The execution context as text; `None` if unchanged.
    pub context: Option<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkSaved {
    /// Recorded, if the transaction commits.
    Saved {
        /// The new version of the step; see [`Jobs::settled_version`](crate::tx::Jobs::settled_version).
        version: i64,
        stop_requested: bool,
    },
    /// The execution is no longer ours: roll back.
    Fenced,
}

impl Jobs<'_> {
    /// Records a chunk: one statement on PostgreSQL. On [`ChunkSaved::Fenced`], roll back.
    #[crate::boxed]
    pub async fn save_chunk(&mut self, chunk: &ChunkSave<'_>) -> Result<ChunkSaved> {
        let context = chunk.context.map(columns::context);
        let now = self.fake_now().map(Into::into);
        let saved = self.job_chunk_save(chunk, context.as_ref(), now).await?;
        crash_point!("chunk_saved");
        Ok(match saved {
            Some((version, stop_requested)) => ChunkSaved::Saved { version, stop_requested },
            None => ChunkSaved::Fenced,
        })
    }
}

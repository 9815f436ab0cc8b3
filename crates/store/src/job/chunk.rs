//! The end of a chunk: counters, context and fence, in the transaction that has the items of the chunk, or in one
//! statement with the rows of a table and events.

use crate::codec::DbStamp;
use crate::crash_point;
use crate::error::{Result, StoreError};
use crate::job::Staged;
use crate::outbox::EVENTS;
use crate::postgres::{ChunkText, save_chunk};
use crate::statement::{statements, stored};
use crate::store::Store;
use crate::tx::Jobs;
use sqlx::postgres::{PgDatabaseError, PgSeverity};
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
        /// The new version of the step.
        version: i64,
        stop_requested: bool,
    },
    /// The execution is no longer ours: roll back.
    Fenced,
}

/// Where the last chunk of a step left its rows, so that PostgreSQL finds them without the index.
///
/// A reader's cursor keeps every old version of these rows alive. By the index, each chunk would visit all of them.
#[derive(Clone, Default, Debug)]
pub struct ChunkPlace {
    pub(crate) version: Option<i64>,
    pub(crate) step: Option<String>,
    pub(crate) context: Option<String>,
    /// How many were saved.
    pub(crate) chunks: u64,
    pub(crate) text: Option<ChunkText>,
}

impl ChunkPlace {
    /// Whether [`Store::commit_chunk`] can find the rows of the step.
    pub fn is_known(&self) -> bool {
        self.step.is_some() && self.version.is_some()
    }

    fn forget(&mut self) {
        *self = Self { chunks: self.chunks, text: self.text.take(), ..Self::default() };
    }

    fn saved(&mut self, saved: SavedRows) -> ChunkSaved {
        let SavedRows { version, stop_requested, step_place, context_place, .. } = saved;
        self.chunks += 1;
        self.version = Some(version);
        self.step = step_place;
        self.context = context_place.or_else(|| self.context.take());
        ChunkSaved::Saved { version, stop_requested }
    }
}

impl Store {
    /// Writes these rows and events, and records the chunk, in one statement that commits by itself: one round trip. `None` if
    /// nothing was written: [`Jobs::save_chunk`] in a transaction then shows why. The place must be known.
    ///
    /// [`OutcomeUnknown`](StoreError::OutcomeUnknown) if there was no answer. The server may still run the statement, until
    /// [`Jobs::settled_commits`] has looked.
    #[crate::boxed]
    pub async fn commit_chunk(
        &self,
        chunk: &ChunkSave<'_>,
        staged: &Staged,
        place: &mut ChunkPlace,
    ) -> Result<Option<ChunkSaved>> {
        let mut tx = self.alone().await?;
        let now: Option<DbStamp> = tx.fake_now().map(Into::into);
        let Some(connection) = tx.postgres() else { return Ok(None) };
        match save_chunk(connection, chunk, place, now, Some(staged)).await {
            Ok(Some(saved)) => {
                if !staged.events.is_empty() {
                    self.wake(vec![EVENTS.to_owned()]);
                }
                Ok(Some(place.saved(saved)))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                place.forget();
                if !is_refusal(&error) {
                    return Err(StoreError::OutcomeUnknown(error));
                }
                tracing::debug!(%error, "a chunk could not be committed with its rows in one statement");
                Ok(None)
            }
        }
    }
}

/// Whether the server has said that it undid the statement. If it crashes while it commits, it also sends an error, but of
/// another severity.
fn is_refusal(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Encode(_) => true,
        sqlx::Error::Database(error) => error
            .try_downcast_ref::<PgDatabaseError>()
            .is_some_and(|error| error.severity() == PgSeverity::Error),
        _ => false,
    }
}

impl Jobs<'_> {
    /// Records a chunk: one statement on PostgreSQL. On [`ChunkSaved::Fenced`], roll back.
    #[crate::boxed]
    pub async fn save_chunk(&mut self, chunk: &ChunkSave<'_>, place: &mut ChunkPlace) -> Result<ChunkSaved> {
        let now: Option<DbStamp> = self.fake_now().map(Into::into);
        let mut saved = self.job_chunk_save(chunk, place, now).await?;
        // Somebody else has written or moved the rows, or the last chunk was rolled back; or this is no longer ours.
        if !saved.as_ref().is_some_and(|saved| saved.is_whole) {
            place.forget();
            saved = self.job_chunk_save(chunk, place, now).await?;
        }
        crash_point!("chunk_saved");
        let Some(saved) = saved else { return Ok(ChunkSaved::Fenced) };
        if !saved.is_whole {
            let (table, column) = ("batch_step_execution_context", "step_execution_id");
            return Err(StoreError::DamagedRow { table, column, row: chunk.step.to_string() });
        }
        Ok(place.saved(saved))
    }
}

stored! {
    #[derive(Debug)]
    pub(crate) struct SavedRows in ("batch_step_execution", "version") {
        version: i64,
        stop_requested: bool,
        step_place: Option<String>,
        context_place: Option<String>,
        /// Whether the context was written, if there was one to write.
        is_whole: bool,
    }
}

statements! {
    /// How many commits of the step are recorded; `None` if the lease is lost. Waits for transactions that write the step.
    /// A statement of [`Store::commit_chunk`] that the server runs later finds another version, and writes nothing.
    pub fn Jobs::settled_commits(step: StepExecutionId, lease: &LeaseKey, fence: Fence) -> Option<i64> {
        bind(step, lease.kind(), lease.name(), fence.owner, fence.epoch)
        "update batch_step_execution
         set version = version + 1
         where step_execution_id = $1
           and exists (
               select 1
               from tidemill_lease
               where kind = $2
                 and name = $3
                 and owner = $4
                 and epoch = $5
               {for key share}
           )
         returning commit_count"
    }

    /// `None` if the lease has moved on, and then nothing was written.
    fn job_chunk_save(chunk: &ChunkSave<'_>, place: &mut ChunkPlace, now: Option<DbStamp>) -> Option<SavedRows> {
        postgres |connection| { save_chunk(connection, chunk, place, now, None).await }
        sqlite |tx: Tx| {
            let Some((version, stop_requested)) = tx.job_chunk_save_step(chunk, now).await? else {
                return Ok(None);
            };
            if let Some(text) = chunk.context {
                tx.job_context_save_of_step(chunk.step, text).await?;
            }
            Ok(Some(SavedRows {
                version,
                stop_requested,
                step_place: None,
                context_place: None,
                is_whole: true,
            }))
        }
    }

    /// The fence and the counters. On PostgreSQL a part of `job_chunk_save`.
    fn job_chunk_save_step(chunk: &ChunkSave<'_>, now: Option<DbStamp>) -> Option<(i64, bool)> {
        postgres { nothing }
        sqlite {
            bind(
                chunk.lease.kind(), chunk.lease.name(), chunk.fence.owner, chunk.fence.epoch,
                chunk.step, chunk.execution, chunk.counters.commit, chunk.counters.read,
                chunk.counters.filter, chunk.counters.write, chunk.counters.read_skip,
                chunk.counters.write_skip, chunk.counters.process_skip,
                chunk.counters.rollback, now,
            )
            "update batch_step_execution
             set version = version + 1, status = 'STARTED', commit_count = $7, read_count = $8, filter_count = $9,
                 write_count = $10, read_skip_count = $11, write_skip_count = $12, process_skip_count = $13,
                 rollback_count = $14,
                 last_updated = coalesce($15, strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')
             where step_execution_id = $5
               and job_execution_id = $6
               and exists (
                   select 1
                   from tidemill_lease
                   where kind = $1
                     and name = $2
                     and owner = $3
                     and epoch = $4
               )
             returning version, coalesce(
                 (select e.status not in ('STARTING', 'STARTED') from batch_job_execution e where e.job_execution_id = $6), 0)"
        }
    }
}

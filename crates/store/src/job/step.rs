//! The course of a step, as the process that runs the job records it: its start, the end of each chunk (counters,
//! context and fence, in the transaction that has the items of the chunk), items that it skipped, and its end.

use super::columns;
use super::record::StepRecord;
use crate::crash_point;
use crate::error::Result;
use crate::statement::stored;
use crate::tx::{Jobs, Sequence};
use tidemill_domain::job::step::{self, EXECUTED_KEY, LastStep, StepDecision, StepRefusal, StepRules};
use tidemill_domain::job::{
    BatchStatus, Counters, ExecutionContext, ExecutionId, ExitStatus, InstanceId, StepExecutionId,
};
use tidemill_domain::lease::{Fence, LeaseKey};
use tidemill_domain::time::Timestamp;

#[derive(Clone, Copy, Debug)]
pub struct StepRequest<'a> {
    pub execution: ExecutionId,
    /// Earlier runs of the step in this instance count.
    pub instance: InstanceId,
    pub lease: &'a LeaseKey,
    pub fence: Fence,
    pub step: &'a str,
    /// The author's rules about running it again.
    pub rules: StepRules,
    /// Put into its context whether it is fresh or resumed.
    pub seed: &'a ExecutionContext,
}

#[derive(Clone, PartialEq, Debug)]
pub enum StepStart {
    Run {
        id: StepExecutionId,
        context: ExecutionContext,
        /// Whether it continues an earlier run.
        is_resumed: bool,
    },
    /// The result of an earlier run. Nothing was written.
    Skip(Box<StepRecord>),
    Refused(StepRefusal),
    /// The execution is no longer ours: roll back.
    Fenced,
}

#[derive(Clone, Copy, Debug)]
pub struct StepEnd<'a> {
    pub id: StepExecutionId,
    pub execution: ExecutionId,
    pub lease: &'a LeaseKey,
    pub fence: Fence,
    pub status: BatchStatus,
    pub exit: &'a ExitStatus,
    pub counters: &'a Counters,
}

impl Jobs<'_> {
    /// Decides whether a step runs, and from where; if so, inserts its row.
    #[crate::boxed]
    pub async fn start_step(&mut self, request: &StepRequest<'_>) -> Result<StepStart> {
        if !self.leases().confirm(request.lease, request.fence).await? {
            return Ok(StepStart::Fenced);
        }
        let last = self.job_step_last(request.instance, request.step).await?;
        let starts = self.starts(request).await?;
        let last_step = last.as_ref().map(|last| LastStep {
            status: last.status,
            is_of_this_execution: last.execution == request.execution,
        });
        let decision = match step::decide(last_step, starts, request.rules) {
            Ok(decision) => decision,
            Err(refusal) => return Ok(StepStart::Refused(refusal)),
        };
        match (decision, last) {
            (StepDecision::SkipCompleted | StepDecision::SkipAbandoned, Some(last)) => {
                Ok(StepStart::Skip(Box::new(last)))
            }
            (StepDecision::Resume, Some(last)) => {
                let text = self.job_context_of_step(last.id.get()).await?;
                let context = columns::read_context(text.as_deref(), &format!("step execution {}", last.id))?;
                self.insert_step(request, context, true).await
            }
            (_, _) => self.insert_step(request, ExecutionContext::new(), false).await,
        }
    }

    /// Records how a step ended; its context was saved with its last chunk. False if the execution is no longer ours:
    /// roll back.
    #[crate::boxed]
    pub async fn end_step(&mut self, end: &StepEnd<'_>) -> Result<bool> {
        if !self.leases().confirm(end.lease, end.fence).await? {
            return Ok(false);
        }
        let (exit, long) = columns::exit(end.exit);
        let now = self.now().await?.into();
        if self.job_step_save_end(end, &exit, now).await? == 0 {
            return Ok(false);
        }
        if long.is_some() {
            self.job_note_save_step(end.id, None, None, long.as_deref()).await?;
        }
        Ok(true)
    }

    /// Saves the number of items and the writer's guarantee while the step runs.
    pub async fn describe_step(
        &mut self,
        id: StepExecutionId,
        total_items: Option<u64>,
        delivery: Option<&str>,
    ) -> Result<()> {
        let total = total_items.map(|total| i64::try_from(total).unwrap_or(i64::MAX));
        Ok(self.job_note_save_step(id, total, delivery, None).await?)
    }

    async fn insert_step(
        &mut self,
        request: &StepRequest<'_>,
        mut context: ExecutionContext,
        is_resumed: bool,
    ) -> Result<StepStart> {
        context.remove(EXECUTED_KEY);
        context.merge(request.seed);
        let text = columns::context_text(&context, &format!("step {}", request.step))?;
        let now = self.now().await?.into();
        self.job_draw_id(Sequence::Step).await?;
        let id = self.job_step_insert(request.execution, request.step, now).await?;
        self.job_context_insert_of_step(id, &columns::context(&text)).await?;
        Ok(StepStart::Run { id: StepExecutionId::new(id), context, is_resumed })
    }

    /// Counts starts only where the rules need it.
    async fn starts(&mut self, request: &StepRequest<'_>) -> Result<u64> {
        let limit = request.rules.start_limit;
        if limit == u32::MAX {
            return Ok(0);
        }
        let starts = self.job_step_starts(request.instance, request.step, limit).await?;
        Ok(starts.unsigned_abs())
    }
}

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

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RejectRow {
    /// `read`, `process` or `write`.
    pub phase: &'static str,
    pub kind: String,
    pub error: String,
    pub place: Option<String>,
    pub item: Option<String>,
}

impl RejectRow {
    /// The item may contain NUL, which PostgreSQL cannot store.
    fn storable(&self) -> Self {
        Self {
            phase: self.phase,
            kind: columns::storable(&self.kind),
            error: columns::storable(&self.error),
            place: self.place.as_deref().map(columns::storable),
            item: self.item.as_deref().map(columns::storable),
        }
    }
}

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct RejectRecord in ("tidemill_reject", "id") {
        pub id: i64,
        pub at: Timestamp,
        pub phase: String,
        pub kind: String,
        pub error: String,
        pub place: Option<String>,
        pub item: Option<String>,
    }
}

impl Jobs<'_> {
    /// They commit with the chunk.
    pub async fn insert_rejects(&mut self, step: StepExecutionId, rows: &[RejectRow]) -> Result<()> {
        let now = self.now().await?;
        let rows: Vec<RejectRow> = rows.iter().map(RejectRow::storable).collect();
        Ok(self.job_reject_insert(step, &rows, now).await?)
    }
}

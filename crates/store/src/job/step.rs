//! The course of a step, as the process that runs the job records it: its start, items that it skipped, and its end.

use super::columns::{self, ExitColumns};
use super::execution::Sequence;
use super::record::StepRecord;
use crate::codec::{DbStamp, storable};
use crate::error::Result;
use crate::statement::{One, Total, rows, statements, stored};
use crate::tx::Jobs;
use serde_json::json;
use tidemill_domain::job::step::{
    self, EXECUTED_KEY, LastStep, STEP_TYPE_KEY, StepDecision, StepRefusal, StepRules,
};
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
        // Starts are counted only where the rules need it.
        let starts = match request.rules.start_limit {
            u32::MAX => 0,
            limit => self.job_step_starts(request.instance, request.step, limit).await?,
        };
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
                let place = format!("step execution {}", last.id);
                let step_type = request.seed.get_text(STEP_TYPE_KEY).unwrap_or_default();
                let mut context = columns::read_step_context(text.as_deref(), &place, step_type)?;
                step::carry_counters(&mut context, last.counters);
                self.insert_step(request, context, true).await
            }
            (_, _) => self.insert_step(request, ExecutionContext::new(), false).await,
        }
    }

    /// Records how a step ended; its last chunk has saved its context. If false, it is no longer ours: roll back.
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
        self.job_context_insert_of_step(id, &text).await?;
        Ok(StepStart::Run { id: StepExecutionId::new(id), context, is_resumed })
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
    /// Only for files; the error names them too.
    pub columns: Option<String>,
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

/// The columns of a step with ours.
macro_rules! steps {
    () => {
        "select s.step_execution_id as step_execution_id, s.job_execution_id as job_execution_id,
                s.step_name as step_name, s.version as version, s.status as status,
                coalesce(s.exit_code, '') as exit_code, coalesce(n.exit_text, s.exit_message, '') as exit_message,
                s.create_time as create_time, s.start_time as start_time, s.end_time as end_time,
                s.last_updated as last_updated,
                coalesce(s.commit_count, 0) as commit_count, coalesce(s.read_count, 0) as read_count,
                coalesce(s.filter_count, 0) as filter_count, coalesce(s.write_count, 0) as write_count,
                coalesce(s.read_skip_count, 0) as read_skip_count,
                coalesce(s.write_skip_count, 0) as write_skip_count,
                coalesce(s.process_skip_count, 0) as process_skip_count,
                coalesce(s.rollback_count, 0) as rollback_count, n.total_items as total_items, n.delivery as delivery "
    };
}

statements! {
    /// The last run of a step in its instance. The executions of an instance are sequential, so it belongs to the last
    /// one that has the step. Needs the indexes on the executions of an instance and on the steps of an execution.
    fn job_step_last(instance: InstanceId, step: &str) -> Option<StepRecord> {
        concat!(
            steps!(),
            ", null{::text} as process
             from batch_job_execution e
             join batch_step_execution s on s.job_execution_id = e.job_execution_id
             left join tidemill_step_execution n on n.step_execution_id = s.step_execution_id
             where e.job_instance_id = $1 and s.step_name = $2
             order by e.job_execution_id desc, s.step_execution_id desc limit 1"
        )
    }

    /// Counts at most `counted_max` starts in the instance.
    fn job_step_starts(instance: InstanceId, step: &str, counted_max: u32) -> Total {
        "select count(*)
         from (
             select 1
             from batch_job_execution e
             join batch_step_execution s on s.job_execution_id = e.job_execution_id
             where e.job_instance_id = $1
               and s.step_name = $2
             order by e.job_execution_id
             limit $3
         ) counted"
    }

    fn job_step_insert(execution: ExecutionId, step: &str, now: DbStamp) -> One<i64> {
        bind(step, execution, now)
        "insert into batch_step_execution
             (step_execution_id, version, step_name, job_execution_id, create_time, start_time, status,
              commit_count, read_count, filter_count, write_count, read_skip_count, write_skip_count,
              process_skip_count, rollback_count, exit_code, exit_message, last_updated)
         values ({next batch_step_execution_seq}, 0, $1, $2, $3, $3, 'STARTED', 0, 0, 0, 0, 0, 0, 0, 0,
                 'EXECUTING', '', $3)
         returning step_execution_id"
    }

    fn job_step_save_end(end: &StepEnd<'_>, exit: &ExitColumns, now: DbStamp) -> u64 {
        bind(
            end.id, end.execution, end.status.as_str(), &exit.code, &exit.message, now,
            end.counters.commit, end.counters.read, end.counters.filter,
            end.counters.write, end.counters.read_skip, end.counters.write_skip,
            end.counters.process_skip, end.counters.rollback,
        )
        "update batch_step_execution
         set version = version + 1, status = $3, exit_code = $4, exit_message = $5, end_time = $6,
             last_updated = $6, commit_count = $7, read_count = $8, filter_count = $9, write_count = $10,
             read_skip_count = $11, write_skip_count = $12, process_skip_count = $13, rollback_count = $14
         where step_execution_id = $1 and job_execution_id = $2"
    }

    /// Ends the running steps of an execution that no process runs.
    fn job_step_fail_running(execution: ExecutionId, message: &str, now: DbStamp) -> () {
        "update batch_step_execution
         set version = version + 1, status = 'FAILED', exit_code = 'FAILED', exit_message = $2, end_time = $3,
             last_updated = $3
         where job_execution_id = $1 and status in ('STARTING', 'STARTED', 'STOPPING')"
    }

    /// The same for steps with unknown end, on an operator's word.
    fn job_step_fail_unknown(execution: ExecutionId, message: &str, now: DbStamp) -> () {
        "update batch_step_execution
         set version = version + 1, status = 'FAILED', exit_code = 'FAILED', exit_message = $2,
             end_time = coalesce(end_time, $3), last_updated = $3
         where job_execution_id = $1 and status = 'UNKNOWN'"
    }

    /// In the order in which they were started.
    pub fn Jobs::steps(execution: ExecutionId) -> Vec<StepRecord> {
        concat!(
            steps!(),
            ", r.name as process
             from batch_step_execution s
             left join tidemill_step_execution n on n.step_execution_id = s.step_execution_id
             left join tidemill_partition p on p.step_execution_id = s.step_execution_id
             left join tidemill_process r on r.id = p.owner
             where s.job_execution_id = $1 order by s.step_execution_id"
        )
    }

    /// They commit with the chunk.
    pub fn Jobs::insert_rejects(step: StepExecutionId, rejects: &[RejectRow]) at now -> () {
        bind(
            step, now,
            rows(rejects, |RejectRow { phase, kind, error, place, item, .. }| json!({
                "phase": phase, "kind": storable(kind), "error": storable(error),
                "place": place.as_deref().map(storable), "item": item.as_deref().map(storable),
            })),
        )
        "insert into tidemill_reject (step_execution_id, at, phase, kind, error, place, item)
         select $1, $2, phase, kind, error, place, item
         from {rows new $3: phase text, kind text, error text, place text, item text}"
    }

    /// In order.
    pub fn Jobs::rejects(step: StepExecutionId, after: i64, limit: u32) -> Vec<RejectRecord> {
        "select id, at, phase, kind, error, place, item from tidemill_reject
         where step_execution_id = $1 and id > $2 order by id limit $3"
    }
}

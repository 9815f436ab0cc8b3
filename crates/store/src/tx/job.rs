//! Statements on jobs.

mod attention;
mod purge;

use super::{Answer, Connection, Tx};
use crate::codec::{DbId, DbStamp, DbTime};
use crate::job::RejectRow;
use crate::row::job::{
    DueRestartRow, EarlierStepRow, ExecutionHeadRow, ExecutionNoteRow, ExecutionRow, InstanceRow, JobRow,
    OrphanRow, OutcomeRow, ParameterRow, RunRow, StepRow, StoredRejectRow,
};
use crate::{postgres, sqlite};
use tidemill_domain::job::{BatchStatus, Counters};
use tidemill_domain::lease::{Fence, LeaseKey};

/// Instances.
impl Tx {
    pub(crate) async fn job_instance_lock(&mut self, job: &str, key: &str) -> Answer<Option<i64>> {
        on_either!(self, job::instance::lock(job, key))
    }

    pub(crate) async fn job_instance_lock_by_id(&mut self, id: i64) -> Answer<()> {
        on_either!(self, job::instance::lock_by_id(id))
    }

    pub(crate) async fn job_instance_find(&mut self, job: &str, key: &str) -> Answer<Option<i64>> {
        on_either!(self, job::instance::find(job, key))
    }

    pub(crate) async fn job_instance_greatest_long(
        &mut self,
        job: &str,
        parameter: &str,
    ) -> Answer<Option<i64>> {
        on_either!(self, job::instance::greatest_long(job, parameter))
    }

    pub(crate) async fn job_instance_insert(&mut self, job: &str, key: &str) -> Answer<i64> {
        on_either!(self, job::instance::insert(job, key))
    }

    pub(crate) async fn job_instance_completed_within(
        &mut self,
        job: &str,
        key: &str,
        outer: i64,
    ) -> Answer<bool> {
        on_either!(self, job::instance::completed_within(job, key, outer))
    }

    pub(crate) async fn job_instance_statuses(&mut self, id: i64) -> Answer<Vec<(Option<String>, i64)>> {
        on_either!(self, job::instance::statuses(id))
    }

    pub(crate) async fn job_instance_step_statuses(
        &mut self,
        execution: i64,
    ) -> Answer<Vec<(String, Option<String>, i64)>> {
        on_either!(self, job::instance::step_statuses(execution))
    }
}

/// Executions.
impl Tx {
    pub(crate) async fn job_execution_insert(&mut self, instance: i64, now: DbStamp) -> Answer<Option<i64>> {
        on_either!(self, job::execution::insert(instance, now))
    }

    pub(crate) async fn job_execution_find(&mut self, id: i64) -> Answer<Option<ExecutionHeadRow>> {
        on_either!(self, job::execution::find(id))
    }

    pub(crate) async fn job_execution_job(&mut self, id: i64) -> Answer<Option<(i64, String)>> {
        on_either!(self, job::execution::job(id))
    }

    pub(crate) async fn job_execution_lock(&mut self, id: i64) -> Answer<Option<ExecutionHeadRow>> {
        on_either!(self, job::execution::lock(id))
    }

    pub(crate) async fn job_execution_save_status(&mut self, change: &StatusChange<'_>) -> Answer<()> {
        on_either!(self, job::execution::save_status(change))
    }

    pub(crate) async fn job_parameter_insert(&mut self, rows: &[ParameterRow]) -> Answer<()> {
        on_either!(self, job::parameter::insert(rows))
    }

    pub(crate) async fn job_parameter_of_executions(
        &mut self,
        executions: &[i64],
    ) -> Answer<Vec<ParameterRow>> {
        on_either!(self, job::parameter::of_executions(executions))
    }

    pub(crate) async fn job_orphan_lock(&mut self, limit: i64) -> Answer<Vec<OrphanRow>> {
        on_either!(self, job::orphan::lock(limit))
    }

    pub(crate) async fn job_orphan_lock_due_restart(
        &mut self,
        jobs: &[(&str, Option<&str>)],
    ) -> Answer<Option<DueRestartRow>> {
        on_either!(self, job::orphan::lock_due_restart(jobs))
    }

    pub(crate) async fn job_units_of_ended(
        &mut self,
        run_prefix: &str,
        limit: i64,
    ) -> Answer<Vec<(String, DbId)>> {
        on_either!(self, job::units::of_ended(run_prefix, limit))
    }

    pub(crate) async fn job_orphan_restart_taken(&mut self, execution: i64) -> Answer<()> {
        on_either!(self, job::orphan::restart_taken(execution))
    }
}

/// What we know beyond Spring's columns.
impl Tx {
    pub(crate) async fn job_note_insert(&mut self, row: &ExecutionNoteRow) -> Answer<()> {
        on_either!(self, job::note::insert(row))
    }

    pub(crate) async fn job_note_save_outer(&mut self, execution: i64, outer: i64) -> Answer<()> {
        on_either!(self, job::note::save_outer(execution, outer))
    }

    pub(crate) async fn job_note_find(&mut self, execution: i64) -> Answer<Option<ExecutionNoteRow>> {
        on_either!(self, job::note::find(execution))
    }

    pub(crate) async fn job_note_save_stop(
        &mut self,
        execution: i64,
        by: &str,
        reason: Option<&str>,
        now: DbTime,
    ) -> Answer<()> {
        on_either!(self, job::note::save_stop(execution, by, reason, now))
    }

    pub(crate) async fn job_note_save_end(
        &mut self,
        execution: i64,
        exit_text: Option<&str>,
        restart_due: bool,
    ) -> Answer<()> {
        on_either!(self, job::note::save_end(execution, exit_text, restart_due))
    }

    pub(crate) async fn job_note_clear_restart_due(&mut self, instance: i64) -> Answer<()> {
        on_either!(self, job::note::clear_restart_due(instance))
    }

    pub(crate) async fn job_note_save_step(
        &mut self,
        step: i64,
        total_items: Option<i64>,
        delivery: Option<&str>,
        exit_text: Option<&str>,
    ) -> Answer<()> {
        on_either!(self, job::note::save_step(step, total_items, delivery, exit_text))
    }
}

/// Rejects.
impl Tx {
    pub(crate) async fn job_reject_insert(
        &mut self,
        step: i64,
        rows: &[RejectRow],
        now: DbTime,
    ) -> Answer<()> {
        on_either!(self, job::reject::insert(step, rows, now))
    }

    pub(crate) async fn job_reject_list(
        &mut self,
        step: i64,
        after: i64,
        limit: i64,
    ) -> Answer<Vec<StoredRejectRow>> {
        on_either!(self, job::reject::list(step, after, limit))
    }
}

/// Contexts.
impl Tx {
    pub(crate) async fn job_context_insert_of_job(
        &mut self,
        execution: i64,
        context: &ContextColumns<'_>,
    ) -> Answer<()> {
        on_either!(self, job::context::insert_of_job(execution, context))
    }

    pub(crate) async fn job_context_save_of_job(
        &mut self,
        execution: i64,
        context: &ContextColumns<'_>,
    ) -> Answer<()> {
        on_either!(self, job::context::save_of_job(execution, context))
    }

    pub(crate) async fn job_context_of_job(&mut self, execution: i64) -> Answer<Option<String>> {
        on_either!(self, job::context::of_job(execution))
    }

    pub(crate) async fn job_context_insert_of_step(
        &mut self,
        step: i64,
        context: &ContextColumns<'_>,
    ) -> Answer<()> {
        on_either!(self, job::context::insert_of_step(step, context))
    }

    pub(crate) async fn job_context_of_step(&mut self, step: i64) -> Answer<Option<String>> {
        on_either!(self, job::context::of_step(step))
    }
}

/// Steps and their chunks.
impl Tx {
    pub(crate) async fn job_step_last(&mut self, instance: i64, step: &str) -> Answer<Option<StepRow>> {
        on_either!(self, job::step::last(instance, step))
    }

    pub(crate) async fn job_step_earlier(
        &mut self,
        (job, step): (&str, &str),
        other_than: i64,
        before: i64,
    ) -> Answer<Option<EarlierStepRow>> {
        on_either!(self, job::step::earlier((job, step), other_than, before))
    }

    pub(crate) async fn job_step_starts(
        &mut self,
        instance: i64,
        step: &str,
        counted_max: i64,
    ) -> Answer<i64> {
        on_either!(self, job::step::starts(instance, step, counted_max))
    }

    pub(crate) async fn job_step_insert(&mut self, execution: i64, step: &str, now: DbStamp) -> Answer<i64> {
        on_either!(self, job::step::insert(execution, step, now))
    }

    pub(crate) async fn job_step_lock_version(&mut self, id: i64) -> Answer<Option<i64>> {
        on_either!(self, job::step::lock_version(id))
    }

    pub(crate) async fn job_step_save_end(&mut self, end: &StepEndRow<'_>) -> Answer<u64> {
        on_either!(self, job::step::save_end(end))
    }

    pub(crate) async fn job_step_fail_running(
        &mut self,
        execution: i64,
        message: &str,
        now: DbStamp,
    ) -> Answer<()> {
        on_either!(self, job::step::fail_running(execution, message, now))
    }

    pub(crate) async fn job_step_fail_unknown(
        &mut self,
        execution: i64,
        message: &str,
        now: DbStamp,
    ) -> Answer<()> {
        on_either!(self, job::step::fail_unknown(execution, message, now))
    }

    pub(crate) async fn job_step_of_execution(&mut self, execution: i64) -> Answer<Vec<StepRow>> {
        on_either!(self, job::step::of_execution(execution))
    }

    pub(crate) async fn job_chunk_save(&mut self, chunk: &ChunkRow<'_>) -> Answer<Option<(i64, bool)>> {
        on_either!(self, job::chunk::save(chunk))
    }
}

/// Lists.
impl Tx {
    pub(crate) async fn job_list_jobs(&mut self, limit: i64, counted_max: i64) -> Answer<Vec<JobRow>> {
        on_either!(self, job::list::jobs(limit, counted_max))
    }

    pub(crate) async fn job_list_instances(
        &mut self,
        job: &str,
        before: i64,
        limit: i64,
        counted_max: i64,
    ) -> Answer<Vec<InstanceRow>> {
        on_either!(self, job::list::instances(job, before, limit, counted_max))
    }

    pub(crate) async fn job_list_execution(&mut self, id: i64) -> Answer<Option<ExecutionRow>> {
        on_either!(self, job::list::execution(id))
    }

    /// Asks with the statement that has the index for what is wanted.
    pub(crate) async fn job_list_executions(
        &mut self,
        filter: &ExecutionFilterRow<'_>,
        before: i64,
        limit: i64,
    ) -> Answer<Vec<ExecutionRow>> {
        match (filter.instance, filter.job, filter.status) {
            (Some(instance), ..) => {
                on_either!(self, job::list::executions_of_instance(filter, instance, before, limit))
            }
            (None, Some(job), Some(status)) => {
                on_either!(self, job::list::executions_of_job_in_status(job, status, before, limit))
            }
            (None, Some(job), None) => on_either!(self, job::list::executions_of_job(job, before, limit)),
            (None, None, Some(status)) => {
                on_either!(self, job::list::executions_in_status(status, before, limit))
            }
            (None, None, None) => on_either!(self, job::list::executions(before, limit)),
        }
    }
}

/// How jobs have been doing.
impl Tx {
    pub(crate) async fn job_track_recent(&mut self, jobs: &[&str], limit: i64) -> Answer<Vec<RunRow>> {
        on_either!(self, job::track::recent(jobs, limit))
    }

    pub(crate) async fn job_track_outcomes(
        &mut self,
        jobs: &[&str],
        since: DbStamp,
        limit: i64,
    ) -> Answer<Vec<OutcomeRow>> {
        on_either!(self, job::track::outcomes(jobs, since, limit))
    }
}

/// An exit status as its columns hold it.
#[derive(Clone, Debug)]
pub(crate) struct ExitColumns {
    pub(crate) code: String,
    pub(crate) message: String,
}

/// A new status of an execution; what is absent stays as it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatusChange<'a> {
    pub(crate) id: i64,
    pub(crate) status: BatchStatus,
    pub(crate) started_at: Option<DbStamp>,
    pub(crate) ended_at: Option<DbStamp>,
    pub(crate) exit: Option<&'a ExitColumns>,
    pub(crate) now: DbStamp,
}

/// A context as its two columns hold it.
#[derive(Clone, Debug)]
pub(crate) struct ContextColumns<'a> {
    pub(crate) short: String,
    pub(crate) long: Option<&'a str>,
}

/// Counters as the database counts.
#[derive(Clone, Copy, Debug, sqlx::FromRow)]
pub(crate) struct CounterColumns {
    pub(crate) commit: i64,
    pub(crate) read: i64,
    pub(crate) filter: i64,
    pub(crate) write: i64,
    pub(crate) read_skip: i64,
    pub(crate) write_skip: i64,
    pub(crate) process_skip: i64,
    pub(crate) rollback: i64,
}

impl From<&Counters> for CounterColumns {
    fn from(counters: &Counters) -> Self {
        // Nobody counts to the end of 63 bits; one who did would stay there.
        let column = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        Self {
            commit: column(counters.commit),
            read: column(counters.read),
            filter: column(counters.filter),
            write: column(counters.write),
            read_skip: column(counters.read_skip),
            write_skip: column(counters.write_skip),
            process_skip: column(counters.process_skip),
            rollback: column(counters.rollback),
        }
    }
}

/// What is recorded about a chunk; `now` only when a test decides on the time.
#[derive(Clone, Debug)]
pub(crate) struct ChunkRow<'a> {
    pub(crate) lease: &'a LeaseKey,
    pub(crate) fence: Fence,
    pub(crate) execution: i64,
    pub(crate) step: i64,
    pub(crate) counters: CounterColumns,
    pub(crate) context: Option<ContextColumns<'a>>,
    pub(crate) now: Option<DbStamp>,
}

/// The end of a step.
#[derive(Clone, Debug)]
pub(crate) struct StepEndRow<'a> {
    pub(crate) id: i64,
    pub(crate) execution: i64,
    pub(crate) status: BatchStatus,
    pub(crate) exit: &'a ExitColumns,
    pub(crate) counters: CounterColumns,
    pub(crate) now: DbStamp,
}

/// What to list of the executions; an absent condition is always met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExecutionFilterRow<'a> {
    pub(crate) job: Option<&'a str>,
    pub(crate) status: Option<&'a str>,
    pub(crate) instance: Option<i64>,
}

//! Statements on `tidemill_job_execution` and `tidemill_step_execution`: our columns beside Spring's.

use crate::job::LaunchRequest;
use crate::job::list::ExecutionNote;
use crate::statement::statements;
use tidemill_domain::job::{ExecutionId, StepExecutionId};
use tidemill_domain::time::Timestamp;

statements! {
    fn job_note_insert(execution: i64, request: &LaunchRequest<'_>) -> () {
        bind(
            execution, request.by, &request.actor.name, request.on_crash.as_str(),
            i64::from(request.on_crash.limit()), request.crash_restarts, request.fingerprint,
        )
        "insert into tidemill_job_execution
             (job_execution_id, owner, launched_by, on_crash, crash_restart_limit, crash_restarts, fingerprint)
         values ($1, $2, $3, $4, $5, $6, $7)"
    }

    fn job_note_find(execution: i64) -> Option<ExecutionNote> {
        "select job_execution_id, owner, on_crash, crash_restart_limit, restart_due, stop_requested_at,
                stop_requested_by, stop_reason, fingerprint
         from tidemill_job_execution where job_execution_id = $1"
    }

    /// Records that a step of `outer` launched `inner`, so that retention does not delete it first.
    pub fn Jobs::note_outer(inner: ExecutionId, outer: ExecutionId) -> () {
        "update tidemill_job_execution set outer_execution_id = $2 where job_execution_id = $1"
    }

    /// Keeps the first request.
    fn job_note_save_stop(execution: i64, by: &str, reason: Option<&str>, now: Timestamp) -> () {
        bind(execution, now, by, reason)
        "update tidemill_job_execution set stop_requested_at = $2, stop_requested_by = $3, stop_reason = $4
         where job_execution_id = $1 and stop_requested_at is null"
    }

    /// `exit_text` only if it did not fit its column.
    fn job_note_save_end(execution: i64, exit_text: Option<&str>, restart_due: bool) -> () {
        "update tidemill_job_execution set exit_text = $2, restart_due = $3 where job_execution_id = $1"
    }

    /// Any launch is the restart that was due. Reads the few that are due, not the many of the instance.
    fn job_note_clear_restart_due(instance: i64) -> () {
        "update tidemill_job_execution set restart_due = false
         where restart_due {= 1}
           and exists (
               select 1
               from batch_job_execution e
               where e.job_execution_id = tidemill_job_execution.job_execution_id
                 and e.job_instance_id = $1
           )"
    }

    /// Absent values stay unchanged.
    fn job_note_save_step(
        step: StepExecutionId, total_items: Option<i64>, delivery: Option<&str>, exit_text: Option<&str>,
    ) -> () {
        "insert into tidemill_step_execution as s (step_execution_id, total_items, delivery, exit_text)
         values ($1, $2, $3, $4)
         on conflict (step_execution_id) do update
         set total_items = coalesce(excluded.total_items, s.total_items),
             delivery = coalesce(excluded.delivery, s.delivery),
             exit_text = coalesce(excluded.exit_text, s.exit_text)"
    }
}

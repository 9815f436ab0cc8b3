//! The course of an execution, as its process records it. A long context is whole only in its long column.

use super::columns::ExitColumns;
use super::list::ExecutionNote;
use super::record::{EXECUTION, ParameterRow};
use super::{LaunchRequest, columns, object};
use crate::alert::ALERT_DELIVERY;
use crate::codec::DbStamp;
use crate::error::Result;
use crate::statement::{rows, statements, stored};
use crate::tx::Jobs;
use serde_json::json;
use sqlx::{AssertSqlSafe, SqliteConnection};
use tidemill_domain::audit::{Actor, AuditEntry, Role};
use tidemill_domain::job::lifecycle::{self, ExecutionEvent};
use tidemill_domain::job::notify::{self, JOB_END, JobEnd, Notify};
use tidemill_domain::job::{
    BatchStatus, ExecutionId, ExitStatus, InstanceId, JobParameter, StepExecutionId, context,
};
use tidemill_domain::lease::{Fence, LeaseKey};
use tidemill_domain::outbox::lifecycle_events::{ExecutionChange, ExecutionTransition};
use tidemill_domain::process::ProcessId;
use tidemill_domain::time::Timestamp;

stored! {
    /// The columns that decisions need.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct ExecutionHead in EXECUTION {
        pub(super) id: ExecutionId = "job_execution_id",
        pub(super) instance: i64 = "job_instance_id",
        pub(super) status: BatchStatus,
    }

    /// An end of which somebody has to be notified.
    pub(crate) struct EndToNotify in EXECUTION |row| {
        job: String = "job_name",
        status: BatchStatus,
        exit_code: String,
        ended_at: Option<Timestamp> => row.stamp_if("end_time")?,
        notify: String,
    }
}

/// Absent values leave their columns unchanged.
pub(crate) struct StatusChange<'a> {
    pub(super) id: i64,
    pub(super) status: BatchStatus,
    pub(super) started_at: Option<DbStamp>,
    pub(super) ended_at: Option<DbStamp>,
    pub(super) exit: Option<&'a ExitColumns>,
    pub(super) now: DbStamp,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "an end may be refused"]
pub enum EndRecorded {
    Done,
    /// Another program had ended it, with this status; only the lease was released.
    ByOther(BatchStatus),
    /// It is no longer ours, or cannot end like this: roll back.
    Refused,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct StatusNews<'a> {
    pub(super) what: ExecutionTransition,
    pub(super) status: BatchStatus,
    pub(super) exit_code: Option<&'a str>,
    pub(super) at: Timestamp,
}

impl Jobs<'_> {
    /// False if it is no longer ours, or cannot begin in its status: roll back.
    #[crate::boxed]
    pub async fn begin_execution(&mut self, id: ExecutionId, lease: &LeaseKey, fence: Fence) -> Result<bool> {
        if !self.leases().confirm(lease, fence).await? {
            return Ok(false);
        }
        let Some(head) = self.job_execution_lock(id).await? else { return Ok(false) };
        let Ok(status) = lifecycle::next(head.status, ExecutionEvent::Begin) else { return Ok(false) };
        let at = self.now().await?;
        let now = at.into();
        let change =
            StatusChange { id: id.get(), status, started_at: Some(now), ended_at: None, exit: None, now };
        self.job_execution_save_status(&change).await?;
        let news = StatusNews { what: ExecutionTransition::Started, status, exit_code: None, at };
        self.publish_execution_event(id, news).await?;
        Ok(true)
    }

    /// Whether its process has to stop, whichever program asked for it.
    pub async fn must_stop(&mut self, id: ExecutionId) -> Result<bool> {
        let head = self.job_execution_find(id).await?;
        Ok(head.is_none_or(|head| lifecycle::must_stop(head.status)))
    }

    /// Saves the job's context, as [`ExecutionContext::to_text`] wrote it. False if the execution is no longer ours.
    ///
    /// [`ExecutionContext::to_text`]: tidemill_domain::job::ExecutionContext::to_text
    pub async fn save_job_context(
        &mut self,
        id: ExecutionId,
        lease: &LeaseKey,
        fence: Fence,
        text: &str,
    ) -> Result<bool> {
        if !self.leases().confirm(lease, fence).await? {
            return Ok(false);
        }
        self.job_context_save_of_job(id, text).await?;
        Ok(true)
    }

    /// Ends the execution and releases its lease.
    #[crate::boxed]
    pub async fn end_execution(
        &mut self,
        id: ExecutionId,
        lease: &LeaseKey,
        fence: Fence,
        status: BatchStatus,
        exit: &ExitStatus,
    ) -> Result<EndRecorded> {
        if !self.leases().confirm(lease, fence).await? {
            return Ok(EndRecorded::Refused);
        }
        let Some(head) = self.job_execution_lock(id).await? else { return Ok(EndRecorded::Refused) };
        let before = head.status;
        let after = match lifecycle::next(before, ExecutionEvent::End(status)) {
            Ok(after) => after,
            Err(_) if before.is_running() => return Ok(EndRecorded::Refused),
            Err(_) => {
                self.fail_steps(id, exit).await?;
                self.lease_forget(lease, fence).await?;
                return Ok(EndRecorded::ByOther(before));
            }
        };
        // Steps that were begun and not ended, for example after a lost answer, end with it.
        self.fail_steps(id, exit).await?;
        let actor = self.process_actor(fence.owner).await?;
        let now = self.now().await?;
        self.save_end(id, after, exit, now, false).await?;
        let entry = AuditEntry::new(actor, "execution.end", &object(id))
            .from_to(before.as_str(), after.as_str())
            .because(&exit.code);
        self.audit_insert(&entry, now).await?;
        let (what, exit_code) = (ExecutionTransition::Ended, Some(exit.code.as_str()));
        self.publish_execution_event(id, StatusNews { what, status: after, exit_code, at: now }).await?;
        // The id of an execution is never reused, so the lease's row can go too.
        let is_released = self.lease_forget(lease, fence).await? == 1;
        Ok(if is_released { EndRecorded::Done } else { EndRecorded::Refused })
    }

    pub(super) async fn save_end(
        &mut self,
        id: ExecutionId,
        status: BatchStatus,
        exit: &ExitStatus,
        at: Timestamp,
        restart_due: bool,
    ) -> Result<()> {
        let (stored, long) = columns::exit(exit);
        let now = at.into();
        let ended_at = Some(now);
        let change =
            StatusChange { id: id.get(), status, started_at: None, ended_at, exit: Some(&stored), now };
        self.job_execution_save_status(&change).await?;
        self.job_note_save_end(id.get(), long.as_deref(), restart_due).await?;
        // A job that is restarted automatically has not ended.
        if restart_due { Ok(()) } else { self.notify_end(id).await }
    }

    /// Queues the notices of an end, which is recorded, for the alert channels that the launch named; once, however often it
    /// is called.
    #[crate::boxed]
    pub async fn notify_end(&mut self, execution: ExecutionId) -> Result<()> {
        let Some(stored) = self.job_note_notify(execution).await? else { return Ok(()) };
        self.job_note_notified(execution).await?;
        let (job, exit_code) = (stored.job.as_str(), stored.exit_code.as_str());
        let now = self.now().await?;
        let at = stored.ended_at.unwrap_or(now);
        let end = JobEnd { job, execution, status: stored.status, exit_code, at };
        let Ok(subject) = end.subject() else { return Ok(()) };
        let (all, body) = (Notify::from_text(&stored.notify), end.to_json());
        for channel in notify::channels(&all, stored.status) {
            self.alert_delivery_insert((JOB_END, &subject), end.notice(), channel, &body, now).await?;
            self.wake(ALERT_DELIVERY);
        }
        Ok(())
    }

    async fn process_actor(&mut self, id: ProcessId) -> Result<Actor> {
        let process = self.process_by_id(id).await?;
        let name = process.map_or_else(|| id.get().to_string(), |process| process.identity.name);
        Ok(Actor { name, role: Role::Worker, request_id: None })
    }

    /// Records lifecycle events. The execution's row is locked, or was inserted by this transaction.
    pub(super) async fn publish_execution_event(
        &mut self,
        id: ExecutionId,
        news: StatusNews<'_>,
    ) -> Result<()> {
        if !self.lifecycle_events().jobs {
            return Ok(());
        }
        let Some((instance, job)) = self.job_execution_job(id).await? else { return Ok(()) };
        let StatusNews { what, status, exit_code, at } = news;
        let instance = InstanceId::new(instance);
        let change = ExecutionChange { execution: id, instance, job: &job, what, status, exit_code, at };
        if let Some(event) = self.lifecycle_events().of_execution(&change) {
            self.publish(&event).await?;
        }
        Ok(())
    }
}

statements! {
    /// Draws the id that `{next …}` uses. SQLite has no sequences: a table with one row replaces each, under the name
    /// that Spring Batch uses.
    fn job_draw_id(sequence: Sequence) -> () {
        postgres { nothing }
        sqlite |connection| {
            sqlx::raw_sql(sequence.draw()).execute(connection).await.map(drop)
        }
    }

    /// `None` if the instance has an execution without an end: the partial index ensures it for every program.
    fn job_execution_insert(instance: i64, now: DbStamp) -> Option<i64> {
        "insert into batch_job_execution
             (job_execution_id, version, job_instance_id, create_time, status, exit_code, exit_message, last_updated)
         values ({next batch_job_execution_seq}, 0, $1, $2, 'STARTING', 'UNKNOWN', '', $2)
         on conflict (job_instance_id) where status in ('STARTING', 'STARTED', 'STOPPING', 'UNKNOWN') do nothing
         returning job_execution_id"
    }

    /// Without a lock, for callers that have to lock other rows first.
    fn job_execution_find(id: ExecutionId) -> Option<ExecutionHead> {
        "select job_execution_id as job_execution_id, job_instance_id as job_instance_id, status as status
         from batch_job_execution where job_execution_id = $1"
    }

    /// Its instance, and the name of the job.
    fn job_execution_job(id: ExecutionId) -> Option<(i64, String)> {
        "select i.job_instance_id, i.job_name from batch_job_execution e
         join batch_job_instance i on i.job_instance_id = e.job_instance_id
         where e.job_execution_id = $1"
    }

    fn job_execution_lock(id: ExecutionId) -> Option<ExecutionHead> {
        "select job_execution_id as job_execution_id, job_instance_id as job_instance_id, status as status
         from batch_job_execution where job_execution_id = $1 {for no key update}"
    }

    /// Absent values stay unchanged. Increments the version, by which Spring's programs notice the change.
    fn job_execution_save_status(change: &StatusChange<'_>) -> () {
        bind(
            change.id, change.status.as_str(), change.started_at, change.ended_at,
            change.exit.map(|exit| exit.code.as_str()), change.exit.map(|exit| exit.message.as_str()),
            change.now,
        )
        "update batch_job_execution
         set status = $2, version = coalesce(version, 0) + 1, start_time = coalesce($3, start_time),
             end_time = coalesce($4, end_time), exit_code = coalesce($5, exit_code),
             exit_message = coalesce($6, exit_message), last_updated = $7
         where job_execution_id = $1"
    }

    fn job_context_insert_of_job(execution: i64, text: &str) -> () {
        bind(execution, context::columns(text).0, context::columns(text).1)
        "insert into batch_job_execution_context (job_execution_id, short_context, serialized_context)
         values ($1, $2, $3)"
    }

    fn job_context_save_of_job(execution: ExecutionId, text: &str) -> () {
        bind(execution, context::columns(text).0, context::columns(text).1)
        "update batch_job_execution_context set short_context = $2, serialized_context = $3
         where job_execution_id = $1"
    }

    fn job_context_of_job(execution: i64) -> Option<String> {
        "select coalesce(serialized_context, short_context) from batch_job_execution_context
         where job_execution_id = $1"
    }

    fn job_context_insert_of_step(step: i64, text: &str) -> () {
        bind(step, context::columns(text).0, context::columns(text).1)
        "insert into batch_step_execution_context (step_execution_id, short_context, serialized_context)
         values ($1, $2, $3)"
    }

    fn job_context_save_of_step(step: StepExecutionId, text: &str) -> () {
        bind(step, context::columns(text).0, context::columns(text).1)
        "update batch_step_execution_context set short_context = $2, serialized_context = $3
         where step_execution_id = $1"
    }

    fn job_context_of_step(step: i64) -> Option<String> {
        "select coalesce(serialized_context, short_context) from batch_step_execution_context
         where step_execution_id = $1"
    }
}

/// Whose ids to draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sequence {
    Instance,
    Execution,
    Step,
}

impl Sequence {
    fn draw(self) -> AssertSqlSafe<String> {
        let table = match self {
            Self::Instance => "batch_job_seq",
            Self::Execution => "batch_job_execution_seq",
            Self::Step => "batch_step_execution_seq",
        };
        AssertSqlSafe(format!(
            "insert into {table} default values; delete from {table} where id < (select max(id) from {table})"
        ))
    }
}

/// The first of `count` consecutive ids of steps.
pub(crate) async fn next_steps(connection: &mut SqliteConnection, count: usize) -> Result<i64, sqlx::Error> {
    sqlx::raw_sql(Sequence::Step.draw()).execute(&mut *connection).await?;
    let first: i64 = sqlx::query_scalar("select max(id) from batch_step_execution_seq")
        .fetch_one(&mut *connection)
        .await?;
    let last = first + i64::try_from(count).unwrap_or(i64::MAX - first).max(1) - 1;
    if last > first {
        sqlx::query("delete from batch_step_execution_seq").execute(&mut *connection).await?;
        sqlx::query("insert into batch_step_execution_seq (id) values ($1)")
            .bind(last)
            .execute(connection)
            .await?;
    }
    Ok(first)
}

statements! {
    fn job_parameter_insert(execution: i64, parameters: &[(&str, &JobParameter)]) -> () {
        bind(
            execution,
            rows(parameters, |(name, parameter)| json!({
                "name": name, "type": parameter.value.kind().java_class(), "value": parameter.value.stored_text(),
                "identifying": if parameter.is_identifying { "Y" } else { "N" },
            })),
        )
        "insert into batch_job_execution_params
             (job_execution_id, parameter_name, parameter_type, parameter_value, identifying)
         select $1, name, type, value, identifying
         from {rows new $2: name text, type text, value text, identifying text}"
    }

    fn job_parameter_of_executions(executions: &[i64]) -> Vec<ParameterRow> {
        "select job_execution_id as job_execution_id, parameter_name as parameter_name,
                parameter_type as parameter_type, coalesce(parameter_value, '') as parameter_value,
                identifying as identifying
         from batch_job_execution_params where job_execution_id {in $1}
         order by job_execution_id, parameter_name {collate C}"
    }

    fn job_note_insert(execution: i64, request: &LaunchRequest<'_>) -> () {
        bind(
            execution, request.by, &request.actor.name, request.on_crash.as_str(),
            i64::from(request.on_crash.limit()), request.crash_restarts, request.fingerprint,
            Notify::to_text(request.notify),
        )
        "insert into tidemill_job_execution
             (job_execution_id, owner, launched_by, on_crash, crash_restart_limit, crash_restarts, fingerprint,
              notify)
         values ($1, $2, $3, $4, $5, $6, $7, $8)"
    }

    fn job_note_find(execution: i64) -> Option<ExecutionNote> {
        "select job_execution_id, owner, on_crash, crash_restart_limit, restart_due, stop_requested_at,
                stop_requested_by, stop_reason, fingerprint
         from tidemill_job_execution where job_execution_id = $1"
    }

    /// Nothing if nobody is notified, or if all were.
    fn job_note_notify(execution: ExecutionId) -> Option<EndToNotify> {
        "select i.job_name as job_name, e.status as status, coalesce(e.exit_code, '') as exit_code,
                e.end_time as end_time, n.notify as notify
         from tidemill_job_execution n
         join batch_job_execution e on e.job_execution_id = n.job_execution_id
         join batch_job_instance i on i.job_instance_id = e.job_instance_id
         where n.job_execution_id = $1 and n.notify is not null {for no key update of n}"
    }

    fn job_note_notified(execution: ExecutionId) -> () {
        "update tidemill_job_execution set notify = null where job_execution_id = $1"
    }

    /// Records that a step of `outer` launched `inner`, so that retention does not delete it first.
    pub fn Jobs::note_outer(inner: ExecutionId, outer: ExecutionId) -> () {
        "update tidemill_job_execution set outer_execution_id = $2 where job_execution_id = $1"
    }

    /// Records where in a trace the execution began, so that other processes continue there.
    pub fn Jobs::note_trace(execution: ExecutionId, traceparent: &str) -> () {
        "update tidemill_job_execution set traceparent = $2 where job_execution_id = $1"
    }

    /// The text that was recorded, if any.
    pub fn Jobs::trace(execution: ExecutionId) -> Option<String> {
        "select traceparent from tidemill_job_execution
         where job_execution_id = $1 and traceparent is not null"
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

    /// Any launch is the restart that was due, and its end is the one to notify. Reads the few that are due, not the many of
    /// the instance.
    fn job_note_clear_restart_due(instance: i64) -> () {
        "update tidemill_job_execution set restart_due = false, notify = null
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

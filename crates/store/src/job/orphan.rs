//! Executions whose process is gone: they fail, and some are restarted automatically. Also pool units that their steps
//! still hold: a process that died, or could not reach the database, did not release them.

use super::execution::StatusNews;
use super::record::{EXECUTION, NOTE, ParameterRecord, job_parameters};
use super::{RESTART_DUE, lease_key, object};
use crate::error::Result;
use crate::statement::{Columns, stored};
use crate::tx::Jobs;
use std::collections::BTreeMap;
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::job::lifecycle::{self, ExecutionEvent, OnCrash};
use tidemill_domain::job::pool::RUN_PREFIX;
use tidemill_domain::job::{BatchStatus, ExecutionId, ExitStatus, JobParameters};
use tidemill_domain::outbox::lifecycle_events::ExecutionTransition;
use tidemill_domain::pool::{PoolName, TicketId};
use tidemill_domain::time::Timestamp;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovered {
    pub execution: ExecutionId,
    pub job: String,
    /// The process's name, if still known.
    pub owner: Option<String>,
    pub is_restart_due: bool,
}

stored! {
    /// A job that is due for an automatic restart.
    #[derive(Clone, PartialEq, Debug)]
    pub struct DueRestart in NOTE {
        pub execution: ExecutionId = "job_execution_id",
        pub job: String = "job_name",
        pub parameters: JobParameters => JobParameters::new(),
        /// Of the failed execution; the restart has one more.
        pub crash_restarts: u32,
    }
}

stored! {
    pub(crate) struct Orphan in EXECUTION |row| {
        execution: ExecutionId = "job_execution_id",
        job: String = "job_name",
        status: BatchStatus,
        on_crash: OnCrash => on_crash(row)?,
        crash_restarts: u32 => u32::try_from(row.get::<i64>("crash_restarts")?).unwrap_or(u32::MAX),
        process_name: Option<String>,
        process_host: Option<String>,
        process_pid: Option<i64>,
        process_state: Option<String>,
        process_heartbeat_at: Option<Timestamp>,
    }
}

pub(super) fn on_crash(row: &Columns<'_>) -> Result<OnCrash, sqlx::Error> {
    let row = row.of(NOTE);
    let (word, limit) = (row.get::<String>("on_crash")?, row.get("crash_restart_limit")?);
    row.checked("on_crash", OnCrash::parse(&word, limit).ok())
}

impl Jobs<'_> {
    /// Fails at most `limit` executions whose lease is free, and their running steps. Free the leases of dead processes
    /// first, with [`Leases::expire`](crate::tx::Leases::expire).
    #[crate::boxed]
    pub async fn recover_orphans(&mut self, limit: u32) -> Result<Vec<Recovered>> {
        let rows = self.job_orphan_lock(limit).await?;
        let mut recovered = Vec::with_capacity(rows.len());
        for row in rows {
            recovered.push(self.recover_orphan(row).await?);
        }
        Ok(recovered)
    }

    /// Takes one due restart of one of these jobs, each with its fingerprint if it has one. Launch it in the same
    /// transaction: without a commit the restart stays due.
    #[crate::boxed]
    pub async fn take_due_restart(&mut self, jobs: &[(&str, Option<&str>)]) -> Result<Option<DueRestart>> {
        let Some(mut due) = self.job_orphan_lock_due_restart(jobs).await? else { return Ok(None) };
        let id = due.execution.get();
        self.job_orphan_restart_taken(id).await?;
        let rows = self.job_parameter_of_executions(&[id]).await?;
        let parameters: Vec<ParameterRecord> = rows.into_iter().map(|row| row.parameter).collect();
        due.parameters = job_parameters(&parameters, due.execution)?;
        Ok(Some(due))
    }

    /// At most `limit` tickets, queued or holding units, of executions that have ended; by pool.
    #[crate::boxed]
    pub async fn units_of_ended_executions(
        &mut self,
        limit: u32,
    ) -> Result<BTreeMap<PoolName, Vec<TicketId>>> {
        let mut left: BTreeMap<PoolName, Vec<TicketId>> = BTreeMap::new();
        for (pool, ticket) in self.job_units_of_ended(RUN_PREFIX, limit).await? {
            if let Ok(pool) = pool.parse() {
                left.entry(pool).or_default().push(ticket.into());
            }
        }
        Ok(left)
    }

    async fn recover_orphan(&mut self, row: Orphan) -> Result<Recovered> {
        let (execution, before) = (row.execution, row.status);
        let after = lifecycle::next(before, ExecutionEvent::OwnerLost).unwrap_or(BatchStatus::Failed);
        // A stop was requested, and it has stopped.
        let is_restart_due =
            before != BatchStatus::Stopping && row.on_crash.restarts_after(row.crash_restarts);
        let exit = ExitStatus::failed(loss(&row));
        self.fail_steps(execution, &exit).await?;
        let now = self.now().await?;
        self.save_end(execution, after, &exit, now.into(), is_restart_due).await?;
        self.lease_forget_free(&lease_key(execution)).await?;
        let entry = AuditEntry::new(Actor::system(), "execution.lost", &object(execution))
            .from_to(before.as_str(), after.as_str())
            .because(&exit.description);
        self.audit_insert(&entry, now).await?;
        let (what, exit_code) = (ExecutionTransition::Lost, Some(exit.code.as_str()));
        self.publish_execution_event(execution, StatusNews { what, status: after, exit_code, at: now })
            .await?;
        if is_restart_due {
            self.wake(RESTART_DUE);
        }
        Ok(Recovered { execution, job: row.job, owner: row.process_name, is_restart_due })
    }
}

/// For people.
fn loss(row: &Orphan) -> String {
    let (Some(name), Some(host), Some(pid)) = (&row.process_name, &row.process_host, row.process_pid) else {
        return "the process that ran it is gone".to_owned();
    };
    let process = format!("the process {name} ({host}, {pid}) that ran it");
    match (row.process_state.as_deref(), row.process_heartbeat_at) {
        (Some("stopped"), _) => format!("{process} has ended without an end of the execution"),
        (Some("live"), _) => format!("{process} no longer has the lease on it"),
        (_, Some(at)) => format!("{process} was lost: no heartbeat since {at}"),
        (_, None) => format!("{process} was lost"),
    }
}

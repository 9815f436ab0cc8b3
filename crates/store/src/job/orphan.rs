//! What becomes of executions whose process is gone: they fail, and some are restarted by themselves.

use super::record::{ParameterRecord, job_parameters};
use super::telling::Told;
use super::{RESTART_DUE, lease_key, object};
use crate::error::StoreError;
use crate::row::damaged;
use crate::row::job::OrphanRow;
use crate::tx::Jobs;
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::job::lifecycle::{self, ExecutionEvent};
use tidemill_domain::job::{BatchStatus, ExecutionId, ExitStatus, JobParameters};
use tidemill_domain::outbox::telling::ExecutionTold;
use tidemill_domain::time::Timestamp;

/// An execution that failed because its process is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovered {
    pub execution: ExecutionId,
    pub job: String,
    /// Name of the process, if that is still known.
    pub owner: Option<String>,
    /// Whether the job will be restarted by itself.
    pub is_restart_due: bool,
}

/// A job that is to be restarted by itself.
#[derive(Clone, PartialEq, Debug)]
pub struct DueRestart {
    pub execution: ExecutionId,
    pub job: String,
    /// Its parameters, which the restart has to have as well.
    pub parameters: JobParameters,
    /// How many restarts by themselves had led to the execution that failed; the next one has one more.
    pub crash_restarts: u32,
}

impl Jobs<'_> {
    /// Fails at most `limit` executions that nobody holds the lease of any more, and their running steps. Free the
    /// leases of the dead first, with [`Leases::expire`](crate::tx::Leases::expire).
    pub async fn recover_orphans(&mut self, limit: u32) -> Result<Vec<Recovered>, StoreError> {
        let rows = self.job_orphan_lock(limit.into()).await?;
        let mut recovered = Vec::with_capacity(rows.len());
        for row in rows {
            recovered.push(self.recover_orphan(row).await?);
        }
        Ok(recovered)
    }

    /// Takes one restart that is due of one of these jobs, each with its fingerprint if it has one, for the caller to launch in this same transaction: if
    /// that does not commit, the restart is due again.
    pub async fn take_due_restart(
        &mut self,
        jobs: &[(&str, Option<&str>)],
    ) -> Result<Option<DueRestart>, StoreError> {
        let Some(row) = self.job_orphan_lock_due_restart(jobs).await? else { return Ok(None) };
        self.job_orphan_restart_taken(row.job_execution_id).await?;
        let execution = ExecutionId::new(row.job_execution_id);
        let parameters = self.job_parameter_of_executions(&[row.job_execution_id]).await?;
        let parameters: Vec<ParameterRecord> = parameters.into_iter().map(Into::into).collect();
        let crash_restarts = u32::try_from(row.crash_restarts)
            .map_err(|_| damaged("tidemill_job_execution", "crash_restarts", row.job_execution_id))?;
        Ok(Some(DueRestart {
            execution,
            job: row.job_name,
            parameters: job_parameters(&parameters, execution)?,
            crash_restarts,
        }))
    }

    async fn recover_orphan(&mut self, row: OrphanRow) -> Result<Recovered, StoreError> {
        let execution = ExecutionId::new(row.job_execution_id);
        let before = row.status()?;
        let after = lifecycle::next(before, ExecutionEvent::OwnerLost).unwrap_or(BatchStatus::Failed);
        let restarts = u32::try_from(row.crash_restarts).unwrap_or(u32::MAX);
        // Somebody wanted it to stop, and it has.
        let is_restart_due = before != BatchStatus::Stopping && row.on_crash()?.restarts_after(restarts);
        let exit = ExitStatus::failed(loss(&row));
        self.fail_steps(execution, &exit).await?;
        let now = self.now().await?;
        self.save_end(execution, after, &exit, now.into(), is_restart_due).await?;
        self.lease_forget_free(&lease_key(execution)).await?;
        let entry = AuditEntry::new(Actor::system(), "execution.lost", &object(execution))
            .from_to(before.as_str(), after.as_str())
            .because(&exit.description);
        self.audit_insert(&entry, now.into()).await?;
        let (what, exit_code) = (ExecutionTold::Lost, Some(exit.code.as_str()));
        self.tell_of_execution(execution, Told { what, status: after, exit_code, at: now }).await?;
        if is_restart_due {
            self.wake(RESTART_DUE);
        }
        Ok(Recovered { execution, job: row.job_name, owner: row.process_name, is_restart_due })
    }
}

/// What happened to the process, for people.
fn loss(row: &OrphanRow) -> String {
    let (Some(name), Some(host), Some(pid)) = (&row.process_name, &row.process_host, row.process_pid) else {
        return "the process that ran it is gone".to_owned();
    };
    let process = format!("the process {name} ({host}, {pid}) that ran it");
    match (row.process_state.as_deref(), row.process_heartbeat_at) {
        (Some("stopped"), _) => format!("{process} has ended without an end of the execution"),
        (Some("live"), _) => format!("{process} no longer has the lease on it"),
        (_, Some(at)) => format!("{process} was lost: no heartbeat since {}", Timestamp::from(at)),
        (_, None) => format!("{process} was lost"),
    }
}

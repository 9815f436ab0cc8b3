//! Executions whose process is gone: they fail, and some are restarted automatically. Also pool units that their steps
//! still hold: a process that died, or could not reach the database, did not release them.

use super::execution::StatusNews;
use super::record::{EXECUTION, NOTE, ParameterRecord, job_parameters};
use super::{RESTART_DUE, lease_key, object};
use crate::codec::{DbId, DbStamp};
use crate::error::Result;
use crate::statement::{Columns, rows, statements, stored};
use crate::tx::Jobs;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
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

    /// Notifies ends of executions that nobody has restarted for so long: no process has the job any more, or its definition
    /// has changed. A restart is still due.
    #[crate::boxed]
    pub async fn notify_overdue_restarts(&mut self, after: Duration) -> Result<()> {
        let before = self.now().await?.minus(after);
        for execution in self.job_orphan_lock_overdue(before.into()).await? {
            self.notify_end(ExecutionId::new(execution)).await?;
        }
        Ok(())
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
        self.save_end(execution, after, &exit, now, is_restart_due).await?;
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

macro_rules! units_of_ended {
    ($execution:literal) => {
        concat!(
            "select t.pool, t.id from tidemill_pool_ticket t
             join batch_job_execution e on e.job_execution_id = ",
            $execution,
            "
             join batch_job_instance i on i.job_instance_id = e.job_instance_id
             where t.ended_at is null
               and t.run_id = $1 || cast(e.job_execution_id as text)
               and t.dag_id = i.job_name
               and e.status in ('COMPLETED', 'FAILED', 'STOPPED', 'ABANDONED')
             order by t.pool, t.id limit $2"
        )
    };
}

statements! {
    /// Our executions that count as running while their lease is free. A job's lease is granted once, with its
    /// execution, so a free one stays free. Skips locked rows. Needs the partial index on executions without an end.
    fn job_orphan_lock(limit: u32) -> Vec<Orphan> {
        "select e.job_execution_id as job_execution_id, i.job_name as job_name, e.status as status,
                n.on_crash as on_crash, n.crash_restart_limit as crash_restart_limit,
                n.crash_restarts as crash_restarts,
                p.name as process_name, p.host as process_host, p.pid as process_pid, p.state as process_state,
                p.heartbeat_at as process_heartbeat_at
         from batch_job_execution e
         join tidemill_job_execution n on n.job_execution_id = e.job_execution_id
         join batch_job_instance i on i.job_instance_id = e.job_instance_id
         left join tidemill_process p on p.id = n.owner
         where e.status in ('STARTING', 'STARTED', 'STOPPING', 'UNKNOWN')
           and e.status <> 'UNKNOWN'
           and not exists (
               select 1 from tidemill_lease l
               where l.kind = 'job'
                 and l.name = cast(e.job_execution_id as text)
                 and l.owner is not null
           )
         order by e.job_execution_id limit $1 {for no key update of e skip locked}"
    }

    /// Of one of these jobs, by name and fingerprint; a process with another definition would be refused. Spring Batch may
    /// have abandoned the execution. Also locks
    /// the instance, because the launch that follows does, and the lock order is instance first.
    fn job_orphan_lock_due_restart(jobs: &[(&str, Option<&str>)]) -> Option<DueRestart> {
        bind(rows(jobs, |(job, fingerprint)| json!({ "job": job, "fingerprint": fingerprint })))
        "select n.job_execution_id as job_execution_id, i.job_name as job_name, n.crash_restarts as crash_restarts
         from tidemill_job_execution n
         join batch_job_execution e on e.job_execution_id = n.job_execution_id
         join batch_job_instance i on i.job_instance_id = e.job_instance_id
         join {rows known $1: job text, fingerprint text} on known.job = i.job_name
         where n.restart_due {= 1} and e.status = 'FAILED' and (known.fingerprint = n.fingerprint) is not false
         order by n.job_execution_id limit 1 {for no key update of i, n skip locked}"
    }

    /// Due restarts of executions that ended before then, and whose end is not notified.
    fn job_orphan_lock_overdue(before: DbStamp) -> Vec<i64> {
        "select n.job_execution_id
         from tidemill_job_execution n
         join batch_job_execution e on e.job_execution_id = n.job_execution_id
         where n.restart_due {= 1} and n.notify is not null and e.end_time < $1
         order by n.job_execution_id limit 100 {for no key update of n skip locked}"
    }

    fn job_orphan_restart_taken(execution: i64) -> () {
        "update tidemill_job_execution set restart_due = false where job_execution_id = $1"
    }

    /// Live tickets of executions that have ended. Runs of other programs may have any name, so only numbers are read
    /// as ids. Needs the partial index on tickets without an end.
    fn job_units_of_ended(run_prefix: &str, limit: u32) -> Vec<(String, DbId)> {
        postgres {
            units_of_ended!(
                "case when substr(t.run_id, length($1) + 1) ~ '^[0-9]{1,18}$'
                      then cast(substr(t.run_id, length($1) + 1) as bigint) end"
            )
        }
        // Other texts read as 0, which no execution has.
        sqlite { units_of_ended!("cast(substr(t.run_id, length($1) + 1) as integer)") }
    }
}

//! The registry of processes: which run, have ended, or fell silent.

use crate::codec::DbTime;
use crate::error::Result;
use crate::lease::freed_topic;
use crate::statement::{Columns, stored};
use crate::tx::Processes;
use std::time::Duration;
use tidemill_domain::audit::{Actor, AuditEntry, Role};
use tidemill_domain::process::{self, Identity, ProcessEvent, ProcessId, ProcessRefusal, ProcessState};
use tidemill_domain::time::Timestamp;

/// Wake-up topic: a process has ended or is dead, so its leases are free.
pub const PROCESS_ENDED: &str = "process_ended";

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ProcessRecord in ("tidemill_process", "id") |row| {
        pub id: ProcessId,
        pub identity: Identity => identity(row)?,
        pub state: ProcessState => state(row)?,
        pub started_at: Timestamp,
        pub heartbeat_at: Timestamp,
    }
}

fn actor(identity: &Identity) -> Actor {
    Actor { name: identity.name.clone(), role: Role::Worker, request_id: None }
}

fn object(id: ProcessId) -> String {
    format!("process/{id}")
}

impl Processes<'_> {
    /// Registers a process as alive for `ttl`.
    pub async fn register(&mut self, id: ProcessId, identity: &Identity, ttl: Duration) -> Result<()> {
        let now = self.now().await?;
        self.process_insert(id, identity, now, now.plus(ttl)).await?;
        let entry = AuditEntry::new(actor(identity), "process.start", &object(id));
        self.audit_insert(&entry, now).await?;
        Ok(())
    }

    /// Keeps a process alive for `ttl` from now; refused if it no longer is.
    #[crate::boxed]
    pub async fn heartbeat(&mut self, id: ProcessId, ttl: Duration) -> Result<Result<(), ProcessRefusal>> {
        // Lock, then read the clock: the holder of the lock may just have declared this process dead.
        let Some(process) = self.process_lock(id).await? else {
            return Ok(Err(ProcessRefusal::Ended));
        };
        let now = self.now().await?;
        match process::next(process.state, ProcessEvent::Heartbeat { ttl }, now) {
            Ok(ProcessState::Live { until }) => {
                self.process_heartbeat(id, now, until).await?;
                Ok(Ok(()))
            }
            Ok(ProcessState::Stopped { .. } | ProcessState::Dead { .. }) => Ok(Err(ProcessRefusal::Ended)),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// Ends a process and frees its leases at once. `reason` explains an unplanned end.
    #[crate::boxed]
    pub async fn stop(&mut self, id: ProcessId, reason: Option<&str>) -> Result<Result<(), ProcessRefusal>> {
        // First the leases, then the process: the lock order everywhere.
        for kind in self.lease_release_all(id).await? {
            self.wake(&freed_topic(&kind));
        }
        let Some(process) = self.process_lock(id).await? else {
            return Ok(Err(ProcessRefusal::Ended));
        };
        let now = self.now().await?;
        let before = process.state;
        let after = match process::next(before, ProcessEvent::Stop, now) {
            Ok(after) => after,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if after != before {
            self.process_save_state(id, after).await?;
            let entry = AuditEntry::new(actor(&process.identity), "process.stop", &object(id));
            let entry = entry.from_to("live", "stopped").with_reason(reason);
            self.audit_insert(&entry, now).await?;
            self.wake(PROCESS_ENDED);
        }
        Ok(Ok(()))
    }

    /// Declares at most `limit` silent processes dead.
    #[crate::boxed]
    pub async fn expire(&mut self, limit: u32) -> Result<Vec<ProcessRecord>> {
        let now = self.now().await?;
        let dead = self.process_expire(now, limit).await?;
        for record in &dead {
            let silence = now.since(record.heartbeat_at).as_secs();
            let entry = AuditEntry::new(Actor::system(), "process.dead", &object(record.id))
                .from_to("live", "dead")
                .because(&format!("no heartbeat for {silence} s from {}", record.identity.name));
            self.audit_insert(&entry, now).await?;
        }
        if !dead.is_empty() {
            self.wake(PROCESS_ENDED);
        }
        Ok(dead)
    }

    /// Deletes at most `limit` processes that ended more than `age` ago; returns how many.
    pub async fn prune(&mut self, age: Duration, limit: u32) -> Result<u64> {
        let now = self.now().await?;
        Ok(self.process_prune(now.minus(age), limit).await?)
    }
}

fn identity(row: &Columns<'_>) -> Result<Identity, sqlx::Error> {
    Ok(Identity {
        name: row.get("name")?,
        host: row.get("host")?,
        pid: row.get("pid")?,
        version: row.get("version")?,
    })
}

fn state(row: &Columns<'_>) -> Result<ProcessState, sqlx::Error> {
    Ok(match (row.get::<String>("state")?.as_str(), row.get("ended_at")?) {
        ("live", None) => ProcessState::Live { until: row.get("until")? },
        ("stopped", Some(at)) => ProcessState::Stopped { at },
        ("dead", Some(at)) => ProcessState::Dead { at },
        _ => return Err(row.damaged("state")),
    })
}

/// The stored word, and the end.
pub(crate) fn stored_state(state: ProcessState) -> (&'static str, Option<DbTime>) {
    match state {
        ProcessState::Live { .. } => ("live", None),
        ProcessState::Stopped { at } => ("stopped", Some(at.into())),
        ProcessState::Dead { at } => ("dead", Some(at.into())),
    }
}

//! The registry of processes: who runs, who has ended, who fell silent.

use crate::codec::{DbId, DbTime};
use crate::error::{StoreError, damaged};
use crate::lease::freed_topic;
use crate::tx::Processes;
use std::time::Duration;
use tidemill_domain::audit::{Actor, AuditEntry, Role};
use tidemill_domain::process::{self, Identity, ProcessEvent, ProcessId, ProcessRefusal, ProcessState};
use tidemill_domain::time::Timestamp;

/// Topic of the wake-up that is sent when a process ends or is found dead: what it held can be had.
pub const PROCESS_ENDED: &str = "process_ended";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessRecord {
    pub id: ProcessId,
    pub identity: Identity,
    /// Where it is in its life.
    pub state: ProcessState,
    pub started_at: Timestamp,
    /// When it last said that it is alive.
    pub heartbeat_at: Timestamp,
}

fn actor(identity: &Identity) -> Actor {
    Actor { name: identity.name.clone(), role: Role::Worker, request_id: None }
}

fn object(id: ProcessId) -> String {
    format!("process/{id}")
}

impl Processes<'_> {
    /// Registers a process as alive for `ttl`.
    pub async fn register(
        &mut self,
        id: ProcessId,
        identity: &Identity,
        ttl: Duration,
    ) -> Result<(), StoreError> {
        let now = self.now().await?;
        self.process_insert(id.into(), identity, now.into(), now.plus(ttl).into()).await?;
        let entry = AuditEntry::new(actor(identity), "process.start", &object(id));
        self.audit_insert(&entry, now.into()).await?;
        Ok(())
    }

    /// Keeps a process alive for `ttl` from now; refused when it no longer is.
    pub async fn heartbeat(
        &mut self,
        id: ProcessId,
        ttl: Duration,
    ) -> Result<Result<(), ProcessRefusal>, StoreError> {
        // Lock, then look at the clock: whoever holds the row may just have judged this process dead.
        let Some(row) = self.process_lock(id.into()).await? else {
            return Ok(Err(ProcessRefusal::Ended));
        };
        let now = self.now().await?;
        match process::next(row.state()?, ProcessEvent::Heartbeat { ttl }, now) {
            Ok(ProcessState::Live { until }) => {
                self.process_heartbeat(id.into(), now.into(), until.into()).await?;
                Ok(Ok(()))
            }
            Ok(ProcessState::Stopped { .. } | ProcessState::Dead { .. }) => Ok(Err(ProcessRefusal::Ended)),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// Ends a process, for a `reason` if it did not simply want to: what it holds is free, at once.
    pub async fn stop(
        &mut self,
        id: ProcessId,
        reason: Option<&str>,
    ) -> Result<Result<(), ProcessRefusal>, StoreError> {
        // First the leases, then the process: the order in which everybody locks.
        for kind in self.lease_release_all(id.into()).await? {
            self.wake(&freed_topic(&kind));
        }
        let Some(row) = self.process_lock(id.into()).await? else {
            return Ok(Err(ProcessRefusal::Ended));
        };
        let now = self.now().await?;
        let before = row.state()?;
        let after = match process::next(before, ProcessEvent::Stop, now) {
            Ok(after) => after,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if after != before {
            self.process_save_state(id.into(), after).await?;
            let entry = AuditEntry::new(actor(&row.identity()?), "process.stop", &object(id));
            let entry = entry.from_to("live", "stopped");
            let entry = if let Some(reason) = reason { entry.because(reason) } else { entry };
            self.audit_insert(&entry, now.into()).await?;
            self.wake(PROCESS_ENDED);
        }
        Ok(Ok(()))
    }

    /// Declares dead whoever has fallen silent, at most `limit` of them.
    pub async fn expire(&mut self, limit: u32) -> Result<Vec<ProcessRecord>, StoreError> {
        let now = self.now().await?;
        let dead = self.process_expire(now.into(), limit.into()).await?;
        let mut records = Vec::with_capacity(dead.len());
        for row in dead {
            let record = record(&row)?;
            let silence = now.since(record.heartbeat_at).as_secs();
            let entry = AuditEntry::new(Actor::system(), "process.dead", &object(record.id))
                .from_to("live", "dead")
                .because(&format!("no heartbeat for {silence} s from {}", record.identity.name));
            self.audit_insert(&entry, now.into()).await?;
            records.push(record);
        }
        if !records.is_empty() {
            self.wake(PROCESS_ENDED);
        }
        Ok(records)
    }

    /// The processes, the living first.
    pub async fn list(&mut self, limit: u32) -> Result<Vec<ProcessRecord>, StoreError> {
        self.process_list(limit.into()).await?.iter().map(record).collect()
    }

    /// Forgets at most `limit` processes that ended more than `age` ago; returns how many.
    pub async fn prune(&mut self, age: Duration, limit: u32) -> Result<u64, StoreError> {
        let now = self.now().await?;
        Ok(self.process_prune(now.minus(age).into(), limit.into()).await?)
    }
}

pub(crate) fn record(row: &ProcessRow) -> Result<ProcessRecord, StoreError> {
    Ok(ProcessRecord {
        id: row.id.into(),
        identity: row.identity()?,
        state: row.state()?,
        started_at: row.started_at.into(),
        heartbeat_at: row.heartbeat_at.into(),
    })
}

crate::statement::row! {
    #[derive(Clone, Debug)]
    pub(crate) struct ProcessRow {
        pub(crate) id: DbId,
        pub(crate) name: String,
        pub(crate) host: String,
        pub(crate) pid: i64,
        pub(crate) version: String,
        pub(crate) state: String,
        pub(crate) started_at: DbTime,
        pub(crate) heartbeat_at: DbTime,
        pub(crate) until: DbTime,
        pub(crate) ended_at: Option<DbTime>,
    }
}

impl ProcessRow {
    pub(crate) fn state(&self) -> Result<ProcessState, StoreError> {
        match (self.state.as_str(), self.ended_at) {
            ("live", None) => Ok(ProcessState::Live { until: self.until.0 }),
            ("stopped", Some(at)) => Ok(ProcessState::Stopped { at: at.0 }),
            ("dead", Some(at)) => Ok(ProcessState::Dead { at: at.0 }),
            _ => Err(damaged("tidemill_process", "state", self.id.0)),
        }
    }

    pub(crate) fn identity(&self) -> Result<Identity, StoreError> {
        Ok(Identity {
            name: self.name.clone(),
            host: self.host.clone(),
            pid: u32::try_from(self.pid).map_err(|_| damaged("tidemill_process", "pid", self.id.0))?,
            version: self.version.clone(),
        })
    }
}

/// The word that is stored for a state, and its end.
pub(crate) fn stored_state(state: ProcessState) -> (&'static str, Option<DbTime>) {
    match state {
        ProcessState::Live { .. } => ("live", None),
        ProcessState::Stopped { at } => ("stopped", Some(at.into())),
        ProcessState::Dead { at } => ("dead", Some(at.into())),
    }
}

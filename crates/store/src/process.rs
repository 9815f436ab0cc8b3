//! The registry of processes: which run, have ended, or fell silent.

use crate::codec::{DbId, DbTime};
use crate::error::Result;
use crate::lease::freed_topic;
use crate::statement::{Columns, Stored, statements, stored};
use crate::tx::Processes;
use std::time::Duration;
use tidemill_domain::audit::{Actor, AuditEntry, Role};
use tidemill_domain::process::{
    self, Identity, Incarnation, ProcessEvent, ProcessId, ProcessRefusal, ProcessState,
};
use tidemill_domain::time::Timestamp;

const PROCESS: (&str, &str) = ("tidemill_process", "id");

/// Wake-up topic: a process has ended or is dead, so its leases are free.
pub const PROCESS_ENDED: &str = "process_ended";

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ProcessRecord in PROCESS |row| {
        pub id: ProcessId,
        pub identity: Identity => Stored::from_columns(row)?,
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

    /// Live processes of this place, as they registered.
    pub async fn neighbours(&mut self, place: &str) -> Result<Vec<(ProcessId, Incarnation)>> {
        let rows = self.process_neighbours(&format!("{place} ")).await?;
        Ok(rows.into_iter().filter_map(|(id, text)| Some((id.into(), text.parse().ok()?))).collect())
    }

    /// Records that a process has certainly ended. Its leases are free at once. False if its end was known.
    #[crate::boxed]
    pub async fn bury(&mut self, id: ProcessId) -> Result<bool> {
        let Some(process) = self.process_lock(id).await? else { return Ok(false) };
        let now = self.now().await?;
        let before = process.state;
        let Ok(after) = process::next(before, ProcessEvent::Die, now) else { return Ok(false) };
        if after == before {
            return Ok(false);
        }
        self.process_save_state(id, after).await?;
        let entry = AuditEntry::new(Actor::system(), "process.dead", &object(id))
            .from_to("live", "dead")
            .because(&format!("its machine has no process {} any more", process.identity.pid));
        self.audit_insert(&entry, now).await?;
        self.wake(PROCESS_ENDED);
        Ok(true)
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
}

stored! {
    impl Identity in PROCESS { name, host, pid, version }
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

statements! {
    fn process_insert(id: ProcessId, identity: &Identity, now: Timestamp, until: Timestamp) -> () {
        bind(id, &identity.name, &identity.host, identity.pid, &identity.version, now, until)
        "insert into tidemill_process (id, name, host, pid, version, state, started_at, heartbeat_at, until)
         values ($1, $2, $3, $4, $5, 'live', $6, $6, $7)"
    }

    /// Saves which process of which kernel it is.
    pub fn Processes::set_incarnation(id: ProcessId, incarnation: &Incarnation) -> () {
        bind(id, incarnation.to_string())
        "update tidemill_process set incarnation = $2 where id = $1"
    }

    /// The oldest 1,000; the next round has the others.
    fn process_neighbours(prefix: &str) -> Vec<(DbId, String)> {
        "select id, incarnation from tidemill_process
         where state = 'live' and substr(incarnation, 1, length($1)) = $1
         order by id limit 1000"
    }

    fn process_by_id(id: ProcessId) -> Option<ProcessRecord> {
        "select id, name, host, pid, version, state, started_at, heartbeat_at, until, ended_at
         from tidemill_process where id = $1"
    }

    /// Blocks heartbeats until the transaction ends, so that a process judged dead stays so.
    fn process_lock_shared(id: ProcessId) -> Option<ProcessRecord> {
        "select id, name, host, pid, version, state, started_at, heartbeat_at, until, ended_at
         from tidemill_process where id = $1 {for share}"
    }

    fn process_lock(id: ProcessId) -> Option<ProcessRecord> {
        "select id, name, host, pid, version, state, started_at, heartbeat_at, until, ended_at
         from tidemill_process where id = $1 {for update}"
    }

    fn process_heartbeat(id: ProcessId, now: Timestamp, until: Timestamp) -> () {
        "update tidemill_process set heartbeat_at = $2, until = $3 where id = $1"
    }

    fn process_save_state(id: ProcessId, state: ProcessState) -> () {
        bind(id, stored_state(state).0, stored_state(state).1)
        "update tidemill_process set state = $2, ended_at = $3 where id = $1"
    }

    /// `process::next` with `Expire` as one guarded statement. Skips locked rows: a heartbeat may be under way, and
    /// this must not wait for a frozen process.
    fn process_expire(now: Timestamp, limit: u32) -> Vec<ProcessRecord> {
        "with silent as materialized (
             select id
             from tidemill_process
             where state = 'live'
               and until <= $1
             order by id
             limit $2
             {for update skip locked}
         )
         update tidemill_process set state = 'dead', ended_at = $1 where id in (select id from silent)
         returning id, name, host, pid, version, state, started_at, heartbeat_at, until, ended_at"
    }

    /// Live ones first, then by the latest heartbeat.
    pub fn Processes::list(limit: u32) -> Vec<ProcessRecord> {
        "select id, name, host, pid, version, state, started_at, heartbeat_at, until, ended_at
         from tidemill_process order by state <> 'live', heartbeat_at desc, id limit $1"
    }

    /// Deletes at most `limit` processes that ended more than `age` ago and that no lease names; returns how many.
    pub fn Processes::prune(age: Duration, limit: u32) at now -> u64 {
        bind(now.minus(age), limit)
        "delete from tidemill_process
         where id in (
             select p.id
             from tidemill_process p
             where p.ended_at < $1
               and not exists (select 1 from tidemill_lease l where l.owner = p.id)
             limit $2
         )"
    }
}

//! Statements on `tidemill_process`.

use crate::process::{ProcessRecord, stored_state};
use crate::statement::statements;
use tidemill_domain::process::{Identity, ProcessId, ProcessState};
use tidemill_domain::time::Timestamp;

statements! {
    fn process_insert(id: ProcessId, identity: &Identity, now: Timestamp, until: Timestamp) -> () {
        bind(id, &identity.name, &identity.host, identity.pid, &identity.version, now, until)
        "insert into tidemill_process (id, name, host, pid, version, state, started_at, heartbeat_at, until)
         values ($1, $2, $3, $4, $5, 'live', $6, $6, $7)"
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

    /// Deletes processes that ended long ago and that no lease names.
    fn process_prune(ended_before: Timestamp, limit: u32) -> u64 {
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

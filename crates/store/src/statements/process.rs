//! Statements on `tidemill_process`.

use crate::codec::{DbId, DbTime};
use crate::process::{ProcessRecord, stored_state};
use crate::statement::statements;
use tidemill_domain::process::{Identity, ProcessState};

statements! {
    fn process_insert(id: DbId, identity: &Identity, now: DbTime, until: DbTime) -> () {
        bind(id, &identity.name, &identity.host, i64::from(identity.pid), &identity.version, now, until)
        "insert into tidemill_process (id, name, host, pid, version, state, started_at, heartbeat_at, until)
         values ($1, $2, $3, $4, $5, 'live', $6, $6, $7)"
    }

    fn process_by_id(id: DbId) -> Option<ProcessRecord> {
        "select id, name, host, pid, version, state, started_at, heartbeat_at, until, ended_at
         from tidemill_process where id = $1"
    }

    /// Blocks heartbeats until the transaction ends, so that a process judged dead stays so.
    fn process_lock_shared(id: DbId) -> Option<ProcessRecord> {
        "select id, name, host, pid, version, state, started_at, heartbeat_at, until, ended_at
         from tidemill_process where id = $1 {for share}"
    }

    fn process_lock(id: DbId) -> Option<ProcessRecord> {
        "select id, name, host, pid, version, state, started_at, heartbeat_at, until, ended_at
         from tidemill_process where id = $1 {for update}"
    }

    fn process_heartbeat(id: DbId, now: DbTime, until: DbTime) -> () {
        "update tidemill_process set heartbeat_at = $2, until = $3 where id = $1"
    }

    fn process_save_state(id: DbId, state: ProcessState) -> () {
        bind(id, stored_state(state).0, stored_state(state).1)
        "update tidemill_process set state = $2, ended_at = $3 where id = $1"
    }

    /// `process::next` with `Expire` as one guarded statement. Skips locked rows: a heartbeat may be under way, and
    /// this must not wait for a frozen process.
    fn process_expire(now: DbTime, limit: i64) -> Vec<ProcessRecord> {
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
    fn process_list(limit: i64) -> Vec<ProcessRecord> {
        "select id, name, host, pid, version, state, started_at, heartbeat_at, until, ended_at
         from tidemill_process order by state <> 'live', heartbeat_at desc, id limit $1"
    }

    /// Deletes processes that ended long ago and that no lease names.
    fn process_prune(ended_before: DbTime, limit: i64) -> u64 {
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

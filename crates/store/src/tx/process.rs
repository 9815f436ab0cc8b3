//! Statements on processes.

use super::{Answer, Connection, Tx};
use crate::codec::{DbId, DbTime};
use crate::row::ProcessRow;
use crate::{postgres, sqlite};
use tidemill_domain::process::{Identity, ProcessState};

impl Tx {
    pub(crate) async fn process_insert(
        &mut self,
        id: DbId,
        identity: &Identity,
        now: DbTime,
        until: DbTime,
    ) -> Answer<()> {
        on_either!(self, process::insert(id, identity, now, until))
    }

    pub(crate) async fn process_by_id(&mut self, id: DbId) -> Answer<Option<ProcessRow>> {
        on_either!(self, process::by_id(id))
    }

    pub(crate) async fn process_lock_shared(&mut self, id: DbId) -> Answer<Option<ProcessRow>> {
        on_either!(self, process::lock_shared(id))
    }

    pub(crate) async fn process_lock(&mut self, id: DbId) -> Answer<Option<ProcessRow>> {
        on_either!(self, process::lock(id))
    }

    pub(crate) async fn process_heartbeat(&mut self, id: DbId, now: DbTime, until: DbTime) -> Answer<()> {
        on_either!(self, process::heartbeat(id, now, until))
    }

    pub(crate) async fn process_save_state(&mut self, id: DbId, state: ProcessState) -> Answer<()> {
        on_either!(self, process::save_state(id, state))
    }

    pub(crate) async fn process_expire(&mut self, now: DbTime, limit: i64) -> Answer<Vec<ProcessRow>> {
        on_either!(self, process::expire(now, limit))
    }

    pub(crate) async fn process_list(&mut self, limit: i64) -> Answer<Vec<ProcessRow>> {
        on_either!(self, process::list(limit))
    }

    pub(crate) async fn process_prune(&mut self, ended_before: DbTime, limit: i64) -> Answer<u64> {
        on_either!(self, process::prune(ended_before, limit))
    }
}

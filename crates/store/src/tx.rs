//! A transaction, and every statement of the product by name. This file is the table of contents of
//! persistence; the texts are in `postgres/` and `sqlite/`, under the same names.

use crate::codec::{DbId, DbTime};
use crate::error::StoreError;
use crate::row::{AuditRow, LeaseRow, MigrationRow, ProcessRow};
use crate::store::Store;
use crate::{crash_point, postgres, sqlite};
use tidemill_domain::audit::AuditEntry;
use tidemill_domain::lease::{Fence, LeaseKey};
use tidemill_domain::process::{Identity, ProcessState};
use tidemill_domain::time::Timestamp;

/// A transaction on either database. Dropped without a commit, it rolls back.
#[derive(Debug)]
pub struct Tx {
    store: Store,
    connection: Connection,
    wakes: Vec<String>,
}

#[derive(Debug)]
pub(crate) enum Connection {
    Postgres(sqlx::Transaction<'static, sqlx::Postgres>),
    Sqlite(sqlx::Transaction<'static, sqlx::Sqlite>),
}

/// Runs the statement of the same name on whichever database this is.
macro_rules! on_either {
    ($self:ident, $noun:ident::$statement:ident($($argument:expr),*)) => {
        match &mut $self.connection {
            Connection::Postgres(tx) => postgres::$noun::$statement(&mut **tx, $($argument),*).await,
            Connection::Sqlite(tx) => sqlite::$noun::$statement(&mut **tx, $($argument),*).await,
        }
    };
}

type Answer<T> = Result<T, sqlx::Error>;

impl Tx {
    pub(crate) fn new(store: Store, connection: Connection) -> Self {
        Self { store, connection, wakes: Vec::new() }
    }

    /// The instant, by the authority on time: the database's clock, or the fake one of a test. Read it after
    /// the rows that the decision rests on are locked.
    pub async fn now(&mut self) -> Result<Timestamp, StoreError> {
        if let Some(clock) = self.store.clock() {
            return Ok(clock.now());
        }
        Ok(on_either!(self, clock::now())?.into())
    }

    /// Wakes those who wait for `topic` once this transaction has committed.
    pub fn wake(&mut self, topic: &str) {
        if !self.wakes.iter().any(|known| known == topic) {
            self.wakes.push(topic.to_owned());
        }
    }

    /// Commits, then wakes whom it concerns.
    pub async fn commit(self) -> Result<(), StoreError> {
        crash_point!("before_commit");
        let committed = match self.connection {
            Connection::Postgres(tx) => tx.commit().await,
            Connection::Sqlite(tx) => tx.commit().await,
        };
        committed.map_err(|error| match StoreError::from(error) {
            StoreError::Unreachable { source, .. } => StoreError::OutcomeUnknown(source),
            other => other,
        })?;
        crash_point!("after_commit");
        if !self.wakes.is_empty() {
            self.store.wake(self.wakes);
        }
        Ok(())
    }

    #[cfg(feature = "scratch")]
    pub(crate) fn connection_for_test(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Rolls back; dropping does the same a little later.
    pub async fn rollback(self) -> Result<(), StoreError> {
        match self.connection {
            Connection::Postgres(tx) => tx.rollback().await?,
            Connection::Sqlite(tx) => tx.rollback().await?,
        }
        Ok(())
    }
}

/// Processes.
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

/// Leases.
impl Tx {
    pub(crate) async fn lease_insert_free(&mut self, key: &LeaseKey) -> Answer<()> {
        on_either!(self, lease::insert_free(key))
    }

    pub(crate) async fn lease_lock(&mut self, key: &LeaseKey) -> Answer<Option<LeaseRow>> {
        on_either!(self, lease::lock(key))
    }

    pub(crate) async fn lease_save_held(
        &mut self,
        key: &LeaseKey,
        fence: Fence,
        until: Option<DbTime>,
        now: DbTime,
    ) -> Answer<()> {
        on_either!(self, lease::save_held(key, fence, until, now))
    }

    pub(crate) async fn lease_lock_free(&mut self, keys: &[&LeaseKey]) -> Answer<Vec<(String, String)>> {
        on_either!(self, lease::lock_free(keys))
    }

    pub(crate) async fn lease_renew(
        &mut self,
        renewals: &[Renewal<'_>],
        now: DbTime,
    ) -> Answer<Vec<(String, String)>> {
        on_either!(self, lease::renew(renewals, now))
    }

    pub(crate) async fn lease_release(&mut self, key: &LeaseKey, fence: Fence) -> Answer<u64> {
        on_either!(self, lease::release(key, fence))
    }

    pub(crate) async fn lease_release_all(&mut self, owner: DbId) -> Answer<Vec<String>> {
        on_either!(self, lease::release_all(owner))
    }

    pub(crate) async fn lease_confirm(&mut self, key: &LeaseKey, fence: Fence) -> Answer<bool> {
        on_either!(self, lease::confirm(key, fence))
    }

    pub(crate) async fn lease_expire(&mut self, now: DbTime, limit: i64) -> Answer<Vec<LeaseRow>> {
        on_either!(self, lease::expire(now, limit))
    }

    pub(crate) async fn lease_owned_by(&mut self, owner: DbId) -> Answer<Vec<LeaseRow>> {
        on_either!(self, lease::owned_by(owner))
    }

    pub(crate) async fn lease_list(&mut self, limit: i64) -> Answer<Vec<LeaseRow>> {
        on_either!(self, lease::list(limit))
    }
}

/// One lease to be renewed, until when if it still has its fence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Renewal<'a> {
    pub(crate) key: &'a LeaseKey,
    pub(crate) fence: Fence,
    pub(crate) until: DbTime,
}

/// Audit.
impl Tx {
    pub(crate) async fn audit_insert(&mut self, entry: &AuditEntry, now: DbTime) -> Answer<()> {
        on_either!(self, audit::insert(entry, now))
    }

    pub(crate) async fn audit_list(&mut self, filter: &AuditFilterRow<'_>) -> Answer<Vec<AuditRow>> {
        on_either!(self, audit::list(filter))
    }
}

/// What to list of the audit log; an absent condition is always met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuditFilterRow<'a> {
    pub(crate) before_id: Option<i64>,
    pub(crate) since: Option<DbTime>,
    pub(crate) actor: Option<&'a str>,
    pub(crate) action: Option<&'a str>,
    pub(crate) object: Option<&'a str>,
    pub(crate) limit: i64,
}

/// Migrations.
impl Tx {
    pub(crate) async fn migration_lock(&mut self) -> Answer<()> {
        on_either!(self, migration::lock())
    }

    pub(crate) async fn migration_create_table(&mut self) -> Answer<()> {
        on_either!(self, migration::create_table())
    }

    pub(crate) async fn migration_table_exists(&mut self) -> Answer<bool> {
        on_either!(self, migration::table_exists())
    }

    pub(crate) async fn migration_list(&mut self) -> Answer<Vec<MigrationRow>> {
        on_either!(self, migration::list())
    }

    pub(crate) async fn migration_statement(&mut self, statement: &'static str) -> Answer<()> {
        on_either!(self, migration::statement(statement))
    }

    pub(crate) async fn migration_record(&mut self, row: &MigrationRow) -> Answer<()> {
        on_either!(self, migration::record(row))
    }
}

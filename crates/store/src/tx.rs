//! A transaction, and every statement of the product by name. This file is the table of contents of
//! persistence; the texts are in `postgres/` and `sqlite/`, under the same names.

use crate::codec::{DbId, DbTime};
use crate::error::StoreError;
use crate::row::{AlertDeliveryRow, AlertRow, AlertSilenceRow};
use crate::row::{AuditRow, LeaseRow, MigrationRow, ProcessRow};
use crate::row::{IdempotencyRow, SessionRow, TokenRow};
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

/// Tokens and sessions.
impl Tx {
    pub(crate) async fn token_insert(&mut self, row: &TokenRow) -> Answer<()> {
        on_either!(self, token::insert(row))
    }

    pub(crate) async fn token_by_id(&mut self, id: &str) -> Answer<Option<TokenRow>> {
        on_either!(self, token::by_id(id))
    }

    pub(crate) async fn token_list(&mut self, limit: i64) -> Answer<Vec<TokenRow>> {
        on_either!(self, token::list(limit))
    }

    pub(crate) async fn token_touch(&mut self, id: &str, now: DbTime, not_since: DbTime) -> Answer<()> {
        on_either!(self, token::touch(id, now, not_since))
    }

    pub(crate) async fn token_revoke(&mut self, id: &str, now: DbTime) -> Answer<u64> {
        on_either!(self, token::revoke(id, now))
    }

    pub(crate) async fn session_insert(&mut self, row: &SessionRow) -> Answer<()> {
        on_either!(self, session::insert(row))
    }

    pub(crate) async fn session_by_hash(&mut self, hash: &[u8]) -> Answer<Option<SessionRow>> {
        on_either!(self, session::by_hash(hash))
    }

    pub(crate) async fn session_touch(&mut self, hash: &[u8], now: DbTime, not_since: DbTime) -> Answer<()> {
        on_either!(self, session::touch(hash, now, not_since))
    }

    pub(crate) async fn session_delete(&mut self, hash: &[u8]) -> Answer<u64> {
        on_either!(self, session::delete(hash))
    }

    pub(crate) async fn session_delete_of_token(&mut self, token_id: &str) -> Answer<u64> {
        on_either!(self, session::delete_of_token(token_id))
    }

    pub(crate) async fn session_prune(
        &mut self,
        ended_before: DbTime,
        not_seen_since: DbTime,
    ) -> Answer<u64> {
        on_either!(self, session::prune(ended_before, not_seen_since))
    }
}

/// Idempotency keys.
impl Tx {
    pub(crate) async fn idempotency_claim(&mut self, row: &IdempotencyRow) -> Answer<u64> {
        on_either!(self, idempotency::claim(row))
    }

    pub(crate) async fn idempotency_by_key(
        &mut self,
        caller: &str,
        key: &str,
    ) -> Answer<Option<IdempotencyRow>> {
        on_either!(self, idempotency::by_key(caller, key))
    }

    pub(crate) async fn idempotency_save_answer(
        &mut self,
        caller: &str,
        key: &str,
        status: i32,
        body: &str,
    ) -> Answer<()> {
        on_either!(self, idempotency::save_answer(caller, key, status, body))
    }

    pub(crate) async fn idempotency_prune(&mut self, created_before: DbTime) -> Answer<u64> {
        on_either!(self, idempotency::prune(created_before))
    }
}

/// Alerts.
impl Tx {
    pub(crate) async fn alert_lock(&mut self, rule: &str, subject: &str) -> Answer<Option<AlertRow>> {
        on_either!(self, alert::lock(rule, subject))
    }

    pub(crate) async fn alert_save(&mut self, row: &AlertRow) -> Answer<()> {
        on_either!(self, alert::save(row))
    }

    pub(crate) async fn alert_open(&mut self, limit: i64) -> Answer<Vec<AlertRow>> {
        on_either!(self, alert::open(limit))
    }

    pub(crate) async fn alert_list(&mut self, limit: i64) -> Answer<Vec<AlertRow>> {
        on_either!(self, alert::list(limit))
    }

    pub(crate) async fn alert_prune(&mut self, updated_before: DbTime, limit: i64) -> Answer<u64> {
        on_either!(self, alert::prune(updated_before, limit))
    }

    pub(crate) async fn alert_silence_insert(&mut self, row: &AlertSilenceRow) -> Answer<i64> {
        on_either!(self, alert::silence_insert(row))
    }

    pub(crate) async fn alert_silence_end(
        &mut self,
        rule: &str,
        subject: Option<&str>,
        now: DbTime,
    ) -> Answer<u64> {
        on_either!(self, alert::silence_end(rule, subject, now))
    }

    pub(crate) async fn alert_silence_in_force(
        &mut self,
        now: DbTime,
        limit: i64,
    ) -> Answer<Vec<AlertSilenceRow>> {
        on_either!(self, alert::silence_in_force(now, limit))
    }

    pub(crate) async fn alert_silence_covering(
        &mut self,
        rule: &str,
        subject: &str,
        now: DbTime,
    ) -> Answer<Vec<AlertSilenceRow>> {
        on_either!(self, alert::silence_covering(rule, subject, now))
    }

    pub(crate) async fn alert_silence_prune(&mut self, ended_before: DbTime, limit: i64) -> Answer<u64> {
        on_either!(self, alert::silence_prune(ended_before, limit))
    }

    pub(crate) async fn alert_delivery_insert(&mut self, row: &AlertDeliveryRow) -> Answer<()> {
        on_either!(self, alert::delivery_insert(row))
    }

    pub(crate) async fn alert_delivery_due(
        &mut self,
        now: DbTime,
        limit: i64,
    ) -> Answer<Vec<AlertDeliveryRow>> {
        on_either!(self, alert::delivery_due(now, limit))
    }

    pub(crate) async fn alert_delivery_lock(&mut self, id: i64) -> Answer<Option<AlertDeliveryRow>> {
        on_either!(self, alert::delivery_lock(id))
    }

    pub(crate) async fn alert_delivery_save(&mut self, row: &AlertDeliveryRow) -> Answer<()> {
        on_either!(self, alert::delivery_save(row))
    }

    pub(crate) async fn alert_delivery_list(&mut self, limit: i64) -> Answer<Vec<AlertDeliveryRow>> {
        on_either!(self, alert::delivery_list(limit))
    }

    pub(crate) async fn alert_delivery_prune(&mut self, ended_before: DbTime, limit: i64) -> Answer<u64> {
        on_either!(self, alert::delivery_prune(ended_before, limit))
    }

    pub(crate) async fn alert_count_died(&mut self, since: DbTime) -> Answer<i64> {
        on_either!(self, alert::count_died(since))
    }

    pub(crate) async fn alert_count_live(&mut self, now: DbTime) -> Answer<i64> {
        on_either!(self, alert::count_live(now))
    }
}

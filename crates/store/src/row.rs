//! Rows as they are stored, the same for both databases, and their checked conversion into domain values.

use crate::codec::{DbId, DbTime};
use crate::error::StoreError;
use tidemill_domain::audit::{Actor, AuditEntry, AuditRecord};
use tidemill_domain::lease::{Epoch, Fence, Lease, LeaseKey};
use tidemill_domain::process::{Identity, ProcessState};

/// Table, column and row of a value that breaks the rules.
fn damaged(table: &'static str, column: &'static str, row: impl ToString) -> StoreError {
    StoreError::DamagedRow { table, column, row: row.to_string() }
}

#[derive(Clone, Debug, sqlx::FromRow)]
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

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct LeaseRow {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) epoch: i64,
    pub(crate) owner: Option<DbId>,
    pub(crate) until: Option<DbTime>,
    pub(crate) acquired_at: Option<DbTime>,
}

impl LeaseRow {
    pub(crate) fn key(&self) -> Result<LeaseKey, StoreError> {
        LeaseKey::new(&self.kind, &self.name)
            .map_err(|_| damaged("tidemill_lease", "name", format!("{}/{}", self.kind, self.name)))
    }

    pub(crate) fn lease(&self) -> Lease {
        let epoch = Epoch::new(self.epoch);
        match self.owner {
            None => Lease::Free { epoch },
            Some(owner) => {
                Lease::Held { fence: Fence { owner: owner.into(), epoch }, until: self.until.map(Into::into) }
            }
        }
    }
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct AuditRow {
    id: i64,
    at: DbTime,
    actor: String,
    role: String,
    action: String,
    object: String,
    from_state: Option<String>,
    to_state: Option<String>,
    reason: Option<String>,
    request_id: Option<String>,
}

impl TryFrom<AuditRow> for AuditRecord {
    type Error = StoreError;

    fn try_from(row: AuditRow) -> Result<Self, StoreError> {
        let role = row.role.parse().map_err(|_| damaged("tidemill_audit", "role", row.id))?;
        Ok(Self {
            id: row.id,
            at: row.at.into(),
            entry: AuditEntry {
                actor: Actor { name: row.actor, role, request_id: row.request_id },
                action: row.action,
                object: row.object,
                from: row.from_state,
                to: row.to_state,
                reason: row.reason,
            },
        })
    }
}

/// A migration that has been applied.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct MigrationRow {
    pub(crate) version: i64,
    pub(crate) name: String,
    pub(crate) checksum: String,
    pub(crate) breaking: bool,
    pub(crate) applied_at: DbTime,
}

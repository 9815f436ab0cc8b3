//! Rows as they are stored, the same for both databases, and their checked conversion into domain values.

use crate::codec::{DbId, DbTime};
use crate::error::StoreError;
use crate::token::TokenRecord;
use tidemill_domain::alert::delivery::DeliveryState;
use tidemill_domain::alert::{AlertState, Silence, Subject};
use tidemill_domain::audit::{Actor, AuditEntry, AuditRecord};
use tidemill_domain::lease::{Epoch, Fence, Lease, LeaseKey};
use tidemill_domain::process::{Identity, ProcessState};

pub(crate) mod job;
pub(crate) mod outbox;
pub(crate) mod partition;
pub(crate) mod pool;
pub(crate) mod render;
pub(crate) mod schedule;

/// Table, column and row of a value that breaks the rules.
pub(crate) fn damaged(table: &'static str, column: &'static str, row: impl ToString) -> StoreError {
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

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct TokenRow {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) role: String,
    pub(crate) scopes: String,
    pub(crate) secret_hash: Vec<u8>,
    pub(crate) created_at: DbTime,
    pub(crate) created_by: String,
    pub(crate) expires_at: Option<DbTime>,
    pub(crate) last_used_at: Option<DbTime>,
    pub(crate) revoked_at: Option<DbTime>,
}

impl TokenRow {
    pub(crate) fn record(&self) -> Result<TokenRecord, StoreError> {
        Ok(TokenRecord {
            id: self.id.clone(),
            name: self.name.clone(),
            role: self.role.parse().map_err(|_| damaged("tidemill_token", "role", &self.id))?,
            scopes: self.scopes.split(',').filter(|scope| !scope.is_empty()).map(str::to_owned).collect(),
            created_at: self.created_at.into(),
            created_by: self.created_by.clone(),
            expires_at: self.expires_at.map(Into::into),
            last_used_at: self.last_used_at.map(Into::into),
            revoked_at: self.revoked_at.map(Into::into),
        })
    }
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct SessionRow {
    pub(crate) secret_hash: Vec<u8>,
    pub(crate) token_id: String,
    pub(crate) created_at: DbTime,
    pub(crate) seen_at: DbTime,
    pub(crate) ends_at: DbTime,
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct IdempotencyRow {
    pub(crate) caller: String,
    pub(crate) key: String,
    pub(crate) fingerprint: Vec<u8>,
    pub(crate) status: i32,
    pub(crate) body: String,
    pub(crate) created_at: DbTime,
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct AlertRow {
    pub(crate) rule: String,
    pub(crate) subject: String,
    pub(crate) state: String,
    pub(crate) since: Option<DbTime>,
    pub(crate) fired_at: Option<DbTime>,
    pub(crate) resolved_at: Option<DbTime>,
    pub(crate) announced_at: Option<DbTime>,
    pub(crate) value: Option<f64>,
    pub(crate) severity: String,
    pub(crate) updated_at: DbTime,
}

impl AlertRow {
    pub(crate) fn damaged(&self, column: &'static str) -> StoreError {
        damaged("tidemill_alert", column, format!("{}/{}", self.rule, self.subject))
    }

    pub(crate) fn state(&self) -> Result<AlertState, StoreError> {
        match (self.state.as_str(), self.since, self.fired_at, self.resolved_at) {
            ("inactive", None, None, None) => Ok(AlertState::Inactive),
            ("pending", Some(since), None, None) => Ok(AlertState::Pending { since: since.0 }),
            ("firing", Some(since), Some(fired_at), None) => {
                Ok(AlertState::Firing { since: since.0, fired_at: fired_at.0 })
            }
            ("resolved", None, Some(fired_at), Some(at)) => {
                Ok(AlertState::Resolved { fired_at: fired_at.0, at: at.0 })
            }
            _ => Err(self.damaged("state")),
        }
    }

    pub(crate) fn set_state(&mut self, state: AlertState) {
        let (since, fired_at, resolved_at) = match state {
            AlertState::Inactive => (None, None, None),
            AlertState::Pending { since } => (Some(since), None, None),
            AlertState::Firing { since, fired_at } => (Some(since), Some(fired_at), None),
            AlertState::Resolved { fired_at, at } => (None, Some(fired_at), Some(at)),
        };
        state.as_str().clone_into(&mut self.state);
        (self.since, self.fired_at) = (since.map(DbTime), fired_at.map(DbTime));
        self.resolved_at = resolved_at.map(DbTime);
    }
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct AlertSilenceRow {
    pub(crate) id: i64,
    pub(crate) rule: String,
    pub(crate) subject: Option<String>,
    pub(crate) until: DbTime,
    pub(crate) reason: String,
    pub(crate) actor: String,
    pub(crate) created_at: DbTime,
    pub(crate) ended_at: Option<DbTime>,
}

impl TryFrom<AlertSilenceRow> for Silence {
    type Error = StoreError;

    fn try_from(row: AlertSilenceRow) -> Result<Self, StoreError> {
        let subject = row.subject.as_deref().map(Subject::new).transpose();
        Ok(Self {
            id: row.id,
            rule: row.rule,
            subject: subject.map_err(|_| damaged("tidemill_alert_silence", "subject", row.id))?,
            until: row.until.into(),
            reason: row.reason,
            by: row.actor,
            created_at: row.created_at.into(),
            ended_at: row.ended_at.map(Into::into),
        })
    }
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct AlertDeliveryRow {
    pub(crate) id: i64,
    pub(crate) rule: String,
    pub(crate) subject: String,
    pub(crate) notice: String,
    pub(crate) channel: String,
    pub(crate) body: String,
    pub(crate) created_at: DbTime,
    pub(crate) attempt: i64,
    pub(crate) run_after: DbTime,
    pub(crate) delivered_at: Option<DbTime>,
    pub(crate) failed_at: Option<DbTime>,
    pub(crate) last_error: Option<String>,
}

impl AlertDeliveryRow {
    pub(crate) fn damaged(&self, column: &'static str) -> StoreError {
        damaged("tidemill_alert_delivery", column, self.id)
    }

    pub(crate) fn state(&self) -> Result<DeliveryState, StoreError> {
        match (self.delivered_at, self.failed_at) {
            (None, None) => Ok(DeliveryState::Waiting {
                attempt: u32::try_from(self.attempt).map_err(|_| self.damaged("attempt"))?,
                run_after: self.run_after.0,
            }),
            (Some(at), None) => Ok(DeliveryState::Delivered { at: at.0 }),
            (None, Some(at)) => Ok(DeliveryState::Failed { at: at.0 }),
            (Some(_), Some(_)) => Err(self.damaged("failed_at")),
        }
    }

    pub(crate) fn set_state(&mut self, state: DeliveryState) {
        match state {
            DeliveryState::Waiting { attempt, run_after } => {
                (self.attempt, self.run_after) = (attempt.into(), run_after.into());
            }
            DeliveryState::Delivered { at } => self.delivered_at = Some(at.into()),
            DeliveryState::Failed { at } => self.failed_at = Some(at.into()),
        }
    }
}

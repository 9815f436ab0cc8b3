//! The audit log: written in the transaction of the change, never modified.

use crate::error::Result;
use crate::statement::{Columns, Stored};
use crate::tx::{Audit, Tx};
use std::slice;
use tidemill_domain::audit::{Actor, AuditEntry, AuditRecord};
use tidemill_domain::time::Timestamp;

/// Absent conditions match everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AuditFilter {
    /// For paging.
    pub before_id: Option<i64>,
    pub since: Option<Timestamp>,
    pub actor: Option<String>,
    pub action: Option<String>,
    pub object: Option<String>,
}

impl Stored for AuditRecord {
    const PLACE: (&'static str, &'static str) = ("tidemill_audit", "id");

    fn from_columns(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        let (name, request_id) = (row.get("actor")?, row.get("request_id")?);
        Ok(Self {
            id: row.get("id")?,
            at: row.get("at")?,
            entry: AuditEntry {
                actor: Actor { name, role: row.get("role")?, request_id },
                action: row.get("action")?,
                object: row.get("object")?,
                from: row.get("from_state")?,
                to: row.get("to_state")?,
                reason: row.get("reason")?,
            },
        })
    }
}

impl Tx {
    pub(crate) async fn audit_insert(
        &mut self,
        entry: &AuditEntry,
        now: Timestamp,
    ) -> Result<(), sqlx::Error> {
        self.audit_insert_all(slice::from_ref(entry), now).await
    }
}

impl Audit<'_> {
    pub async fn record(&mut self, entry: &AuditEntry) -> Result<()> {
        let now = self.now().await?;
        Ok(self.audit_insert(entry, now).await?)
    }

    /// Newest first.
    pub async fn entries(&mut self, filter: &AuditFilter, limit: u32) -> Result<Vec<AuditRecord>> {
        Ok(match &filter.object {
            Some(object) => self.audit_list_of(object, filter, limit).await?,
            None => self.audit_list_all(filter, limit).await?,
        })
    }
}

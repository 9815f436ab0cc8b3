//! The audit log: written in the transaction of the change it tells of, never changed.

use crate::error::StoreError;
use crate::tx::{Audit, AuditFilterRow};
use tidemill_domain::audit::{AuditEntry, AuditRecord};
use tidemill_domain::time::Timestamp;

/// What to list of the audit log; an absent condition is always met.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AuditFilter {
    /// Only entries before this one, for paging.
    pub before_id: Option<i64>,
    /// Only entries from this instant on.
    pub since: Option<Timestamp>,
    /// Only what this actor did.
    pub actor: Option<String>,
    /// Only this action.
    pub action: Option<String>,
    /// Only what was done to this object.
    pub object: Option<String>,
}

impl Audit<'_> {
    /// Writes down what this transaction does.
    pub async fn record(&mut self, entry: &AuditEntry) -> Result<(), StoreError> {
        let now = self.now().await?;
        Ok(self.audit_insert(entry, now.into()).await?)
    }

    /// At most `limit` entries, the newest first.
    pub async fn entries(
        &mut self,
        filter: &AuditFilter,
        limit: u32,
    ) -> Result<Vec<AuditRecord>, StoreError> {
        let wanted = AuditFilterRow {
            before_id: filter.before_id,
            since: filter.since.map(Into::into),
            actor: filter.actor.as_deref(),
            action: filter.action.as_deref(),
            limit: limit.into(),
        };
        let rows = match &filter.object {
            Some(object) => self.audit_list_of(object, &wanted).await?,
            None => self.audit_list_all(&wanted).await?,
        };
        rows.into_iter().map(TryInto::try_into).collect()
    }
}

//! The audit log: written in the transaction of the change, never modified.

use crate::error::Result;
use crate::statement::{Stored, rows, statements, stored};
use crate::tx::{Audit, Tx};
use serde_json::json;
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

const AUDIT: (&str, &str) = ("tidemill_audit", "id");

stored! {
    impl AuditRecord in AUDIT |row| { id, at, entry => Stored::from_columns(row)? }

    impl AuditEntry in AUDIT |row| {
        actor => Stored::from_columns(row)?, action, object, from = "from_state", to = "to_state", reason,
    }

    impl Actor in AUDIT { name = "actor", role, request_id }
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

statements! {
    /// In order.
    fn audit_insert_all(entries: &[AuditEntry], now: Timestamp) -> () {
        bind(
            now,
            rows(entries, |AuditEntry { actor, action, object, from, to, reason }| json!({
                "actor": actor.name, "role": actor.role.as_str(), "action": action, "object": object,
                "from_state": from, "to_state": to, "reason": reason, "request_id": actor.request_id,
            })),
        )
        "insert into tidemill_audit
             (at, actor, role, action, object, from_state, to_state, reason, request_id)
         select $1, actor, role, action, object, from_state, to_state, reason, request_id
         from {rows new $2: actor text, role text, action text, object text,
              from_state text, to_state text, reason text, request_id text}"
    }

    /// Newest first; pages by the smallest id of the previous page.
    fn audit_list_all(filter: &AuditFilter, limit: u32) -> Vec<AuditRecord> {
        bind(filter.before_id, filter.since, &filter.actor, &filter.action, limit)
        "select id, at, actor, role, action, object, from_state, to_state, reason, request_id
         from tidemill_audit
         where id < coalesce($1{::bigint}, 9223372036854775807)
           and ($2{::timestamptz} is null or at >= $2)
           and ($3{::text} is null or actor = $3)
           and ($4{::text} is null or action = $4)
         order by id desc limit $5"
    }

    /// The same for one object, by its index.
    fn audit_list_of(object: &str, filter: &AuditFilter, limit: u32) -> Vec<AuditRecord> {
        bind(filter.before_id, filter.since, &filter.actor, &filter.action, object, limit)
        "select id, at, actor, role, action, object, from_state, to_state, reason, request_id
         from tidemill_audit
         where object = $5
           and id < coalesce($1{::bigint}, 9223372036854775807)
           and ($2{::timestamptz} is null or at >= $2)
           and ($3{::text} is null or actor = $3)
           and ($4{::text} is null or action = $4)
         order by id desc limit $6"
    }
}

//! The audit log.

use crate::shapes;
use tidemill_domain::audit::AuditRecord;
use tidemill_domain::time::Timestamp;

shapes! {
    /// An entry of the audit log.
    pub struct AuditEntry from record: &AuditRecord {
        /// Later entries have higher numbers.
        id: i64 = record.id,
        at: Timestamp = record.at,
        /// The user or token that acted.
        actor: String = record.entry.actor.name.clone(),
        /// The role of the actor.
        role: &'static str = record.entry.actor.role.as_str(),
        /// Such as `pool.pause`.
        action: String = record.entry.action.clone(),
        /// Such as `pool/etl`.
        object: String = record.entry.object.clone(),
        /// State of the object before.
        from: Option<String> = record.entry.from.clone(),
        /// State of the object after.
        to: Option<String> = record.entry.to.clone(),
        reason: Option<String> = record.entry.reason.clone(),
        request_id: Option<String> = record.entry.actor.request_id.clone(),
    }

    /// Which entries to list.
    pub struct ListAudit in query {
        /// Maximum number of entries, from 1 to 500. Default 50.
        limit: Option<u32>,
        /// Only entries before this id: `next` of the previous page.
        before: Option<i64>,
        /// Only entries from this time on.
        since: Option<String>,
        /// Only entries of this actor.
        actor: Option<String>,
        /// Only this action.
        action: Option<String>,
        /// Only entries about this object.
        object: Option<String>,
    }
}

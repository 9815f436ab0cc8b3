//! Statements on `tidemill_audit`.

use crate::audit::AuditFilter;
use crate::statement::{rows, statements};
use serde_json::json;
use tidemill_domain::audit::{AuditEntry, AuditRecord};
use tidemill_domain::time::Timestamp;

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

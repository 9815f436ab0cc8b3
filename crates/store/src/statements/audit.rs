//! Statements on `tidemill_audit`.

use crate::audit::AuditFilter;
use crate::statement::{column, statements};
use tidemill_domain::audit::{AuditEntry, AuditRecord};
use tidemill_domain::time::Timestamp;

statements! {
    fn audit_insert(entry: &AuditEntry, now: Timestamp) -> () {
        bind(
            now, &entry.actor.name, entry.actor.role.as_str(), &entry.action, &entry.object, &entry.from,
            &entry.to, &entry.reason, &entry.actor.request_id,
        )
        "insert into tidemill_audit
             (at, actor, role, action, object, from_state, to_state, reason, request_id)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
    }

    /// In order.
    fn audit_insert_all(entries: &[AuditEntry], now: Timestamp) -> () {
        postgres {
            bind(
                now, column(entries, |entry| entry.actor.name.as_str()),
                column(entries, |entry| entry.actor.role.as_str()),
                column(entries, |entry| entry.action.as_str()),
                column(entries, |entry| entry.object.as_str()),
                column(entries, |entry| entry.from.as_deref()),
                column(entries, |entry| entry.to.as_deref()),
                column(entries, |entry| entry.reason.as_deref()),
                column(entries, |entry| entry.actor.request_id.as_deref()),
            )
            "insert into tidemill_audit
                 (at, actor, role, action, object, from_state, to_state, reason, request_id)
             select $1, new.actor, new.role, new.action, new.object, new.from_state, new.to_state, new.reason,
                    new.request_id
             from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])
                 with ordinality
                 as new (actor, role, action, object, from_state, to_state, reason, request_id, place)
             order by new.place"
        }
        sqlite {
            for entry in entries
            bind(
                now, &entry.actor.name, entry.actor.role.as_str(), &entry.action, &entry.object, &entry.from,
                &entry.to, &entry.reason, &entry.actor.request_id,
            )
            "insert into tidemill_audit
                 (at, actor, role, action, object, from_state, to_state, reason, request_id)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
        }
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

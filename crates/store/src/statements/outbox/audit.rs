//! Statements for the audit of the outbox.

use crate::codec::DbText;
use crate::outbox::{AuditedEvent, AuditedFailedEvent};
use crate::statement::{One, list, statements};
use tidemill_domain::outbox::Snapshot;

statements! {
    fn outbox_audit_failed_events() -> Vec<AuditedFailedEvent> {
        "select event_id, slot, seq, state from tidemill_outbox_exception"
    }

    /// What had committed when this transaction began to read.
    fn outbox_audit_snapshot() -> One<String> {
        postgres {
            "select pg_current_snapshot()::text"
        }
        sqlite |connection| {
            let last: Option<i64> =
                sqlx::query_scalar("select max(id) from outbox_event").fetch_one(connection).await?;
            Ok(Snapshot::up_to(last.unwrap_or(0)).to_string())
        }
    }

    fn outbox_audit_lowest() -> One<Option<i64>> {
        "select min(id) from outbox_event"
    }

    /// In the order of the index on transactions, so that later ones can be read alone.
    fn outbox_audit_events(after: (i64, i64), limit: u32) -> Vec<AuditedEvent> {
        postgres {
            bind(after.0, after.1, limit)
            "select id, xid::text::bigint as xid, slot, null::text as aggregate_id from outbox_event
             where (xid, id) > ($1::bigint::text::xid8, $2)
             order by outbox_event.xid, id limit $3"
        }
        sqlite {
            // By id, which is the order of transactions.
            bind(after.0, limit)
            "select id, id as xid, slot, case when slot is null then aggregate_id end as aggregate_id
             from outbox_event where id > $1 order by id limit $2"
        }
    }

    fn outbox_audit_names(ids: &[i64]) -> Vec<(i64, DbText, DbText)> {
        bind(list(ids))
        "select id, aggregate_type, aggregate_id from outbox_event where id {in $1}"
    }

    /// Each event type with each topic of its events, redirections included. Reads the whole table.
    pub fn Outbox::topics() -> Vec<(String, String, bool)> {
        "select event_type, topic, false from outbox_event
         union
         select e.event_type, e.topic, true from tidemill_outbox_exception e where e.topic is not null
         order by 1, 2, 3"
    }
}

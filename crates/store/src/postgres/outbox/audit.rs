//! Statements for the audit of the outbox.

use crate::row::outbox::audit::{AuditEventRow, AuditExceptionRow, AuditNameRow};
use sqlx::PgConnection;

pub(crate) async fn exceptions(connection: &mut PgConnection) -> Result<Vec<AuditExceptionRow>, sqlx::Error> {
    sqlx::query_as("select event_id, slot, seq, state from tidemill_outbox_exception")
        .fetch_all(connection)
        .await
}

/// What had committed when this transaction began to look.
pub(crate) async fn mark(connection: &mut PgConnection) -> Result<String, sqlx::Error> {
    sqlx::query_scalar("select pg_current_snapshot()::text").fetch_one(connection).await
}

pub(crate) async fn lowest(connection: &mut PgConnection) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar("select min(id) from outbox_event").fetch_one(connection).await
}

/// In the order of the index on transactions, so that later ones can be read alone.
pub(crate) async fn events(
    connection: &mut PgConnection,
    after: (i64, i64),
    limit: i64,
) -> Result<Vec<AuditEventRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, xid::text::bigint as xid, slot, null::text as aggregate_id
         from outbox_event
         where (xid, id) > ($1::bigint::text::xid8, $2)
         order by outbox_event.xid, id
         limit $3",
    )
    .bind(after.0)
    .bind(after.1)
    .bind(limit)
    .fetch_all(connection)
    .await
}

pub(crate) async fn names(
    connection: &mut PgConnection,
    ids: &[i64],
) -> Result<Vec<AuditNameRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, aggregate_type, aggregate_id
         from outbox_event
         where id = any($1)",
    )
    .bind(ids)
    .fetch_all(connection)
    .await
}

/// Each type of events with each topic that its events name. With those that exceptions were redirected to. Reads the whole table.
pub(crate) async fn topics(
    connection: &mut PgConnection,
) -> Result<Vec<(String, String, bool)>, sqlx::Error> {
    sqlx::query_as(
        "select event_type, topic, false
         from outbox_event
         union
         select e.event_type, e.topic, true
         from tidemill_outbox_exception e
         where e.topic is not null
         order by 1, 2, 3",
    )
    .fetch_all(connection)
    .await
}

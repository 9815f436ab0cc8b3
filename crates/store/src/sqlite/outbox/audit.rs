//! Statements for the audit of the outbox. An event counts as its own transaction.

use crate::row::outbox::audit::{AuditEventRow, AuditExceptionRow, AuditNameRow};
use crate::row::pool::listed;
use sqlx::SqliteConnection;
use tidemill_domain::outbox::Mark;

pub(crate) async fn exceptions(
    connection: &mut SqliteConnection,
) -> Result<Vec<AuditExceptionRow>, sqlx::Error> {
    sqlx::query_as("select event_id, slot, seq, state from tidemill_outbox_exception")
        .fetch_all(connection)
        .await
}

/// What had committed when this transaction began to look.
pub(crate) async fn mark(connection: &mut SqliteConnection) -> Result<String, sqlx::Error> {
    let last: Option<i64> =
        sqlx::query_scalar("select max(id) from outbox_event").fetch_one(connection).await?;
    Ok(Mark::up_to(last.unwrap_or(0)).to_string())
}

pub(crate) async fn lowest(connection: &mut SqliteConnection) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar("select min(id) from outbox_event").fetch_one(connection).await
}

/// In the order of ids, which is that of transactions.
pub(crate) async fn events(
    connection: &mut SqliteConnection,
    after: (i64, i64),
    limit: i64,
) -> Result<Vec<AuditEventRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, id as xid, slot, case when slot is null then aggregate_id end as aggregate_id
         from outbox_event
         where id > $1
         order by id
         limit $2",
    )
    .bind(after.0)
    .bind(limit)
    .fetch_all(connection)
    .await
}

pub(crate) async fn names(
    connection: &mut SqliteConnection,
    ids: &[i64],
) -> Result<Vec<AuditNameRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, aggregate_type, aggregate_id
         from outbox_event
         where id in (select value from json_each($1))",
    )
    .bind(listed(&ids)?)
    .fetch_all(connection)
    .await
}

/// Each type of events with each topic that its events name. With those that exceptions were redirected to. Reads the whole table.
pub(crate) async fn topics(
    connection: &mut SqliteConnection,
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

//! Statements on `outbox_event`.

use crate::codec::DbTime;
use crate::row::outbox::event::{EventRecordRow, EventRow, WhereRow, headers_column, payload_columns};
use crate::tx::EventFilterRow;
use sqlx::PgConnection;
use tidemill_domain::outbox::NewEvent;

/// Their ids, which are drawn in the order of the events. The slot is computed by the table.
pub(crate) async fn insert(
    connection: &mut PgConnection,
    events: &[NewEvent],
    now: Option<DbTime>,
) -> Result<Vec<i64>, sqlx::Error> {
    let texts = |column: fn(&NewEvent) -> &str| events.iter().map(column).collect::<Vec<_>>();
    let (payloads, bytes): (Vec<_>, Vec<_>) =
        events.iter().map(|event| payload_columns(event.payload())).unzip();
    sqlx::query_scalar(
        "insert into outbox_event
             (aggregate_type, aggregate_id, event_type, topic, payload, payload_bytes, headers, created_at)
         select aggregate_type, aggregate_id, event_type, topic, payload, payload_bytes, headers, coalesce($8, now())
         from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::text[])
             as event (aggregate_type, aggregate_id, event_type, topic, payload, payload_bytes, headers)
         returning id",
    )
    .bind(texts(|event| &event.aggregate().kind))
    .bind(texts(|event| &event.aggregate().id))
    .bind(texts(NewEvent::event_type))
    .bind(texts(NewEvent::topic))
    .bind(payloads)
    .bind(bytes)
    .bind(events.iter().map(headers_column).collect::<Vec<_>>())
    .bind(now)
    .fetch_all(connection)
    .await
}

pub(crate) async fn find(connection: &mut PgConnection, id: i64) -> Result<Option<EventRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, xid, slot, aggregate_type, aggregate_id, event_type, topic, payload, payload_bytes,
                headers, created_at
         from outbox_event
         where id = $1",
    )
    .bind(id)
    .fetch_optional(connection)
    .await
}

/// Those of these events that are there, each with its transaction and its slot. By the primary key.
pub(crate) async fn places(connection: &mut PgConnection, ids: &[i64]) -> Result<Vec<WhereRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, xid, slot
         from outbox_event
         where id = any($1)",
    )
    .bind(ids)
    .fetch_all(connection)
    .await
}

/// The newest first, by the primary key. No other column is indexed, because that would cost whoever writes: a filter
/// that meets few events reads all that are kept.
pub(crate) async fn list(
    connection: &mut PgConnection,
    filter: &EventFilterRow<'_>,
) -> Result<Vec<EventRecordRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, slot, aggregate_type, aggregate_id, event_type, topic,
                coalesce(octet_length(payload), octet_length(payload_bytes))::bigint as bytes, created_at
         from outbox_event
         where ($1::bigint is null or id < $1)
           and ($2::text is null or aggregate_type = $2)
           and ($3::text is null or aggregate_id = $3)
           and ($4::text is null or topic = $4)
           and ($5::text is null or event_type = $5)
         order by id desc
         limit $6",
    )
    .bind(filter.before)
    .bind(filter.aggregate_type)
    .bind(filter.aggregate_id)
    .bind(filter.topic)
    .bind(filter.event_type)
    .bind(filter.limit)
    .fetch_all(connection)
    .await
}

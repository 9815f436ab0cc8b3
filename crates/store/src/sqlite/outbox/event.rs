//! Statements on `outbox_event`.

use crate::codec::DbTime;
use crate::row::outbox::event::{EventRecordRow, EventRow, WhereRow, headers_column, payload_columns};
use crate::tx::EventFilterRow;
use serde_json::json;
use sqlx::SqliteConnection;
use std::fmt::Write as _;
use tidemill_domain::outbox::NewEvent;

/// Their ids, which are drawn in the order of the events. Bytes travel as hexadecimal digits, because JSON has none.
pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    events: &[NewEvent],
    now: Option<DbTime>,
) -> Result<Vec<i64>, sqlx::Error> {
    let rows: Vec<_> = events
        .iter()
        .map(|event| {
            let (payload, bytes) = payload_columns(event.payload());
            let aggregate = event.aggregate();
            json!([
                event.slot().get(),
                aggregate.kind,
                aggregate.id,
                event.event_type(),
                event.topic(),
                payload,
                bytes.map(digits),
                headers_column(event),
            ])
        })
        .collect();
    sqlx::query_scalar(
        "insert into outbox_event
             (slot, aggregate_type, aggregate_id, event_type, topic, payload, payload_bytes, headers, created_at)
         select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, unhex(value ->> 6),
                value ->> 7, coalesce($2, cast((julianday('now') - 2440587.5) * 86400000000 as integer))
         from json_each($1)
         order by key
         returning id",
    )
    .bind(json!(rows).to_string())
    .bind(now)
    .fetch_all(connection)
    .await
}

fn digits(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _infallible = write!(digits, "{byte:02x}");
    }
    digits
}

pub(crate) async fn find(
    connection: &mut SqliteConnection,
    id: i64,
) -> Result<Option<EventRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, id as xid, slot, aggregate_type, aggregate_id, event_type, topic, payload,
                payload_bytes, headers, created_at
         from outbox_event
         where id = $1",
    )
    .bind(id)
    .fetch_optional(connection)
    .await
}

/// Those of these events that are there, each with what stands for its transaction and with its slot. By the primary key.
pub(crate) async fn places(
    connection: &mut SqliteConnection,
    ids: &[i64],
) -> Result<Vec<WhereRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, id as xid, slot
         from outbox_event
         where id in (select value from json_each($1))",
    )
    .bind(json!(ids).to_string())
    .fetch_all(connection)
    .await
}

/// The newest first, by the primary key. No other column is indexed, because that would cost whoever writes: a filter
/// that meets few events reads all that are kept.
pub(crate) async fn list(
    connection: &mut SqliteConnection,
    filter: &EventFilterRow<'_>,
) -> Result<Vec<EventRecordRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, slot, aggregate_type, aggregate_id, event_type, topic,
                coalesce(octet_length(payload), octet_length(payload_bytes)) as bytes, created_at
         from outbox_event
         where ($1 is null or id < $1)
           and ($2 is null or aggregate_type = $2)
           and ($3 is null or aggregate_id = $3)
           and ($4 is null or topic = $4)
           and ($5 is null or event_type = $5)
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

//! Statements on `outbox_event`.

use crate::codec::{DbTime, DbXid};
use crate::outbox::event::EventRow;
use crate::outbox::{EventFilter, EventRecord};
use crate::statement::{list, statements};
use serde_json::json;
use sqlx::PgConnection;
use std::fmt::Write as _;
use tidemill_domain::outbox::event::Headers;
use tidemill_domain::outbox::{EventId, NewEvent, Payload};
use tidemill_domain::time::Timestamp;

fn digits(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _infallible = write!(digits, "{byte:02x}");
    }
    digits
}

pub(super) fn payload_columns(payload: &Payload) -> (Option<&str>, Option<&[u8]>) {
    match payload {
        Payload::Json(text) => (Some(text), None),
        Payload::Bytes(bytes) => (None, Some(bytes)),
        Payload::Tombstone => (None, None),
    }
}

/// Null if there are none.
pub(super) fn headers_column(headers: &Headers) -> Option<String> {
    (!headers.is_empty()).then(|| json!(headers).to_string())
}

/// `outbox_event_insert` on any connection.
pub(crate) async fn insert_on(
    connection: &mut PgConnection,
    events: &[NewEvent],
    now: Option<Timestamp>,
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
    .bind(events.iter().map(|event| headers_column(event.headers())).collect::<Vec<_>>())
    .bind(now.map(DbTime))
    .fetch_all(connection)
    .await
}

statements! {
    /// Returns ids, drawn in the order of the events. The table computes the slot.
    fn outbox_event_insert(events: &[NewEvent], now: Option<Timestamp>) -> Vec<i64> {
        postgres |connection| {
            insert_on(connection, events, now).await
        }
        sqlite |connection| {
            // Ids are drawn in the order of the events. Bytes are sent as hexadecimal digits, because JSON has no
            // bytes.
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
                        headers_column(event.headers()),
                    ])
                })
                .collect();
            sqlx::query_scalar(
                "insert into outbox_event
                     (slot, aggregate_type, aggregate_id, event_type, topic, payload, payload_bytes, headers, created_at)
                 select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, unhex(value ->> 6),
                        value ->> 7, coalesce($2, cast((julianday('now') - 2440587.5) * 86400000000 as integer))
                 from json_each($1) order by key returning id",
            )
            .bind(json!(rows).to_string())
            .bind(now.map(DbTime))
            .fetch_all(connection)
            .await
        }
    }

    fn outbox_event_find(id: EventId) -> Option<EventRow> {
        "select id, {xid} as xid, slot, aggregate_type, aggregate_id, event_type, topic, payload, payload_bytes,
                headers, created_at
         from outbox_event where id = $1"
    }

    /// Those of these events that exist, each with its transaction and slot. By the primary key.
    fn outbox_event_places(ids: &[i64]) -> Vec<(i64, DbXid, Option<i16>)> {
        bind(list(ids))
        "select id, {xid}, slot from outbox_event where id {in $1}"
    }

    /// Newest first, without payload and headers. By the primary key: no other column is indexed, because that would slow down writers: a filter
    /// that matches few events reads all that are kept.
    pub fn Outbox::events(filter: &EventFilter, limit: u32) -> Vec<EventRecord> {
        bind(
            filter.before, &filter.aggregate_type, &filter.aggregate_id, &filter.topic,
            &filter.event_type, limit,
        )
        "select id, slot, aggregate_type, aggregate_id, event_type, topic,
                coalesce(octet_length(payload), octet_length(payload_bytes)){::bigint} as bytes, created_at
         from outbox_event
         where ($1{::bigint} is null or id < $1)
           and ($2{::text} is null or aggregate_type = $2)
           and ($3{::text} is null or aggregate_id = $3)
           and ($4{::text} is null or topic = $4)
           and ($5{::text} is null or event_type = $5)
         order by id desc limit $6"
    }
}

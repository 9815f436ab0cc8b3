//! Writes events in the transaction of the change they describe, and lists them.

use super::{EVENTS, slot_of};
use crate::codec::{DbText, DbTime, DbXid, hex};
use crate::error::{Result, StoreError, damaged};
use crate::statement::{Columns, statements, stored};
use crate::trace;
use crate::tx::{Outbox, Tx};
use serde_json::json;
use sqlx::error::BoxDynError;
use sqlx::postgres::PgArguments;
use sqlx::{Arguments, AssertSqlSafe, PgConnection};
use std::slice;
use std::sync::{Arc, LazyLock};
use tidemill_domain::outbox::event::Headers;
use tidemill_domain::outbox::{
    Aggregate, BadEvent, EventId, NewEvent, Payload, Slot, StoredEvent, StoredHeaders,
};
use tidemill_domain::time::Timestamp;

/// Per statement.
const EVENTS_MAX: usize = 10_000;

/// Bytes of payloads per statement, unless one event has more: here and in the server it is built in memory.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// Absent conditions match everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventFilter {
    /// For paging.
    pub before: Option<EventId>,
    pub aggregate_type: Option<String>,
    pub aggregate_id: Option<String>,
    pub topic: Option<String>,
    pub event_type: Option<String>,
}

stored! {
    /// Without payload and headers.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct EventRecord in ("outbox_event", "id") |row| {
        pub id: EventId,
        pub slot: Slot => match row.get("slot")? {
            Some(slot) => slot,
            None => aggregate(row)?.slot(),
        },
        pub aggregate: Aggregate => aggregate(row)?,
        pub event_type: String => row.get::<DbText>("event_type")?.text,
        pub topic: String => row.get::<DbText>("topic")?.text,
        /// Size of the payload; `None` for a tombstone.
        pub bytes: Option<usize> => row.get::<Option<i64>>("bytes")?.and_then(|bytes| bytes.try_into().ok()),
        pub created_at: Timestamp,
    }
}

fn aggregate(row: &Columns<'_>) -> Result<Aggregate, sqlx::Error> {
    let (kind, id): (DbText, DbText) = (row.get("aggregate_type")?, row.get("aggregate_id")?);
    Ok(Aggregate { kind: kind.text, id: id.text })
}

impl From<&StoredEvent> for EventRecord {
    fn from(event: &StoredEvent) -> Self {
        Self {
            id: event.id,
            slot: event.slot,
            aggregate: event.aggregate.clone(),
            event_type: event.event_type.clone(),
            topic: event.topic.clone(),
            bytes: (event.payload != Payload::Tombstone).then(|| event.payload.len()),
            created_at: event.created_at,
        }
    }
}

/// Writes an event in your own `sqlx` transaction, on the PostgreSQL database that Tidemill uses. It commits or rolls
/// back with that transaction. No wake-up is sent, so relays find the event within a second.
pub async fn publish_on(connection: &mut PgConnection, event: &NewEvent) -> Result<EventId> {
    one(insert_on(connection, slice::from_ref(event), None).await?)
}

impl Tx {
    /// Writes an event, which is published once this transaction commits. Lock or change the row of its aggregate
    /// first: then the events of one aggregate are numbered in the order in which things happened.
    pub async fn publish(&mut self, event: &NewEvent) -> Result<EventId> {
        one(self.outbox_insert(slice::from_ref(event)).await?)
    }

    /// [`publish`](Self::publish) for many, in few statements. Returns ascending ids, in the same order.
    #[crate::boxed]
    pub async fn publish_all(&mut self, events: &[NewEvent]) -> Result<Vec<EventId>> {
        let mut ids = Vec::with_capacity(events.len());
        for some in portions(events) {
            let mut numbers = self.outbox_insert(some).await?;
            // Numbers are drawn in row order, but may be returned in any order.
            numbers.sort_unstable();
            ids.extend(numbers.into_iter().map(EventId::new));
        }
        Ok(ids)
    }

    async fn outbox_insert(&mut self, events: &[NewEvent]) -> Result<Vec<i64>> {
        let now = self.fake_now();
        let ids = self.outbox_event_insert(events, now).await?;
        self.wake(EVENTS);
        Ok(ids)
    }
}

impl Outbox<'_> {
    /// `None` if it does not exist (any more).
    pub async fn event(&mut self, id: EventId) -> Result<Option<StoredEvent>> {
        self.outbox_event_find(id).await?.map(TryInto::try_into).transpose()
    }
}

crate::statement::row! {
    pub(crate) struct EventRow {
        id: i64,
        xid: DbXid,
        /// `None` on SQLite if another program wrote the event and no relay has filled it in yet.
        slot: Option<i16>,
        aggregate_type: DbText,
        aggregate_id: DbText,
        event_type: DbText,
        topic: DbText,
        payload: Option<DbText>,
        payload_bytes: Option<Vec<u8>>,
        headers: Option<DbText>,
        created_at: DbTime,
    }
}

impl EventRow {
    /// Size of payload and headers.
    pub(crate) fn bytes(&self) -> usize {
        let text = |text: &Option<DbText>| text.as_ref().map_or(0, |text| text.text.len());
        text(&self.payload) + self.payload_bytes.as_ref().map_or(0, Vec::len) + text(&self.headers)
    }
}

impl TryFrom<EventRow> for StoredEvent {
    type Error = StoreError;

    fn try_from(row: EventRow) -> Result<Self> {
        let texts = [
            ("aggregate type", Some(&row.aggregate_type)),
            ("aggregate id", Some(&row.aggregate_id)),
            ("event type", Some(&row.event_type)),
            ("topic", Some(&row.topic)),
            ("payload", row.payload.as_ref()),
        ];
        let garbled = texts.iter().find(|(_, text)| text.is_some_and(|text| text.is_garbled));
        let garbled = garbled.map(|(what, _)| BadEvent::NotUtf8 { what });
        let aggregate = Aggregate { kind: row.aggregate_type.text, id: row.aggregate_id.text };
        Ok(Self {
            id: EventId::new(row.id),
            xid: row.xid.0,
            slot: match row.slot {
                Some(slot) => slot_of(slot).ok_or_else(|| damaged("outbox_event", "slot", row.id))?,
                None => aggregate.slot(),
            },
            aggregate,
            event_type: row.event_type.text,
            topic: row.topic.text,
            payload: match (row.payload, row.payload_bytes) {
                (Some(text), _) => Payload::Json(text.text),
                (None, Some(bytes)) => Payload::Bytes(bytes),
                (None, None) => Payload::Tombstone,
            },
            headers: match row.headers {
                Some(headers) if headers.is_garbled => StoredHeaders::garbled(headers.text),
                headers => StoredHeaders::of(headers.map(|headers| headers.text)),
            },
            created_at: row.created_at.into(),
            garbled,
        })
    }
}

fn one(ids: Vec<i64>) -> Result<EventId> {
    let id = ids.first().copied().ok_or(sqlx::Error::RowNotFound)?;
    Ok(EventId::new(id))
}

/// In order, in as few portions as statements allow.
fn portions(events: &[NewEvent]) -> impl Iterator<Item = &[NewEvent]> {
    let mut rest = events;
    std::iter::from_fn(move || {
        let mut bytes = 0_usize;
        let fits = rest.iter().take(EVENTS_MAX).take_while(|event| {
            bytes += event.payload().len();
            bytes <= BYTES_MAX
        });
        let count = fits.count().max(1).min(rest.len());
        let (some, others) = rest.split_at(count);
        rest = others;
        (!some.is_empty()).then_some(some)
    })
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
async fn insert_on(
    connection: &mut PgConnection,
    events: &[NewEvent],
    now: Option<Timestamp>,
) -> Result<Vec<i64>, sqlx::Error> {
    let mut arguments = PgArguments::default();
    bind_events(&mut arguments, events)
        .and_then(|()| arguments.add(now.map(DbTime)))
        .map_err(sqlx::Error::Encode)?;
    sqlx::query_scalar_with(AssertSqlSafe(INSERT.clone()), arguments).fetch_all(connection).await
}

static INSERT: LazyLock<Arc<str>> =
    LazyLock::new(|| Arc::from(format!("{} returning id", insert_of_arrays(1, "$8"))));

/// The statement that writes what [`bind_events`] binds, from this place on.
pub(crate) fn insert_of_arrays(first: usize, now: &str) -> String {
    let [a, b, c, d, e, f, g] = std::array::from_fn(|place| first + place);
    format!(
        "insert into outbox_event
             (aggregate_type, aggregate_id, event_type, topic, payload, payload_bytes, headers, created_at)
         select aggregate_type, aggregate_id, event_type, topic, payload, payload_bytes, headers, coalesce({now}, now())
         from unnest(${a}::text[], ${b}::text[], ${c}::text[], ${d}::text[], ${e}::text[], ${f}::bytea[], ${g}::text[])
             as event (aggregate_type, aggregate_id, event_type, topic, payload, payload_bytes, headers)"
    )
}

/// Seven arrays, a column each.
pub(crate) fn bind_events(arguments: &mut PgArguments, events: &[NewEvent]) -> Result<(), BoxDynError> {
    let texts = |column: fn(&NewEvent) -> &str| events.iter().map(column).collect::<Vec<_>>();
    let (payloads, bytes): (Vec<_>, Vec<_>) =
        events.iter().map(|event| payload_columns(event.payload())).unzip();
    arguments.add(texts(|event| &event.aggregate().kind))?;
    arguments.add(texts(|event| &event.aggregate().id))?;
    arguments.add(texts(NewEvent::event_type))?;
    arguments.add(texts(NewEvent::topic))?;
    arguments.add(payloads)?;
    arguments.add(bytes)?;
    let trace = trace::current();
    arguments.add(events.iter().map(|event| headers_column(&event.headers_in(trace))).collect::<Vec<_>>())
}

statements! {
    /// Returns ids, drawn in the order of the events. The table computes the slot.
    fn outbox_event_insert(events: &[NewEvent], now: Option<Timestamp>) -> Vec<i64> {
        postgres |connection| {
            insert_on(connection, events, now).await
        }
        sqlite |connection| {
            let trace = trace::current();
            // Ids are drawn in order. JSON has no bytes, so they are sent as hexadecimal digits.
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
                        bytes.map(hex),
                        headers_column(&event.headers_in(trace)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(bytes: usize) -> NewEvent {
        NewEvent::new("order", "1", "order.paid", "orders", Payload::Bytes(vec![0; bytes])).unwrap()
    }

    #[test]
    fn few_small_events_are_one_statement_and_none_are_none() {
        assert_eq!(portions(&vec![event(1); 1000]).count(), 1);
        assert_eq!(portions(&[]).count(), 0);
        assert_eq!(portions(&vec![event(0); EVENTS_MAX + 1]).count(), 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn portions_are_all_events_in_order_and_none_is_too_large(
            sizes in prop::collection::vec(1..=1024 * 1024_usize, 0..60),
        ) {
            let events: Vec<NewEvent> = sizes.iter().map(|size| event(*size)).collect();
            for some in portions(&events) {
                let bytes: usize = some.iter().map(|event| event.payload().len()).sum();
                prop_assert!(!some.is_empty() && (bytes <= BYTES_MAX || some.len() == 1));
            }
            prop_assert_eq!(portions(&events).flatten().cloned().collect::<Vec<_>>(), events);
        }
    }
}

//! Statements that read `outbox_event`.
//!
//! Most events were published long ago and are only kept, so every statement has to use an index, whatever the planner
//! knows about the table and the values. Therefore the events of one transaction are selected as a range with an order
//! and a limit: with an equality, or without an order, the planner may scan the whole table and hope to find them soon.

use crate::codec::DbText;
use crate::outbox::event::EventRow;
use crate::outbox::reading::PAGE_BYTES;
use crate::statement::{Bind as _, rows, statements};
use futures_core::Stream;
use serde_json::json;
use sqlx::postgres::PgRow;
use sqlx::{FromRow, Row as _, SqliteConnection};
use std::future::poll_fn;
use std::pin::Pin;
use tidemill_domain::outbox::{EventId, IdRange, Slot, Snapshot, Window};

/// A row of [`read_new`]: the snapshot comes even without events.
struct NewRow {
    snapshot: String,
    timeline: String,
    event: Option<EventRow>,
}

impl FromRow<'_, PgRow> for NewRow {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        let id: Option<i64> = row.try_get("id")?;
        let event = id.map(|_| EventRow::from_row(row)).transpose()?;
        Ok(Self { snapshot: row.try_get("snapshot")?, timeline: row.try_get("timeline")?, event })
    }
}

/// One bit per slot. With unknown values the server would compare each event with half of a list.
fn bits(slots: &[Slot]) -> Vec<u8> {
    let mut bits = vec![0; usize::from(u8::MAX) / 8 + 1];
    for slot in slots {
        let slot = slot.get();
        if let Some(byte) = bits.get_mut(usize::from(slot / 8)) {
            *byte |= 1 << (slot % 8);
        }
    }
    bits
}

/// A page of a frozen window by id, within a range of ids. Transactions after its first snapshot are found by the
/// primary key, between the lowest and the highest id (the functions hide the transaction from the planner, which would
/// otherwise sort the whole window for each page); those running then, by the index of transactions. An event can be in
/// both.
macro_rules! page {
    () => {
        "(select id, xid, slot, aggregate_type, aggregate_id, event_type, topic,
                 payload, payload_bytes, headers, created_at
          from outbox_event
          where id > $5 and id <= $8 and get_bit($6, slot) = 1
              and not pg_visible_in_snapshot(xid, (select $1::text::pg_snapshot))
              and pg_visible_in_snapshot(xid, (select $2::text::pg_snapshot))
          order by id
          limit $7)
         union all
         (select l.*
          from unnest($3::text[]) as r (running)
          cross join lateral (
              select id, xid, slot, aggregate_type, aggregate_id, event_type, topic,
                     payload, payload_bytes, headers, created_at
              from outbox_event
              where xid >= r.running::xid8 and xid <= r.running::xid8 and id > $4 and id <= $9 and get_bit($6, slot) = 1
                  and pg_visible_in_snapshot(xid, (select $2::text::pg_snapshot))
              order by xid, id
              limit $7) as l
          order by id
          limit $7)
         order by id limit $7"
    };
}

/// Takes rows up to the limits; the connection discards the others.
async fn gathered<R>(
    mut rows: Rows<'_, R>,
    most: Most,
    bytes_of: impl Fn(&R) -> usize,
) -> Result<Vec<R>, sqlx::Error> {
    let (mut gathered, mut bytes) = (Vec::new(), 0_usize);
    while let Some(row) = poll_fn(|context| rows.as_mut().poll_next(context)).await {
        let row = row?;
        bytes += bytes_of(&row);
        gathered.push(row);
        if i64::try_from(bytes).is_ok_and(|bytes| bytes > most.bytes) {
            break;
        }
    }
    Ok(gathered)
}

type Rows<'a, R> = Pin<Box<dyn Stream<Item = Result<R, sqlx::Error>> + Send + 'a>>;

/// The last id that a snapshot sees.
fn up_to(snapshot: &Snapshot) -> i64 {
    i64::try_from(snapshot.xmax()).unwrap_or(i64::MAX).saturating_sub(1)
}

/// Excess rows are not fetched: the length of a value is known without reading it, if nothing else of it is used.
async fn read(
    connection: &mut SqliteConnection,
    after: i64,
    to: i64,
    slots: &[Slot],
    most: Most,
) -> Result<Vec<EventRow>, sqlx::Error> {
    sqlx::query_as(
        "with sized as materialized (
             select id, coalesce(octet_length(payload), octet_length(payload_bytes), 0)
                        + coalesce(octet_length(headers), 0) as bytes
             from outbox_event
             where id > $1 and id <= $2 and slot in (select value from json_each($3))
             order by id
             limit $4
         ),
         page as materialized (
             select id, sum(bytes) over (order by id rows between unbounded preceding and 1 preceding) as bytes_before
             from sized
         )
         select e.id, e.id as xid, e.slot, e.aggregate_type, e.aggregate_id, e.event_type, e.topic, e.payload,
                e.payload_bytes, e.headers, e.created_at
         from page
         join outbox_event e on e.id = page.id
         where coalesce(page.bytes_before, 0) <= $5 order by page.id",
    )
    .bind(after)
    .bind(to)
    .bind(slots.bound())
    .bind(most.events)
    .bind(most.bytes)
    .fetch_all(connection)
    .await
}

/// The snapshot and timeline at reading time, and the rows.
pub(crate) type ReadNew = (String, Option<String>, Vec<EventRow>);

/// Limits of one read: events, and bytes of payloads and headers; the event that exceeds the bytes is the last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    pub(crate) events: i64,
    pub(crate) bytes: i64,
    /// The expected size of events.
    pub(crate) size: Size,
}

/// Whether earlier events exceeded the byte limit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Size {
    Small,
    Large,
}

impl Most {
    pub(crate) fn of(events: u32, size: Size) -> Self {
        Self { events: events.into(), bytes: i64::try_from(PAGE_BYTES).unwrap_or(i64::MAX), size }
    }
}

/// The lowest and the highest id of transactions after the first snapshot of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) lowest: EventId,
    pub(crate) highest: EventId,
}

statements! {
    /// Events committed since a snapshot, up to the limits, in no useful order; by the index of transactions. The
    /// returned snapshot is that of the statement itself, so it is exactly what the statement could see.
    fn outbox_read_new(
        from: &Snapshot, stop: Option<&Snapshot>, floor: EventId, slots: &[Slot], most: Most,
    ) -> Option<ReadNew> {
        postgres |connection| {
            let found = sqlx::query_as(
                "select n.snapshot, n.timeline, e.*
                 from (select pg_current_snapshot()::text as snapshot,
                              substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) as timeline) n
                 left join lateral (
                     (select id, xid, slot, aggregate_type, aggregate_id, event_type, topic,
                             payload, payload_bytes, headers, created_at
                      from outbox_event
                      where xid >= $1::text::xid8 and xid < $2::text::xid8 and get_bit($5, slot) = 1 and id > $4
                      order by xid, id
                      limit $6)
                     union all
                     (select l.*
                      from unnest($3::text[]) as r (running)
                      cross join lateral (
                          select id, xid, slot, aggregate_type, aggregate_id, event_type, topic,
                                 payload, payload_bytes, headers, created_at
                          from outbox_event
                          where xid >= r.running::xid8 and xid <= r.running::xid8 and get_bit($5, slot) = 1 and id > $4
                          order by xid, id
                          limit $6) as l
                      limit $6)
                 ) e on true",
            )
            .bind(from.xmax().to_string())
            .bind(stop.map_or(u64::MAX, Snapshot::xmax).to_string())
            .bind(from.running().iter().map(u64::to_string).collect::<Vec<_>>())
            .bind(floor.get())
            .bind(bits(slots))
            .bind(most.events)
            .fetch(connection);
            let bytes = |row: &NewRow| row.event.as_ref().map_or(0, EventRow::bytes);
            let found = gathered(found, most, bytes).await?;
            let Some(first) = found.first() else { return Ok(None) };
            let (snapshot, timeline) = (first.snapshot.clone(), first.timeline.clone());
            Ok(Some((snapshot, Some(timeline), found.into_iter().filter_map(|row| row.event).collect())))
        }
        sqlite |connection| {
            // Stop if another program has left out a slot: events after it must not be read before.
            let (is_slotless, last): (bool, i64) = sqlx::query_as(
                "select exists (select 1 from outbox_event where slot is null),
                        (select coalesce(max(id), 0) from outbox_event)",
            )
            .fetch_one(&mut *connection)
            .await?;
            if is_slotless {
                return Ok(None);
            }
            let snapshot = Snapshot::up_to(last.max(up_to(from)));
            let to = up_to(stop.unwrap_or(&snapshot));
            let rows = read(connection, up_to(from).max(floor.get()), to, slots, most).await?;
            Ok(Some((snapshot.to_string(), None, rows)))
        }
    }

    /// The lowest and the highest id of transactions after the first snapshot of a window; by the index of
    /// transactions, all of it.
    fn outbox_read_span(window: &Window) -> Option<(i64, i64)> {
        postgres {
            bind(
                window.from.xmax().to_string(),
                window.to.as_ref().unwrap_or(&window.from).xmax().to_string(),
            )
            // Without `offset 0` the planner would look for the minimum by the primary key, from the first event on.
            "select min(id), max(id)
             from (select id
                   from outbox_event
                   where xid >= $1::text::xid8 and xid < $2::text::xid8
                   offset 0) as window_of_events
             having count(*) > 0"
        }
        sqlite |_connection| {
            // On SQLite snapshots are ids.
            let to = window.to.as_ref().unwrap_or(&window.from);
            Ok(Some((up_to(&window.from).saturating_add(1), up_to(to))))
        }
    }

    /// The server knows the length of a text without reading it, so it sends no more large events than needed. Counting
    /// small ones would cost more than it saves: there the excess is discarded here.
    fn outbox_read_page(
        window: &Window, span: Span, stretch: IdRange, slots: &[Slot], most: Most,
    ) -> Vec<EventRow> {
        postgres |connection| {
            let to = window.to.as_ref().unwrap_or(&window.from);
            let after = stretch.after.get();
            let page = match most.size {
                Size::Small => sqlx::query_as(page!()),
                Size::Large => sqlx::query_as(concat!(
                    "select s.*
                     from (
                         select f.*,
                                sum(coalesce(octet_length(payload), octet_length(payload_bytes), 0)
                                    + coalesce(octet_length(headers), 0))
                                    over (order by id rows between unbounded preceding and 1 preceding) as bytes_before
                         from (",
                    page!(),
                    ") as f) as s where coalesce(s.bytes_before, 0) <= $10 order by s.id"
                )),
            };
            let page = page
                .bind(window.from.to_string())
                .bind(to.to_string())
                .bind(window.from.running().iter().map(u64::to_string).collect::<Vec<_>>())
                .bind(after)
                .bind(after.max(span.lowest.get().saturating_sub(1)))
                .bind(bits(slots))
                .bind(most.events)
                .bind(stretch.upto.unwrap_or(span.highest).get())
                // Running transactions may have higher ids than later ones.
                .bind(stretch.upto.map_or(i64::MAX, EventId::get));
            let rows = match most.size {
                Size::Small => page.fetch(connection),
                Size::Large => page.bind(most.bytes).fetch(connection),
            };
            gathered(rows, most, EventRow::bytes).await
        }
        sqlite |connection| {
            let after = stretch.after.get().max(span.lowest.get().saturating_sub(1));
            let to = up_to(window.to.as_ref().unwrap_or(&window.from));
            read(connection, after, stretch.upto.map_or(to, |upto| upto.get().min(to)), slots, most).await
        }
    }

    /// PostgreSQL computes the slots itself.
    fn outbox_slotless(limit: i64) -> Vec<(i64, DbText)> {
        postgres { nothing }
        sqlite { "select id, aggregate_id from outbox_event where slot is null order by id limit $1" }
    }

    fn outbox_set_slots(slots: &[(i64, u8)]) -> () {
        postgres { nothing }
        sqlite {
            bind(rows(slots, |(id, slot)| json!({ "id": id, "slot": slot })))
            "update outbox_event set slot = given.slot
             from {rows given $1: id bigint, slot smallint}
             where outbox_event.id = given.id and outbox_event.slot is null"
        }
    }
}

//! Statements that read `outbox_event`. There is one writer at a time, so the order of ids is that of commits.

use super::numbers;
use crate::codec::DbText;
use crate::row::outbox::event::EventRow;
use crate::tx::{Most, ReadNew, Span};
use sqlx::SqliteConnection;
use tidemill_domain::outbox::{EventId, Mark, Slot, Stretch, Window};

/// The last id that a mark sees.
fn up_to(mark: &Mark) -> i64 {
    i64::try_from(mark.xmax()).unwrap_or(i64::MAX).saturating_sub(1)
}

/// None when another program has left out a slot: what stands behind it must not be read before.
pub(crate) async fn read_new(
    connection: &mut SqliteConnection,
    from: &Mark,
    stop: Option<&Mark>,
    floor: EventId,
    slots: &[Slot],
    most: Most,
) -> Result<Option<ReadNew>, sqlx::Error> {
    let (is_slotless, last): (bool, i64) = sqlx::query_as(
        "select exists (select 1 from outbox_event where slot is null),
                (select coalesce(max(id), 0) from outbox_event)",
    )
    .fetch_one(&mut *connection)
    .await?;
    if is_slotless {
        return Ok(None);
    }
    let mark = Mark::up_to(last.max(up_to(from)));
    let to = up_to(stop.unwrap_or(&mark));
    let rows = read(connection, up_to(from).max(floor.get()), to, slots, most).await?;
    Ok(Some((mark.to_string(), None, rows)))
}

/// Marks are ids.
pub(crate) async fn read_span(
    _connection: &mut SqliteConnection,
    window: &Window,
) -> Result<Option<(i64, i64)>, sqlx::Error> {
    let to = window.to.as_ref().unwrap_or(&window.from);
    Ok(Some((up_to(&window.from).saturating_add(1), up_to(to))))
}

pub(crate) async fn read_page(
    connection: &mut SqliteConnection,
    window: &Window,
    span: Span,
    stretch: Stretch,
    slots: &[Slot],
    most: Most,
) -> Result<Vec<EventRow>, sqlx::Error> {
    let after = stretch.after.get().max(span.lowest.get().saturating_sub(1));
    let to = up_to(window.to.as_ref().unwrap_or(&window.from));
    read(connection, after, stretch.upto.map_or(to, |upto| upto.get().min(to)), slots, most).await
}

/// What is too much is not fetched: the length of a value is known without reading it, as long as nothing else is asked of
/// it.
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
         select e.id as id, e.id as xid, e.slot as slot, e.aggregate_type as aggregate_type,
                e.aggregate_id as aggregate_id, e.event_type as event_type, e.topic as topic, e.payload as payload,
                e.payload_bytes as payload_bytes, e.headers as headers, e.created_at as created_at
         from page
         join outbox_event e on e.id = page.id
         where coalesce(page.bytes_before, 0) <= $5
         order by page.id",
    )
    .bind(after)
    .bind(to)
    .bind(numbers(slots))
    .bind(most.events)
    .bind(most.bytes)
    .fetch_all(connection)
    .await
}

pub(crate) async fn slotless(
    connection: &mut SqliteConnection,
    limit: i64,
) -> Result<Vec<(i64, DbText)>, sqlx::Error> {
    sqlx::query_as("select id, aggregate_id from outbox_event where slot is null order by id limit $1")
        .bind(limit)
        .fetch_all(connection)
        .await
}

pub(crate) async fn set_slots(
    connection: &mut SqliteConnection,
    slots: &[(i64, u8)],
) -> Result<(), sqlx::Error> {
    let listed = serde_json::to_string(slots).map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
    sqlx::query(
        "update outbox_event
         set slot = l.value ->> 1
         from json_each($1) as l
         where outbox_event.id = l.value ->> 0 and slot is null",
    )
    .bind(listed)
    .execute(connection)
    .await?;
    Ok(())
}

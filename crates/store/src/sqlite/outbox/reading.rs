//! Statements that read `outbox_event`. There is one writer at a time, so the order of ids is that of commits.

use super::numbers;
use crate::row::outbox::event::EventRow;
use crate::tx::ReadNew;
use sqlx::SqliteConnection;
use tidemill_domain::outbox::{EventId, Mark, Slot, Window};

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
    limit: i64,
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
    let rows = read(connection, up_to(from).max(floor.get()), stop.unwrap_or(&mark), slots, limit).await?;
    Ok(Some((mark.to_string(), None, rows)))
}

pub(crate) async fn read_low(
    _connection: &mut SqliteConnection,
    window: &Window,
) -> Result<Option<i64>, sqlx::Error> {
    Ok(Some(up_to(&window.from).saturating_add(1)))
}

pub(crate) async fn read_page(
    connection: &mut SqliteConnection,
    window: &Window,
    floor: EventId,
    low: EventId,
    slots: &[Slot],
    limit: i64,
) -> Result<Vec<EventRow>, sqlx::Error> {
    let after = window.last.get().max(floor.get()).max(low.get().saturating_sub(1));
    read(connection, after, window.to.as_ref().unwrap_or(&window.from), slots, limit).await
}

async fn read(
    connection: &mut SqliteConnection,
    after: i64,
    to: &Mark,
    slots: &[Slot],
    limit: i64,
) -> Result<Vec<EventRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, cast(id as text) as xid, slot, aggregate_type, aggregate_id, event_type, topic,
                payload, payload_bytes, headers, created_at
         from outbox_event
         where id > $1 and id <= $2 and slot in (select value from json_each($3))
         order by id
         limit $4",
    )
    .bind(after)
    .bind(up_to(to))
    .bind(numbers(slots))
    .bind(limit)
    .fetch_all(connection)
    .await
}

pub(crate) async fn slotless(
    connection: &mut SqliteConnection,
    limit: i64,
) -> Result<Vec<(i64, String)>, sqlx::Error> {
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

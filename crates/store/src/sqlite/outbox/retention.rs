//! Statements that forget events and relays. Without partitions, events go in portions.

use crate::codec::DbTime;
use crate::row::outbox::place::PlaceColumns;
use sqlx::SqliteConnection;
use tidemill_domain::outbox::partition::Range;

/// There are no partitions.
pub(crate) async fn newest(
    _connection: &mut SqliteConnection,
    _range: Range,
) -> Result<Option<DbTime>, sqlx::Error> {
    Ok(None)
}

/// Whether an event of a range is still needed, because it waits, is held or parked. By the primary key.
pub(crate) async fn is_excepted(
    connection: &mut SqliteConnection,
    range: Range,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "select exists (
             select 1 from tidemill_outbox_exception
             where event_id >= $1
               and event_id < $2
               and state <> 'skipped'
         )",
    )
    .bind(range.from)
    .bind(range.to)
    .fetch_one(connection)
    .await
}

/// There are no partitions.
pub(crate) async fn passed(
    _connection: &mut SqliteConnection,
    _range: Range,
    _places: &PlaceColumns,
    _before: DbTime,
) -> Result<Option<String>, sqlx::Error> {
    Ok(None)
}

/// The one writer's transaction keeps everybody else out by itself.
pub(crate) async fn lock_alone(_connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    Ok(())
}

/// There are no partitions.
pub(crate) async fn is_written_since(
    _connection: &mut SqliteConnection,
    _range: Range,
    _mark: &str,
    _floor: i64,
) -> Result<bool, sqlx::Error> {
    Ok(true)
}

/// There are no partitions.
pub(crate) async fn drop(_connection: &mut SqliteConnection, _range: Range) -> Result<(), sqlx::Error> {
    Ok(())
}

/// Of the next so many that are not needed as exceptions, those that were read and are old. Nobody else can write
/// meanwhile, so no more than these are looked at: ids grow with time, and nothing behind them is older.
pub(crate) async fn delete_passed(
    connection: &mut SqliteConnection,
    places: &PlaceColumns,
    before: DbTime,
    after: i64,
    limit: i64,
) -> Result<(u64, Option<i64>), sqlx::Error> {
    let (last, count, has_old): (Option<i64>, i64, Option<bool>) = sqlx::query_as(
        "select max(id), count(*), max(created_at < $1)
         from (
             select e.id, e.created_at
             from outbox_event e
             where e.id > $2
               and not exists (
                   select 1 from tidemill_outbox_exception x where x.event_id = e.id and x.state <> 'skipped'
               )
             order by e.id
             limit $3
         )",
    )
    .bind(before)
    .bind(after)
    .bind(limit)
    .fetch_one(&mut *connection)
    .await?;
    let (Some(last), Some(true)) = (last, has_old) else { return Ok((0, None)) };
    let gone: Vec<i64> = sqlx::query_scalar(
        "with place (slot, up_to) as materialized (
             select value ->> 0, value ->> 1 from json_each($1)
         )
         delete from outbox_event
         where id in (
             select e.id
             from outbox_event e
             join place p on p.slot = e.slot
             where e.id > $4 and e.id <= $5
               and e.created_at < $2
               and (e.id <= p.up_to or e.id <= $3)
               and not exists (
                   select 1 from tidemill_outbox_exception x where x.event_id = e.id and x.state <> 'skipped'
               )
         )
         returning id",
    )
    .bind(places.as_json())
    .bind(before)
    .bind(places.floor)
    .bind(after)
    .bind(last)
    .fetch_all(&mut *connection)
    .await?;
    sqlx::query(
        "delete from tidemill_outbox_exception
         where event_id in (select value from json_each($1))
           and state = 'skipped'",
    )
    .bind(serde_json::json!(gone).to_string())
    .execute(connection)
    .await?;
    Ok((gone.len() as u64, (count == limit).then_some(last)))
}

/// Relays that ended, or were last heard of, before then, and have no slot.
pub(crate) async fn delete_relays(
    connection: &mut SqliteConnection,
    before: DbTime,
    limit: i64,
) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query(
        "delete from tidemill_outbox_relay
         where id in (
             select r.id
             from tidemill_outbox_relay r
             where coalesce(r.ended_at, r.until) < $1
               and not exists (select 1 from tidemill_outbox_slot s where s.owner = r.id)
             limit $2
         )",
    )
    .bind(before)
    .bind(limit)
    .execute(connection)
    .await?;
    Ok(deleted.rows_affected())
}

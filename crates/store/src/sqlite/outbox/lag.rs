//! Statements that measure the outbox. All are bounded: nothing is counted further than it is asked for.

use crate::codec::DbTime;
use crate::row::outbox::lag::{ExceptedRow, UnreadRow};
use crate::row::outbox::place::PlaceColumns;
use sqlx::SqliteConnection;

/// Events that were not read, by slot, the oldest first; where the slot was not filled in yet, by aggregate.
pub(crate) async fn unread(
    connection: &mut SqliteConnection,
    places: &PlaceColumns,
    limit: i64,
) -> Result<Vec<UnreadRow>, sqlx::Error> {
    sqlx::query_as(
        "with place (slot, up_to) as materialized (
             select value ->> 0, value ->> 1 from json_each($1)
         ),
         found as (
             select e.slot, case when e.slot is null then e.aggregate_id end as aggregate_id, e.created_at
             from outbox_event e
             left join place p on p.slot = e.slot
             where e.id > (select min(up_to) from place)
               and e.id > $2
               and (p.up_to is null or e.id > p.up_to)
             order by e.id
             limit $3
         )
         select slot, aggregate_id, count(*) as rows, min(created_at) as oldest
         from found
         group by slot, aggregate_id",
    )
    .bind(places.as_json())
    .bind(places.floor)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Exceptions by state and slot, with when the first of each was written; each state is counted up to a limit, from the
/// lowest number on. By the index on `state`.
pub(crate) async fn excepted(
    connection: &mut SqliteConnection,
    limit: i64,
) -> Result<Vec<ExceptedRow>, sqlx::Error> {
    sqlx::query_as(
        "with counted as (
             select * from (
                 select state, slot, event_id from tidemill_outbox_exception
                 where state = 'waiting' order by event_id limit $1)
             union all
             select * from (
                 select state, slot, event_id from tidemill_outbox_exception
                 where state = 'held' order by event_id limit $1)
             union all
             select * from (
                 select state, slot, event_id from tidemill_outbox_exception
                 where state = 'parked' order by event_id limit $1)
             union all
             select * from (
                 select state, slot, event_id from tidemill_outbox_exception
                 where state = 'skipped' order by event_id limit $1)
         ),
         grouped as (
             select state, slot, count(*) as rows, min(event_id) as first_id
             from counted
             group by state, slot
         )
         select state, slot, rows,
                (select e.created_at from outbox_event e where e.id = first_id) as oldest
         from grouped",
    )
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// How many slots no live relay has.
pub(crate) async fn unowned(connection: &mut SqliteConnection, now: DbTime) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "select count(*)
         from tidemill_outbox_slot s
         left join tidemill_outbox_relay r on r.id = s.owner and r.ended_at is null and r.until > $1
         where r.id is null",
    )
    .bind(now)
    .fetch_one(connection)
    .await
}

/// SQLite does not count what statements write.
pub(crate) async fn statistics(_connection: &mut SqliteConnection) -> Result<Option<String>, sqlx::Error> {
    Ok(None)
}

/// SQLite does not count what statements write.
pub(crate) async fn wal(
    _connection: &mut SqliteConnection,
    _view: &str,
    _kept_since: DbTime,
) -> Result<Option<(i64, i64)>, sqlx::Error> {
    Ok(None)
}

//! Statements that measure the outbox. All are bounded: nothing is counted further than it is asked for.

use crate::codec::DbTime;
use crate::row::outbox::lag::{ShareRow, UnreadRow};
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

/// How many exceptions there are in each state, each counted up to a limit. By the index on `state`.
pub(crate) async fn exceptions(
    connection: &mut SqliteConnection,
    limit: i64,
) -> Result<Vec<(String, i64)>, sqlx::Error> {
    sqlx::query_as(
        "with known (state) as (values ('waiting'), ('held'), ('parked'), ('skipped'))
         select state,
                (select count(*) from (
                    select 1 from tidemill_outbox_exception x where x.state = known.state limit $1
                ))
         from known",
    )
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// The relays that are alive.
pub(crate) async fn shares(
    connection: &mut SqliteConnection,
    now: DbTime,
) -> Result<Vec<ShareRow>, sqlx::Error> {
    sqlx::query_as(
        "select instance, total
         from tidemill_outbox_relay
         where ended_at is null
           and until > $1",
    )
    .bind(now)
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

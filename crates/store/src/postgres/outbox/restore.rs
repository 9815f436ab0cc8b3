//! Statements on the server that marks are from, and on what is done when it has become another one.

use crate::codec::DbTime;
use crate::row::outbox::place::PlaceColumns;
use crate::row::outbox::restore::{OutboxRow, ServerRow};
use sqlx::PgConnection;

/// The server as it is. What tells clusters apart may be kept from the database user; that is asked first, because a
/// statement that is refused would end the transaction.
pub(crate) async fn server(connection: &mut PgConnection) -> Result<Option<ServerRow>, sqlx::Error> {
    let may_ask: bool = sqlx::query_scalar("select has_function_privilege('pg_control_system()', 'execute')")
        .fetch_one(&mut *connection)
        .await?;
    let system_identifier = match may_ask {
        true => {
            sqlx::query_scalar("select system_identifier::text from pg_control_system()")
                .fetch_one(&mut *connection)
                .await?
        }
        false => None,
    };
    let (timeline, mark) =
        sqlx::query_as("select left(pg_walfile_name(pg_current_wal_lsn()), 8), pg_current_snapshot()::text")
            .fetch_one(connection)
            .await?;
    Ok(Some(ServerRow { system_identifier, timeline, mark }))
}

/// The one row of the outbox.
pub(crate) async fn row(connection: &mut PgConnection) -> Result<OutboxRow, sqlx::Error> {
    sqlx::query_as("select system_identifier, timeline, floor_id from tidemill_outbox")
        .fetch_one(connection)
        .await
}

/// Locks the one row.
pub(crate) async fn lock(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("select from tidemill_outbox for update").execute(connection).await?;
    Ok(())
}

/// Waits for all who write events or move slots, and keeps others from it until the transaction ends.
pub(crate) async fn lock_writers(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(
        "set local lock_timeout = '5s';
         lock table outbox_event, tidemill_outbox_relay, tidemill_outbox_slot, tidemill_outbox_exception
         in share row exclusive mode",
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Writes down which server marks are from.
pub(crate) async fn record_server(
    connection: &mut PgConnection,
    server: &ServerRow,
    now: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_outbox
         set system_identifier = coalesce($1, system_identifier), timeline = $2, updated_at = $3",
    )
    .bind(&server.system_identifier)
    .bind(&server.timeline)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}

/// Ends all relays.
pub(crate) async fn retire_all(connection: &mut PgConnection, now: DbTime) -> Result<u64, sqlx::Error> {
    let ended = sqlx::query("update tidemill_outbox_relay set ended_at = $1 where ended_at is null")
        .bind(now)
        .execute(connection)
        .await?;
    Ok(ended.rows_affected())
}

/// Makes an exception of every event that was not read: by the marks of the server that it was written on, or because
/// it was written here, after all that was ever read. In the order of ids; who is the first of its aggregate is due
/// now. Returns for each slot the last place and how many there are.
pub(crate) async fn except_unread(
    connection: &mut PgConnection,
    places: &PlaceColumns,
    now: DbTime,
) -> Result<Vec<(i16, i64, i64)>, sqlx::Error> {
    sqlx::query_as(
        "with place as materialized (
             select slot, seen::pg_snapshot as seen, paged::pg_snapshot as paged, last, high, seq
             from unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[])
                 as given (slot, seen, paged, last, high, seq)
         ),
         unread as (
             select e.id, e.slot, e.aggregate_type, e.aggregate_id, e.event_type,
                    p.seq + row_number() over (partition by e.slot order by e.id) as seq,
                    row_number() over (partition by e.slot, e.aggregate_type, e.aggregate_id order by e.id) as turn
             from outbox_event e
             join place p on p.slot = e.slot
             where e.id > $7
               and (
                   e.id > p.high
                   or not coalesce(
                       pg_visible_in_snapshot(e.xid, p.seen)
                       or (e.id <= p.last and pg_visible_in_snapshot(e.xid, p.paged)),
                       false
                   )
               )
               and not exists (select from tidemill_outbox_exception x where x.event_id = e.id)
         ),
         judged as (
             select u.*,
                    u.turn = 1 and not exists (
                        select
                        from tidemill_outbox_exception x
                        where x.slot = u.slot
                          and x.aggregate_type = u.aggregate_type
                          and x.aggregate_id = u.aggregate_id
                          and x.state <> 'skipped'
                    ) as is_head
             from unread u
         ),
         excepted as (
             insert into tidemill_outbox_exception (
                 event_id, slot, seq, aggregate_type, aggregate_id, event_type, state, next_attempt_at, since, updated_at
             )
             select id, slot, seq, aggregate_type, aggregate_id, event_type,
                    case when is_head then 'waiting' else 'held' end, case when is_head then $8::timestamptz end, $8, $8
             from judged
             returning slot, seq
         )
         select slot, max(seq), count(*)
         from excepted
         group by slot",
    )
    .bind(&places.slot)
    .bind(&places.seen)
    .bind(&places.paged)
    .bind(&places.last)
    .bind(&places.high)
    .bind(&places.seq)
    .bind(places.floor)
    .bind(now)
    .fetch_all(connection)
    .await
}

/// From here on, everything that there is counts as read, or is excepted.
pub(crate) async fn raise_floor(connection: &mut PgConnection, now: DbTime) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "update tidemill_outbox
         set floor_id = greatest(floor_id, (select max(id) from outbox_event)), updated_at = $1
         returning floor_id",
    )
    .bind(now)
    .fetch_one(connection)
    .await
}

/// Lets new events have higher numbers than this, if whoever restored the data has left the sequence behind. Nobody writes
/// events meanwhile.
pub(crate) async fn raise_numbers(connection: &mut PgConnection, floor: i64) -> Result<(), sqlx::Error> {
    sqlx::query(
        "select setval(own.sequence, $1)
         from (select pg_get_serial_sequence('outbox_event', 'id')::regclass as sequence) as own
         where coalesce(pg_sequence_last_value(own.sequence), 0) < $1",
    )
    .bind(floor)
    .execute(connection)
    .await?;
    Ok(())
}

/// Sets slots free at these places.
pub(crate) async fn rest(
    connection: &mut PgConnection,
    slots: &[i16],
    places: &[String],
    seqs: &[i64],
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_outbox_slot s
         set owner = null, since = null, place = given.place, seq = given.seq
         from unnest($1::smallint[], $2::text[], $3::bigint[]) as given (slot, place, seq)
         where s.slot = given.slot",
    )
    .bind(slots)
    .bind(places)
    .bind(seqs)
    .execute(connection)
    .await?;
    Ok(())
}

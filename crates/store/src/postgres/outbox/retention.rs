//! Statements that forget events and relays.
//!
//! Whether an event was read is asked for all at once: `place` has for each slot what [`Window::covers`] compares, and
//! a test compares the two.
//!
//! [`Window::covers`]: tidemill_domain::outbox::Window::covers

use crate::codec::DbTime;
use crate::row::outbox::place::PlaceColumns;
use sqlx::{AssertSqlSafe, PgConnection};
use tidemill_domain::outbox::partition::Range;

/// When the event with the highest id of a partition was written. By the index on `id`.
pub(crate) async fn newest(
    connection: &mut PgConnection,
    range: Range,
) -> Result<Option<DbTime>, sqlx::Error> {
    let text = format!("select created_at from outbox_event_p{} order by id desc limit 1", range.from);
    sqlx::query_scalar(AssertSqlSafe(text)).fetch_optional(connection).await
}

/// Whether an event of a range is still needed, because it waits, is held or parked. By the primary key.
pub(crate) async fn is_excepted(connection: &mut PgConnection, range: Range) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "select exists (
             select from tidemill_outbox_exception
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

/// The mark of this look, if by then all events of a partition were read and are old.
pub(crate) async fn passed(
    connection: &mut PgConnection,
    range: Range,
    places: &PlaceColumns,
    before: DbTime,
) -> Result<Option<String>, sqlx::Error> {
    let text = format!(
        "with place as materialized (
             select slot, seen::pg_snapshot as seen, paged::pg_snapshot as paged, last
             from unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[]) as given (slot, seen, paged, last)
         )
         select pg_current_snapshot()::text
         where not exists (
             select
             from outbox_event_p{} e
             left join place p on p.slot = e.slot
             where e.created_at >= $6
                or not coalesce(
                    e.id <= $5
                    or pg_visible_in_snapshot(e.xid, p.seen)
                    or (e.id <= p.last and pg_visible_in_snapshot(e.xid, p.paged)),
                    false
                )
         )",
        range.from
    );
    sqlx::query_scalar(AssertSqlSafe(text))
        .bind(&places.slot)
        .bind(&places.seen)
        .bind(&places.paged)
        .bind(&places.last)
        .bind(places.floor)
        .bind(before)
        .fetch_optional(connection)
        .await
}

/// Locks `outbox_event` so that nobody reads or writes it. The parent before the partition, as everybody does who uses
/// it: otherwise two could wait for each other.
pub(crate) async fn lock_alone(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("lock table only outbox_event in access exclusive mode").execute(connection).await?;
    Ok(())
}

/// Whether an event came into a partition that this mark does not see. By the index on `(xid, id)`. Events up to the
/// floor may have numbers of another server, and are older than all marks.
pub(crate) async fn is_written_since(
    connection: &mut PgConnection,
    range: Range,
    mark: &str,
    floor: i64,
) -> Result<bool, sqlx::Error> {
    let text = format!(
        "select exists (
             select
             from outbox_event_p{from}
             where xid >= pg_snapshot_xmax($1::pg_snapshot)
               and id > $2
         ) or exists (
             select
             from outbox_event_p{from}
             where xid = any (array(select pg_snapshot_xip($1::pg_snapshot)))
               and id > $2
         )",
        from = range.from
    );
    sqlx::query_scalar(AssertSqlSafe(text)).bind(mark).bind(floor).fetch_one(connection).await
}

/// With what is left of those of its events that were skipped.
pub(crate) async fn drop(connection: &mut PgConnection, range: Range) -> Result<(), sqlx::Error> {
    let text = format!("drop table outbox_event_p{}", range.from);
    sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *connection).await?;
    sqlx::query(
        "delete from tidemill_outbox_exception
         where event_id >= $1
           and event_id < $2
           and state = 'skipped'",
    )
    .bind(range.from)
    .bind(range.to)
    .execute(connection)
    .await?;
    Ok(())
}

/// Of the default partition, which is never dropped: events that were read, are old and are not needed.
pub(crate) async fn delete_passed(
    connection: &mut PgConnection,
    places: &PlaceColumns,
    before: DbTime,
    _after: i64,
    limit: i64,
) -> Result<(u64, Option<i64>), sqlx::Error> {
    let deleted: i64 = sqlx::query_scalar(
        "with place as materialized (
             select slot, seen::pg_snapshot as seen, paged::pg_snapshot as paged, last
             from unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[]) as given (slot, seen, paged, last)
         ),
         gone as (
             delete from outbox_event_default
             where id in (
                 select e.id
                 from outbox_event_default e
                 join place p on p.slot = e.slot
                 where e.created_at < $6
                   and (
                       e.id <= $5
                       or pg_visible_in_snapshot(e.xid, p.seen)
                       or (e.id <= p.last and pg_visible_in_snapshot(e.xid, p.paged))
                   )
                   and not exists (
                       select from tidemill_outbox_exception x where x.event_id = e.id and x.state <> 'skipped'
                   )
                 limit $7
             )
             returning id
         ),
         forgotten as (
             delete from tidemill_outbox_exception
             where event_id in (select id from gone)
               and state = 'skipped'
         )
         select count(*) from gone",
    )
    .bind(&places.slot)
    .bind(&places.seen)
    .bind(&places.paged)
    .bind(&places.last)
    .bind(places.floor)
    .bind(before)
    .bind(limit)
    .fetch_one(connection)
    .await?;
    Ok((u64::try_from(deleted).unwrap_or(0), (deleted == limit).then_some(0)))
}

/// Relays that ended, or were last heard of, before then, and have no slot.
pub(crate) async fn delete_relays(
    connection: &mut PgConnection,
    before: DbTime,
    limit: i64,
) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query(
        "delete from tidemill_outbox_relay
         where id in (
             select r.id
             from tidemill_outbox_relay r
             where coalesce(r.ended_at, r.until) < $1
               and not exists (select from tidemill_outbox_slot s where s.owner = r.id)
             limit $2
             for update skip locked
         )",
    )
    .bind(before)
    .bind(limit)
    .execute(connection)
    .await?;
    Ok(deleted.rows_affected())
}

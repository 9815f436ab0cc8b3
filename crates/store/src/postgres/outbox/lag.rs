//! Statements that measure the outbox. All are bounded: nothing is counted further than it is asked for.

use crate::codec::DbTime;
use crate::row::outbox::lag::{ExceptedRow, UnreadRow};
use crate::row::outbox::place::PlaceColumns;
use sqlx::{AssertSqlSafe, PgConnection};

/// Events that were not read, by slot, the oldest transactions first. What no mark saw as begun, and what one saw as
/// running, are found by the index on `(xid, id)`; everything else was read. The index is read in its order until
/// enough was found, also with a long backlog: for that the statement is planned for its limit, each time.
pub(crate) async fn unread(
    connection: &mut PgConnection,
    places: &PlaceColumns,
    limit: i64,
) -> Result<Vec<UnreadRow>, sqlx::Error> {
    sqlx::query_as(
        "with place as materialized (
             select slot, seen::pg_snapshot as seen, paged::pg_snapshot as paged, last
             from unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[]) as given (slot, seen, paged, last)
         ),
         begun as materialized (
             select pg_snapshot_xmax(seen) as xid from place order by 1 limit 1
         ),
         later as (
             select e.slot, e.created_at
             from (
                 select xid, id, slot, created_at
                 from outbox_event
                 where xid >= (select xid from begun)
                   and id > $5
                 order by xid, id
                 offset 0
             ) as e
             join place p on p.slot = e.slot
             where not coalesce(
                   pg_visible_in_snapshot(e.xid, p.seen)
                   or (e.id <= p.last and pg_visible_in_snapshot(e.xid, p.paged)),
                   false
               )
             limit $6
         ),
         running as (
             select e.slot, e.created_at
             from outbox_event e
             join place p on p.slot = e.slot
             where e.xid = any (array(select distinct pg_snapshot_xip(seen) from place))
               and e.xid < (select xid from begun)
               and e.id > $5
               and not coalesce(
                   pg_visible_in_snapshot(e.xid, p.seen)
                   or (e.id <= p.last and pg_visible_in_snapshot(e.xid, p.paged)),
                   false
               )
             limit $6
         )
         select slot, null::text as aggregate_id, count(*) as rows, min(created_at) as oldest
         from (select slot, created_at from later union all select slot, created_at from running) as found
         group by slot",
    )
    .bind(&places.slot)
    .bind(&places.seen)
    .bind(&places.paged)
    .bind(&places.last)
    .bind(places.floor)
    .bind(limit)
    .persistent(false)
    .fetch_all(connection)
    .await
}

/// Exceptions by state and slot, with when the first of each was written; each state is counted up to a limit, from the
/// lowest number on. By the index on `state`.
pub(crate) async fn excepted(
    connection: &mut PgConnection,
    limit: i64,
) -> Result<Vec<ExceptedRow>, sqlx::Error> {
    sqlx::query_as(
        "with counted as (
             select known.state, x.slot, x.event_id
             from (values ('waiting'), ('held'), ('parked'), ('skipped')) as known (state)
             cross join lateral (
                 select slot, event_id
                 from tidemill_outbox_exception
                 where state = known.state
                 order by event_id
                 limit $1
             ) as x
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
pub(crate) async fn unowned(connection: &mut PgConnection, now: DbTime) -> Result<i64, sqlx::Error> {
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

/// The view of `pg_stat_statements`, quoted, if the extension is there.
pub(crate) async fn statistics(connection: &mut PgConnection) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar(
        "select quote_ident(n.nspname) || '.pg_stat_statements'
         from pg_extension e
         join pg_namespace n on n.oid = e.extnamespace
         where e.extname = 'pg_stat_statements'",
    )
    .fetch_optional(connection)
    .await
}

/// Bytes of WAL of the statements that name the relays, and the events that these have published since the statistics
/// began. None when it is not known how many that were: a relay is older than the statistics, or may be forgotten.
pub(crate) async fn wal(
    connection: &mut PgConnection,
    view: &str,
    kept_since: DbTime,
) -> Result<Option<(i64, i64)>, sqlx::Error> {
    // The name comes from the catalogue, quoted by it.
    let text = format!(
        "select written.bytes::bigint, relays.published::bigint
         from (
             select sum(s.wal_bytes) as bytes
             from {view} s
             join pg_database d on d.oid = s.dbid
             where d.datname = current_database()
               and s.query like '%tidemill_outbox_relay%'
         ) as written
         cross join (
             select sum(published) as published, min(joined_at) as since from tidemill_outbox_relay
         ) as relays
         cross join {view}_info info
         where info.stats_reset >= $1
           and relays.since >= info.stats_reset
           and relays.published > 0
           and written.bytes is not null"
    );
    sqlx::query_as(AssertSqlSafe(text)).bind(kept_since).fetch_optional(connection).await
}

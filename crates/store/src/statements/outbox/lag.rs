//! Statements for metrics of the outbox. All counts are bounded.

use crate::codec::DbTime;
use crate::outbox::backlog::FailedCountsRow;
use crate::outbox::lag::UnreadRow;
use crate::outbox::place::PlaceRows;
use crate::statement::{One, statements};
use sqlx::AssertSqlSafe;
use tidemill_domain::time::Timestamp;

statements! {
    /// Unread events by slot, the oldest transactions first. Transactions that were running at a slot's snapshot, and
    /// those after it, are found by the index on `(xid, id)`; everything else was read. The index is read in order
    /// until enough was found, also with a long backlog: for that the statement is planned for its limit, each time.
    fn outbox_unread(places: &PlaceRows, limit: i64) -> Vec<UnreadRow> {
        postgres |connection| {
            sqlx::query_as(
                "with place as materialized (
                     select slot, seen::pg_snapshot as seen, paged::pg_snapshot as paged, last
                     from json_to_recordset($1::text::json) as given (slot smallint, seen text, paged text, last bigint)
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
                           and id > $2
                         order by xid, id
                         offset 0
                     ) as e
                     join place p on p.slot = e.slot
                     where not coalesce(
                           pg_visible_in_snapshot(e.xid, p.seen)
                           or (e.id <= p.last and pg_visible_in_snapshot(e.xid, p.paged)),
                           false
                       )
                     limit $3
                 ),
                 running as (
                     select e.slot, e.created_at
                     from outbox_event e
                     join place p on p.slot = e.slot
                     where e.xid = any (array(select distinct pg_snapshot_xip(seen) from place))
                       and e.xid < (select xid from begun)
                       and e.id > $2
                       and not coalesce(
                           pg_visible_in_snapshot(e.xid, p.seen)
                           or (e.id <= p.last and pg_visible_in_snapshot(e.xid, p.paged)),
                           false
                       )
                     limit $3
                 )
                 select slot, null::text as aggregate_id, count(*) as rows, min(created_at) as oldest
                 from (select slot, created_at from later union all select slot, created_at from running) as found
                 group by slot",
            )
            .bind(&places.json)
            .bind(places.floor)
            .bind(limit)
            .persistent(false)
            .fetch_all(connection)
            .await
        }
        sqlite {
            bind(&places.json, places.floor, limit)
            "with place (slot, up_to) as materialized (
                 select value ->> 'slot', value ->> 'up_to' from json_each($1)
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
             select slot, aggregate_id, count(*) as rows, min(created_at) as oldest from found
             group by slot, aggregate_id"
        }
    }

    /// Failed events by state and slot, with when the first of each was written; each state is counted up to a limit,
    /// from the lowest id. By the index on `state`.
    fn outbox_failed_counts(limit: i64) -> Vec<FailedCountsRow> {
        "with counted as (
             select * from (
                 select state, slot, event_id from tidemill_outbox_exception
                 where state = 'waiting' order by event_id limit $1) as waiting
             union all
             select * from (
                 select state, slot, event_id from tidemill_outbox_exception
                 where state = 'held' order by event_id limit $1) as held
             union all
             select * from (
                 select state, slot, event_id from tidemill_outbox_exception
                 where state = 'parked' order by event_id limit $1) as parked
             union all
             select * from (
                 select state, slot, event_id from tidemill_outbox_exception
                 where state = 'skipped' order by event_id limit $1) as skipped
         ),
         grouped as (
             select state, slot, count(*) as rows, min(event_id) as first_id
             from counted
             group by state, slot
         )
         select state, slot, rows,
                (select e.created_at from outbox_event e where e.id = first_id) as oldest
         from grouped"
    }

    fn outbox_unowned(now: Timestamp) -> One<i64> {
        "select count(*) from tidemill_outbox_slot s
         left join tidemill_outbox_relay r on r.id = s.owner and r.ended_at is null and r.until > $1
         where r.id is null"
    }

    /// The view of `pg_stat_statements`, quoted, if the extension exists.
    fn outbox_statistics() -> Option<String> {
        postgres {
            "select quote_ident(n.nspname) || '.pg_stat_statements' from pg_extension e
             join pg_namespace n on n.oid = e.extnamespace
             where e.extname = 'pg_stat_statements'"
        }
        // SQLite does not count what statements write.
        sqlite { nothing }
    }

    /// Bytes of WAL of the statements on relays, and the events published since the statistics began. `None` if that
    /// number is unknown: a relay is older than the statistics, or may have been deleted.
    fn outbox_wal(view: &str, kept_since: Timestamp) -> Option<(i64, i64)> {
        postgres |connection| {
            // The name comes from the catalogue, quoted.
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
            sqlx::query_as(AssertSqlSafe(text)).bind(DbTime(kept_since)).fetch_optional(connection).await
        }
        // SQLite does not count what statements write.
        sqlite { nothing }
    }
}

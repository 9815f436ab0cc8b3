//! Metrics of the outbox: unread events, failed events and relays. Values that cannot be read are `None`.

use super::backlog::FailedCountsRow;
use super::place::PlaceRows;
use super::retention::RELAYS_KEPT;
use super::{Backlog, FailedEventCounts, Partition, RelayDetail, counted, slot_of};
use crate::codec::{DbText, DbTime};
use crate::error::Result;
use crate::statement::{Total, statements};
use crate::tx::Outbox;
use sqlx::AssertSqlSafe;
use std::collections::BTreeMap;
use tidemill_domain::lease::Epoch;
use tidemill_domain::outbox::restore::RestoreState;
use tidemill_domain::outbox::{Count, LiveRelay, RelayId, Slot, Tally, missing_shares};
use tidemill_domain::time::Timestamp;

/// Unread events of one slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotLag {
    pub slot: Slot,
    pub owner: Option<RelayId>,
    /// The number of owners it has had.
    pub epoch: Epoch,
    pub rows: Count,
    /// When the oldest was written; `None` if there is none, or none was found before the count stopped.
    pub oldest: Option<Timestamp>,
}

impl SlotLag {
    pub fn unread(&self) -> Backlog {
        Backlog { rows: self.rows, oldest: self.oldest }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct OutboxStats {
    /// `None` after the database was restored into another server, until a relay has started.
    pub lag: Option<Vec<SlotLag>>,
    pub failed_events: FailedEventCounts,
    /// Events in the default partition; `None` without partitions.
    pub default_rows: Option<Count>,
    pub partitions: Vec<Partition>,
    /// Live relays, oldest first.
    pub relays: Vec<RelayDetail>,
    pub unowned: u64,
    /// Fixed shares that no live relay has.
    pub missing_shares: Vec<u32>,
    /// Write-ahead log per event caused by acknowledgements; `None` if not measured.
    pub wal_bytes_per_event: Option<f64>,
    pub at: Timestamp,
}

impl OutboxStats {
    /// Unread and failed events. `None` if unknown.
    pub fn unpublished(&self) -> Option<Backlog> {
        Some(self.unread()?.plus(self.failed_events.open()))
    }

    /// `None` if unknown.
    pub fn unread(&self) -> Option<Backlog> {
        self.lag.as_deref().map(Backlog::of)
    }

    /// Totals of the live relays since each of them joined.
    pub fn tally(&self) -> Tally {
        self.relays.iter().map(|relay| relay.tally).fold(Tally::default(), Tally::plus)
    }

    /// Of all live relays, each over its lifetime; `None` without a relay.
    pub fn published_per_second(&self) -> Option<f64> {
        let rates: Vec<f64> = self.relays.iter().filter_map(RelayDetail::published_per_second).collect();
        (!rates.is_empty()).then(|| rates.iter().sum())
    }
}

crate::statement::row! {
    /// Unread events of one slot or, where the slot is not filled in yet, of one aggregate.
    pub(crate) struct UnreadRow {
        slot: Option<i16>,
        aggregate_id: Option<DbText>,
        rows: i64,
        oldest: DbTime,
    }
}

impl Outbox<'_> {
    /// Unread events per slot, counted up to `count_max` in all. `None` if the snapshots are from another server.
    #[crate::boxed]
    pub async fn lag(&mut self, count_max: u32) -> Result<Option<Vec<SlotLag>>> {
        if self.restore_state().await? == RestoreState::Restored {
            return Ok(None);
        }
        let places = self.places().await?;
        let rows = PlaceRows::new(&places, self.floor().await?);
        let rows = self.outbox_unread(&rows, i64::from(count_max) + 1).await?;
        let mut found: BTreeMap<Slot, (u64, Timestamp)> = BTreeMap::new();
        for UnreadRow { slot, aggregate_id, rows, oldest: DbTime(written) } in rows {
            let slot = match slot {
                Some(slot) => slot_of(slot),
                None => aggregate_id.map(|id| Slot::of(&id.text)),
            };
            let Some(slot) = slot else { continue };
            let (count, oldest) = found.entry(slot).or_insert((0, written));
            *count += u64::try_from(rows).unwrap_or(0);
            *oldest = (*oldest).min(written);
        }
        let is_all = found.values().map(|(count, _)| count).sum::<u64>() <= count_max.into();
        let lag = |place: tidemill_domain::outbox::Place| {
            let found = found.get(&place.slot);
            let count = found.map_or(0, |(count, _)| *count);
            SlotLag {
                slot: place.slot,
                owner: place.owner,
                epoch: place.epoch,
                rows: if is_all { Count::Exactly(count) } else { Count::AtLeast(count) },
                oldest: found.map(|(_, oldest)| *oldest),
            }
        };
        Ok(Some(places.into_iter().map(lag).collect()))
    }

    /// Events in the default partition, counted up to `count_max`; `None` without partitions.
    pub async fn default_rows(&mut self, count_max: u32) -> Result<Option<Count>> {
        if self.postgres().is_none() {
            return Ok(None);
        }
        let count = self.outbox_default_count(i64::from(count_max) + 1).await?;
        Ok(Some(counted(count, count_max)))
    }

    /// The number of live relays, and the fixed shares that none of them has.
    pub async fn relays_alive(&mut self) -> Result<(u64, Vec<u32>)> {
        let live = self.live_relays().await?;
        Ok((live.len() as u64, missing_shares(&live)))
    }

    /// Each count stops at `count_max`.
    #[crate::boxed]
    pub async fn stats(&mut self, count_max: u32) -> Result<OutboxStats> {
        let relays = self.relays().await?;
        let live: Vec<LiveRelay> = relays.iter().map(|detail| detail.relay.clone()).collect();
        Ok(OutboxStats {
            lag: self.lag(count_max).await?,
            failed_events: self.failed_event_counts(count_max).await?,
            default_rows: self.default_rows(count_max).await?,
            partitions: self.partitions().await?,
            missing_shares: missing_shares(&live),
            relays,
            unowned: self.unowned_slots().await?,
            wal_bytes_per_event: self.wal_bytes_per_event().await?,
            at: self.now().await?,
        })
    }

    /// `None` without access to the extension `pg_stat_statements`.
    #[expect(clippy::cast_precision_loss, reason = "nobody writes as many bytes as a f64 can count")]
    async fn wal_bytes_per_event(&mut self) -> Result<Option<f64>> {
        let Some(view) = self.outbox_statistics().await? else { return Ok(None) };
        let kept_since = self.now().await?.minus(RELAYS_KEPT);
        self.savepoint().await?;
        // We may lack the right to read it, or it may not be loaded.
        let found = self.outbox_wal(&view, kept_since).await;
        let found = self.known_since_savepoint(found).await?.flatten();
        Ok(found.map(|(bytes, events)| bytes as f64 / events as f64))
    }
}

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

    pub fn Outbox::unowned_slots() at now -> Total {
        bind(now)
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

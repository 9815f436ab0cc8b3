//! Deletes old events that every slot has passed and that are not needed any more: on PostgreSQL by dropping whole
//! partitions, on SQLite and in the default partition in portions.
//!
//! Dropping a partition takes two steps. The first checks all its events without a lock and keeps its snapshot. The
//! second locks the table for an instant and only checks that nothing was written since that snapshot. Slots never go
//! back and a read event never fails later, so the result of the first still holds.
//!
//! Whether events were read is decided for all at once: `place` has for each slot what [`Window::covers`] compares, and
//! a test compares the two.
//!
//! [`Window::covers`]: tidemill_domain::outbox::Window::covers

use super::place::PlaceRows;
use crate::codec::DbTime;
use crate::error::{Result, StoreError};
use crate::outbox::Partition;
use crate::statement::{Exists, One, statements};
use crate::store::Store;
use crate::tx::Outbox;
use sqlx::AssertSqlSafe;
use std::time::Duration;
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::partition::Range;
use tidemill_domain::outbox::restore::RestoreState;
use tidemill_domain::time::Timestamp;

/// Events per transaction.
const PORTION: u32 = 1_000;

/// How long ended relays are kept.
pub(crate) const RELAYS_KEPT: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Retained {
    pub dropped: Vec<Range>,
    pub deleted: u64,
    pub relays: u64,
    /// There is more to delete: too much for one round, or a lock was in the way.
    pub is_short: bool,
}

impl Store {
    /// Deletes events written longer than `keep_for` ago, in at most `most` partitions and portions.
    #[crate::boxed]
    pub async fn retain_outbox(&self, keep_for: Duration, most: usize) -> Result<Retained> {
        let mut retained = Retained::default();
        let mut tx = self.read().await?;
        // Snapshots of another server say nothing about events written here.
        if tx.outbox().restore_state().await? == RestoreState::Restored {
            return Ok(Retained { is_short: true, ..retained });
        }
        let before = tx.now().await?.minus(keep_for);
        let candidates = tx.outbox().outbox_old_partitions(before).await?;
        drop(tx);
        for range in candidates.into_iter().take(most) {
            match self.drop_passed(range, before).await {
                Ok(true) => retained.dropped.push(range),
                Ok(false) => {}
                Err(StoreError::Busy(error)) => {
                    tracing::debug!(%error, "a partition of the outbox was not dropped; will try again");
                    retained.is_short = true;
                }
                Err(error) => return Err(error),
            }
        }
        let mut next = Some(0);
        for _ in 0..most {
            let Some(after) = next else { break };
            let (deleted, more_after) = self.delete_passed(before, after).await?;
            retained.deleted += deleted;
            next = more_after;
        }
        retained.is_short |= next.is_some();
        let mut tx = self.begin().await?;
        let ended_before = tx.now().await?.minus(RELAYS_KEPT);
        retained.relays = tx.outbox_delete_relays(ended_before, PORTION).await?;
        tx.commit().await?;
        Ok(retained)
    }

    /// Whether the partition is gone.
    async fn drop_passed(&self, range: Range, before: Timestamp) -> Result<bool> {
        let mut tx = self.read().await?;
        let places = tx.outbox().outbox_place_rows().await?;
        let failed = tx.outbox_is_failed(range).await?;
        let snapshot = match failed {
            true => None,
            false => tx.outbox_passed(range, &places, before).await?,
        };
        drop(tx);
        let Some(snapshot) = snapshot else { return Ok(false) };

        let mut tx = self.begin().await?;
        if !tx.outbox_keeper_lock().await? || !tx.outbox().outbox_has(range).await? {
            return Ok(false);
        }
        tx.outbox_hurry().await?;
        tx.outbox_lock_alone().await?;
        if tx.outbox_is_written_since(range, &snapshot, places.floor).await?
            || tx.outbox_is_failed(range).await?
        {
            return Ok(false);
        }
        tx.outbox_partition_drop(range).await?;
        tx.commit().await?;
        Ok(true)
    }

    async fn delete_passed(&self, before: Timestamp, after: i64) -> Result<(u64, Option<i64>)> {
        let mut tx = self.begin().await?;
        let places = tx.outbox().outbox_place_rows().await?;
        let deleted = tx.outbox_delete_passed(&places, before, after, PORTION.into()).await?;
        tx.commit().await?;
        Ok(deleted)
    }
}

impl Outbox<'_> {
    pub(super) async fn outbox_place_rows(&mut self) -> Result<PlaceRows> {
        let places = self.places().await?;
        Ok(PlaceRows::new(&places, self.floor().await?))
    }

    /// Partitions behind the reading position whose last event is old, the oldest first.
    async fn outbox_old_partitions(&mut self, before: Timestamp) -> Result<Vec<Range>> {
        let last = EventId::new(self.outbox_last_id().await?);
        let mut old = Vec::new();
        for partition in self.partitions().await?.iter().filter(|partition| partition.is_ours()) {
            let Some(range) = partition.range.filter(|range| range.is_behind(last)) else { continue };
            let newest = self.outbox_partition_newest(range).await?;
            if newest.is_none_or(|newest| newest.0 < before) {
                old.push(range);
            }
        }
        Ok(old)
    }

    async fn outbox_has(&mut self, range: Range) -> Result<bool> {
        let is_it = |partition: &Partition| partition.is_ours() && partition.range == Some(range);
        Ok(self.partitions().await?.iter().any(is_it))
    }
}

statements! {
    /// When the event with the highest id of a partition was written. By the index on `id`.
    fn outbox_partition_newest(range: Range) -> Option<DbTime> {
        postgres |connection| {
            let text = format!("select created_at from outbox_event_p{} order by id desc limit 1", range.from);
            sqlx::query_scalar(AssertSqlSafe(text)).fetch_optional(connection).await
        }
        sqlite { nothing }
    }

    /// Whether an event of a range still waits, is held or parked. By the primary key.
    fn outbox_is_failed(range: Range) -> Exists {
        bind(range.from, range.to)
        "select 1 from tidemill_outbox_exception
         where event_id >= $1 and event_id < $2 and state <> 'skipped' limit 1"
    }

    /// The snapshot of this statement, if by then all events of a partition were read and are old.
    fn outbox_passed(range: Range, places: &PlaceRows, before: Timestamp) -> Option<String> {
        postgres |connection| {
            let text = format!(
                "with place as materialized (
                     select slot, seen::pg_snapshot as seen, paged::pg_snapshot as paged, last
                     from json_to_recordset($1::text::json) as given (slot smallint, seen text, paged text, last bigint)
                 )
                 select pg_current_snapshot()::text
                 where not exists (
                     select
                     from outbox_event_p{} e
                     left join place p on p.slot = e.slot
                     where e.created_at >= $3
                        or not coalesce(
                            e.id <= $2
                            or pg_visible_in_snapshot(e.xid, p.seen)
                            or (e.id <= p.last and pg_visible_in_snapshot(e.xid, p.paged)),
                            false
                        )
                 )",
                range.from
            );
            sqlx::query_scalar(AssertSqlSafe(text))
                .bind(&places.json)
                .bind(places.floor)
                .bind(DbTime(before))
                .fetch_optional(connection)
                .await
        }
        sqlite { nothing }
    }

    /// Locks `outbox_event` against reading and writing. The parent before the partition, as all users do: otherwise
    /// two could deadlock.
    fn outbox_lock_alone() -> () {
        postgres { "lock table only outbox_event in access exclusive mode" }
        // The one writer excludes all others.
        sqlite { nothing }
    }

    /// Whether an event was added to a partition after this snapshot. By the index on `(xid, id)`. Events up to the
    /// floor may have transaction ids of another server, and are older than all snapshots.
    fn outbox_is_written_since(range: Range, snapshot: &str, floor: i64) -> bool {
        postgres |connection| {
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
            sqlx::query_scalar(AssertSqlSafe(text)).bind(snapshot).bind(floor).fetch_one(connection).await
        }
        sqlite |_connection| {
            Ok(true)
        }
    }

    /// With the remains of its skipped events.
    fn outbox_partition_drop(range: Range) -> () {
        postgres |connection| {
            let text = format!("drop table outbox_event_p{}", range.from);
            sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *connection).await?;
            sqlx::query(
                "delete from tidemill_outbox_exception
                 where event_id >= $1 and event_id < $2 and state = 'skipped'",
            )
            .bind(range.from)
            .bind(range.to)
            .execute(connection)
            .await?;
            Ok(())
        }
        sqlite { nothing }
    }

    /// In the default partition, which is never dropped: events that were read, are old and are not needed.
    fn outbox_delete_passed(
        places: &PlaceRows, before: Timestamp, after: i64, limit: i64,
    ) -> One<(u64, Option<i64>)> {
        postgres |connection| {
            let deleted: i64 = sqlx::query_scalar(
                "with place as materialized (
                     select slot, seen::pg_snapshot as seen, paged::pg_snapshot as paged, last
                     from json_to_recordset($1::text::json) as given (slot smallint, seen text, paged text, last bigint)
                 ),
                 gone as (
                     delete from outbox_event_default
                     where id in (
                         select e.id
                         from outbox_event_default e
                         join place p on p.slot = e.slot
                         where e.created_at < $3
                           and (
                               e.id <= $2
                               or pg_visible_in_snapshot(e.xid, p.seen)
                               or (e.id <= p.last and pg_visible_in_snapshot(e.xid, p.paged))
                           )
                           and not exists (
                               select from tidemill_outbox_exception x where x.event_id = e.id and x.state <> 'skipped'
                           )
                         limit $4
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
            .bind(&places.json)
            .bind(places.floor)
            .bind(DbTime(before))
            .bind(limit)
            .fetch_one(connection)
            .await?;
            Ok((u64::try_from(deleted).unwrap_or(0), (deleted == limit).then_some(0)))
        }
        sqlite |connection| {
            // Of the next `limit` that are not failed events, those that were read and are old. No other process can
            // write meanwhile, and ids grow with time, so nothing after them is older.
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
            .bind(DbTime(before))
            .bind(after)
            .bind(limit)
            .fetch_one(&mut *connection)
            .await?;
            let (Some(last), Some(true)) = (last, has_old) else { return Ok((0, None)) };
            let gone: Vec<i64> = sqlx::query_scalar(
                "with place (slot, up_to) as materialized (
                     select value ->> 'slot', value ->> 'up_to' from json_each($1)
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
            .bind(&places.json)
            .bind(DbTime(before))
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
    }

    /// Relays without slots that ended, or were last heard of, before then.
    fn outbox_delete_relays(before: Timestamp, limit: u32) -> u64 {
        "delete from tidemill_outbox_relay
         where id in (
             select r.id
             from tidemill_outbox_relay r
             where coalesce(r.ended_at, r.until) < $1
               and not exists (select 1 from tidemill_outbox_slot s where s.owner = r.id)
             limit $2
             {for update skip locked}
         )"
    }
}

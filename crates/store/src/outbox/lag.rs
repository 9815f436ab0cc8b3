//! Metrics of the outbox: unread events, failed events and relays. Values that cannot be read are `None`.

use super::place::PlaceRows;
use super::slot_of;
use crate::codec::{DbText, DbTime};
use crate::error::Result;
use crate::outbox::retention::RELAYS_KEPT;
use crate::outbox::{Backlog, FailedEventCounts, Partition, RelayDetail};
use crate::tx::Outbox;
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
    /// Unread events per slot, counted up to `count_max` in all. `None` if the outbox's snapshots are from another
    /// server.
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
        Ok(Some(Count::up_to(count_max.into(), u64::try_from(count).unwrap_or(0))))
    }

    pub async fn unowned_slots(&mut self) -> Result<u64> {
        let now = self.now().await?;
        Ok(u64::try_from(self.outbox_unowned(now).await?).unwrap_or(0))
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

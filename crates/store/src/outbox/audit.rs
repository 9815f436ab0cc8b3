//! What the table says was read, to compare it with what was published.
//!
//! Run all of it in one transaction with one snapshot: events are judged by the positions at the same instant.

use super::{FAILED_EVENT, slot_of};
use crate::codec::DbText;
use crate::error::{Result, damaged};
use crate::statement::{Columns, One, statements, stored};
use crate::tx::Outbox;
use std::collections::HashMap;
use tidemill_domain::outbox::failed_event::StateWord;
use tidemill_domain::outbox::{Aggregate, EventId, Seq, Slot, Snapshot, Window};

/// How far the outbox was read, at an instant.
#[derive(Clone, Debug)]
pub struct OutboxPosition {
    places: HashMap<Slot, (Window, Seq)>,
    /// Below this, snapshots say nothing; events that have not failed count as read.
    floor: EventId,
    snapshot: Snapshot,
    /// The first event that still exists.
    pub lowest: Option<EventId>,
    /// Read, but not accepted.
    pub failed_events: Vec<AuditedFailedEvent>,
}

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct AuditedFailedEvent in FAILED_EVENT {
        pub id: EventId = "event_id",
        pub slot: Slot,
        pub seq: Seq,
        pub excuse: StateWord = "state",
    }

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct AuditedEvent in ("outbox_event", "id") |row| {
        pub id: EventId,
        /// The transaction that wrote it; on SQLite the event's id.
        pub xid: u64,
        pub slot: Slot => slot_of_event(row)?,
        /// Whether the position of its slot has passed it.
        pub is_read: bool => false,
    }
}

/// On SQLite, for events of other programs it may be missing; then compute it from the aggregate.
fn slot_of_event(row: &Columns<'_>) -> Result<Slot, sqlx::Error> {
    let stored = row.get::<Option<i16>>("slot")?.and_then(slot_of);
    let aggregate: Option<DbText> = row.get("aggregate_id")?;
    row.checked("slot", stored.or_else(|| aggregate.map(|id| Slot::of(&id.text))))
}

/// The last event before a page, in transaction order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct AuditFrom {
    xid: i64,
    id: i64,
}

impl AuditFrom {
    pub const START: Self = Self { xid: 0, id: 0 };

    pub fn after(event: &AuditedEvent) -> Self {
        Self { xid: i64::try_from(event.xid).unwrap_or(i64::MAX), id: event.id.get() }
    }

    /// Before all events of this transaction.
    pub fn before(xid: u64) -> Self {
        Self { xid: i64::try_from(xid.saturating_sub(1)).unwrap_or(i64::MAX), id: i64::MAX }
    }
}

impl OutboxPosition {
    /// The sequence number of the last read event of each slot.
    pub fn seqs(&self) -> impl Iterator<Item = (Slot, Seq)> + '_ {
        self.places.iter().map(|(slot, (_, seq))| (*slot, *seq))
    }

    /// The first transaction that may have written events this snapshot does not show.
    pub fn first_running(&self) -> u64 {
        self.snapshot.running().first().copied().unwrap_or_else(|| self.snapshot.xmax())
    }

    fn is_read(&self, slot: Slot, id: EventId, xid: u64) -> bool {
        id <= self.floor || self.places.get(&slot).is_some_and(|(window, _)| window.covers(id, xid))
    }
}

impl Outbox<'_> {
    /// Needs a transaction with one snapshot.
    #[crate::boxed]
    pub async fn position(&mut self) -> Result<OutboxPosition> {
        let snapshot = self.outbox_audit_snapshot().await?;
        let snapshot = snapshot.parse().map_err(|_| damaged("outbox_event", "xid", snapshot))?;
        let places = self.places().await?;
        let places = places.into_iter().map(|place| (place.slot, (place.window, place.seq))).collect();
        Ok(OutboxPosition {
            places,
            floor: self.floor().await?,
            snapshot,
            lowest: self.lowest().await?,
            failed_events: self.outbox_audit_failed_events().await?,
        })
    }

    /// One page of events in transaction order, and whether each was read.
    #[crate::boxed]
    pub async fn audit_page(
        &mut self,
        position: &OutboxPosition,
        from: AuditFrom,
        limit: u32,
    ) -> Result<Vec<AuditedEvent>> {
        let rows = self.outbox_audit_events((from.xid, from.id), limit).await?;
        let judge = |mut event: AuditedEvent| {
            event.is_read = position.is_read(event.slot, event.id, event.xid);
            event
        };
        Ok(rows.into_iter().map(judge).collect())
    }

    /// The first event that still exists.
    pub async fn lowest(&mut self) -> Result<Option<EventId>> {
        Ok(self.outbox_audit_lowest().await?.map(EventId::new))
    }

    /// The aggregates of those events that still exist.
    #[crate::boxed]
    pub async fn names(&mut self, ids: &[EventId]) -> Result<HashMap<EventId, Aggregate>> {
        let ids: Vec<i64> = ids.iter().map(|id| id.get()).collect();
        let rows = self.outbox_audit_names(&ids).await?.into_iter();
        let name = |(id, kind, key): (i64, DbText, DbText)| {
            (EventId::new(id), Aggregate { kind: kind.text, id: key.text })
        };
        Ok(rows.map(name).collect())
    }
}

statements! {
    fn outbox_audit_failed_events() -> Vec<AuditedFailedEvent> {
        "select event_id, slot, seq, state from tidemill_outbox_exception"
    }

    /// What had committed when this transaction began to read.
    fn outbox_audit_snapshot() -> One<String> {
        postgres { "select pg_current_snapshot()::text" }
        sqlite |connection| {
            let last: Option<i64> =
                sqlx::query_scalar("select max(id) from outbox_event").fetch_one(connection).await?;
            Ok(Snapshot::up_to(last.unwrap_or(0)).to_string())
        }
    }

    fn outbox_audit_lowest() -> One<Option<i64>> {
        "select min(id) from outbox_event"
    }

    /// In the order of the index on transactions, so that later ones can be read alone.
    fn outbox_audit_events(after: (i64, i64), limit: u32) -> Vec<AuditedEvent> {
        postgres {
            bind(after.0, after.1, limit)
            "select id, xid::text::bigint as xid, slot, null::text as aggregate_id from outbox_event
             where (xid, id) > ($1::bigint::text::xid8, $2)
             order by outbox_event.xid, id limit $3"
        }
        sqlite {
            // By id, which is the order of transactions.
            bind(after.0, limit)
            "select id, id as xid, slot, case when slot is null then aggregate_id end as aggregate_id
             from outbox_event where id > $1 order by id limit $2"
        }
    }

    fn outbox_audit_names(ids: &[i64]) -> Vec<(i64, DbText, DbText)> {
        "select id, aggregate_type, aggregate_id from outbox_event where id {in $1}"
    }

    /// Each event type with each topic of its events, redirections included. Reads the whole table.
    pub fn Outbox::topics() -> Vec<(String, String, bool)> {
        "select event_type, topic, false from outbox_event
         union
         select e.event_type, e.topic, true from tidemill_outbox_exception e where e.topic is not null
         order by 1, 2, 3"
    }
}

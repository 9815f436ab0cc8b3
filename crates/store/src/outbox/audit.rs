//! What the table says was read, for comparing it with what was published.
//!
//! All of it in one transaction that reads from one snapshot: an event is judged by the place of its slot at the same
//! instant.

use crate::error::StoreError;
use crate::row::damaged;
use crate::tx::Outbox;
use std::collections::HashMap;
use tidemill_domain::outbox::exception::StateWord;
use tidemill_domain::outbox::{Aggregate, EventId, Mark, Seq, Slot, Window};

/// How far the outbox was read, at an instant.
#[derive(Clone, Debug)]
pub struct OutboxStanding {
    places: HashMap<Slot, (Window, Seq)>,
    /// Up to here marks tell nothing; what is not excepted counts as read.
    floor: EventId,
    mark: Mark,
    /// The first event that is still there.
    pub lowest: Option<EventId>,
    /// What was read and not taken.
    pub exceptions: Vec<AuditedException>,
}

/// An event that was read and not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditedException {
    pub id: EventId,
    pub slot: Slot,
    /// Its place among the events of its slot.
    pub seq: Seq,
    pub excuse: StateWord,
}

/// An event, and whether it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AuditedEvent {
    pub id: EventId,
    /// The transaction that has written it; on SQLite the event itself.
    pub xid: u64,
    pub slot: Slot,
    /// Whether the place of its slot has passed it.
    pub is_read: bool,
}

/// After which event a page begins, in the order of transactions.
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

    /// Before all events of this transaction and later ones.
    pub fn before(xid: u64) -> Self {
        Self { xid: i64::try_from(xid.saturating_sub(1)).unwrap_or(i64::MAX), id: i64::MAX }
    }
}

impl OutboxStanding {
    /// The place of the last event of each slot that counts as read.
    pub fn seqs(&self) -> impl Iterator<Item = (Slot, Seq)> + '_ {
        self.places.iter().map(|(slot, (_, seq))| (*slot, *seq))
    }

    /// The first transaction that may have written what this snapshot does not show.
    pub fn first_running(&self) -> u64 {
        self.mark.running().first().copied().unwrap_or_else(|| self.mark.xmax())
    }

    fn is_read(&self, slot: Slot, id: EventId, xid: u64) -> bool {
        id <= self.floor || self.places.get(&slot).is_some_and(|(window, _)| window.covers(id, xid))
    }
}

impl Outbox<'_> {
    /// How far the outbox was read. In a transaction that reads from one snapshot.
    pub async fn standing(&mut self) -> Result<OutboxStanding, StoreError> {
        let mark = self.outbox_audit_mark().await?;
        let mark = mark.parse().map_err(|_| damaged("outbox_event", "xid", mark))?;
        let places = self.places().await?;
        let places = places.into_iter().map(|place| (place.slot, (place.window, place.seq))).collect();
        let exceptions = self.outbox_audit_exceptions().await?;
        Ok(OutboxStanding {
            places,
            floor: self.floor().await?,
            mark,
            lowest: self.lowest().await?,
            exceptions: exceptions.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
        })
    }

    /// Events, and which of them were read: a page in the order of transactions.
    pub async fn audit_page(
        &mut self,
        standing: &OutboxStanding,
        from: AuditFrom,
        limit: u32,
    ) -> Result<Vec<AuditedEvent>, StoreError> {
        let rows = self.outbox_audit_events((from.xid, from.id), limit.into()).await?;
        let event = |row: &crate::row::outbox::audit::AuditEventRow| {
            let (id, slot) = (EventId::new(row.id), row.slot()?);
            let xid = u64::try_from(row.xid).map_err(|_| damaged("outbox_event", "xid", row.id))?;
            Ok(AuditedEvent { id, xid, slot, is_read: standing.is_read(slot, id, xid) })
        };
        rows.iter().map(event).collect()
    }

    /// Each type of events with each topic that its events name, or were redirected to.
    pub async fn topics(&mut self) -> Result<Vec<(String, String, bool)>, StoreError> {
        Ok(self.outbox_audit_topics().await?)
    }

    /// The first event that is still there.
    pub async fn lowest(&mut self) -> Result<Option<EventId>, StoreError> {
        Ok(self.outbox_audit_lowest().await?.map(EventId::new))
    }

    /// Those of these events that are there, and what they happened to.
    pub async fn names(&mut self, ids: &[EventId]) -> Result<HashMap<EventId, Aggregate>, StoreError> {
        let ids: Vec<i64> = ids.iter().map(|id| id.get()).collect();
        Ok(self.outbox_audit_names(&ids).await?.into_iter().map(Into::into).collect())
    }
}

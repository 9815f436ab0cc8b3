//! Details of one event, and the list of relays.

use super::failed_event::FailedEventDetail;
use crate::codec::{DbId, DbTime};
use crate::error::{Result, StoreError, damaged};
use crate::statement::{Stored, stored};
use crate::tx::Outbox;
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::outbox::relay::transactional_id;
use tidemill_domain::outbox::{
    Effort, EventId, EventOutcome, Instance, LiveRelay, RelayId, StoredEvent, Tally,
};
use tidemill_domain::process::ProcessId;
use tidemill_domain::time::Timestamp;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventDetail {
    pub event: StoredEvent,
    pub outcome: EventOutcome,
    pub owner: Option<RelayId>,
    /// The number of owners the slot has had.
    pub epoch: Epoch,
    /// The error, and operator changes.
    pub failed_event: Option<FailedEventDetail>,
}

/// A relay with a valid lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RelayDetail {
    pub relay: LiveRelay,
    pub process: ProcessId,
    pub sink: String,
    /// Totals since it joined.
    pub tally: Tally,
    pub lived: Duration,
    /// When its lease ends, unless renewed.
    pub until: Timestamp,
}

impl RelayDetail {
    /// Since it joined; `None` if it has just joined.
    pub fn published_per_second(&self) -> Option<f64> {
        self.tally.published_per_second(self.lived)
    }
}

impl Outbox<'_> {
    /// `None` if it does not exist (any more). Needs a transaction with one snapshot.
    #[crate::boxed]
    pub async fn event_detail(&mut self, id: EventId) -> Result<Option<EventDetail>> {
        let Some(event) = self.event(id).await? else { return Ok(None) };
        let failed_event = self.failed_event(id).await?;
        let floor = self.floor().await?;
        let place = self.places().await?.into_iter().find(|place| place.slot == event.slot);
        let is_read = id <= floor || place.as_ref().is_some_and(|place| place.window.covers(id, event.xid));
        let state = failed_event.as_ref().map(|failed_event| failed_event.record.failed_event.state.word());
        Ok(Some(EventDetail {
            outcome: EventOutcome::of(is_read, state),
            owner: place.as_ref().and_then(|place| place.owner),
            epoch: place.map_or(Epoch::ZERO, |place| place.epoch),
            event,
            failed_event,
        }))
    }

    /// Oldest first.
    pub async fn relays(&mut self) -> Result<Vec<RelayDetail>> {
        let now = self.now().await?;
        let rows = self.outbox_relay_details(now).await?;
        rows.into_iter().map(|row| row.detail(now)).collect()
    }
}

const RELAY: (&str, &str) = ("tidemill_outbox_relay", "id");

stored! {
    #[derive(Clone, Debug, serde::Deserialize)]
    pub(crate) struct RelayRow in RELAY {
        id: DbId,
        name: String,
        host: String,
        pid: i64,
        sink: String,
        instance: Option<i64>,
        total: Option<i64>,
        joined_at: DbTime,
        until: DbTime,
        slots: i64,
    }
}

impl RelayRow {
    pub(super) fn is_live(&self, now: Timestamp) -> bool {
        now < Timestamp::from(self.until)
    }
}

impl TryFrom<RelayRow> for LiveRelay {
    type Error = StoreError;

    fn try_from(row: RelayRow) -> Result<Self> {
        let id = RelayId::from(row.id);
        let broken = |column| damaged(RELAY.0, column, id);
        let small = |number: i64| u32::try_from(number).map_err(|_| broken("instance"));
        let (instance, total) = (row.instance.map(small).transpose()?, row.total.map(small).transpose()?);
        Ok(Self {
            id,
            name: row.name,
            host: row.host,
            pid: u32::try_from(row.pid).map_err(|_| broken("pid"))?,
            instance: Instance::from_settings(instance, total).map_err(|_| broken("instance"))?,
            transactional_id: transactional_id(&row.sink).map(str::to_owned),
            joined_at: row.joined_at.into(),
            slots: usize::try_from(row.slots).unwrap_or_default(),
        })
    }
}

stored! {
    pub(crate) struct RelayDetailRow in RELAY |row| {
        process: ProcessId,
        tally: Tally => Stored::from_columns(row)?,
        relay: RelayRow => Stored::from_columns(row)?,
    }
}

stored! {
    impl Effort in RELAY { polls, empty_polls, queries }

    impl Tally in RELAY |row| { published, effort => Stored::from_columns(row)? }
}

impl RelayDetailRow {
    fn detail(self, now: Timestamp) -> Result<RelayDetail> {
        Ok(RelayDetail {
            lived: now.since(self.relay.joined_at.into()),
            sink: self.relay.sink.clone(),
            until: self.relay.until.into(),
            relay: self.relay.try_into()?,
            process: self.process,
            tally: self.tally,
        })
    }
}

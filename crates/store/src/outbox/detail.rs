//! All about one event, and the relays as people see them.

use super::exception::ExceptionDetail;
use crate::error::StoreError;
use crate::tx::Outbox;
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::outbox::{EventId, Fate, LiveRelay, RelayId, StoredEvent, Tally};
use tidemill_domain::process::ProcessId;
use tidemill_domain::time::Timestamp;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventDetail {
    pub event: StoredEvent,
    pub fate: Fate,
    /// The relay that has its slot.
    pub owner: Option<RelayId>,
    /// How many owners the slot has had.
    pub epoch: Epoch,
    /// Why it was not taken, and what operators made of it.
    pub exception: Option<ExceptionDetail>,
}

/// A relay whose lease is good.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RelayDetail {
    /// Who it is, and how many slots it has.
    pub relay: LiveRelay,
    /// The process that it runs in.
    pub process: ProcessId,
    pub sink: String,
    /// What it has done since it joined.
    pub tally: Tally,
    /// How long it has been there.
    pub lived: Duration,
    /// When its lease passes, if it is not renewed.
    pub until: Timestamp,
}

impl RelayDetail {
    /// Events per second since it joined; none when it has only just come.
    pub fn published_per_second(&self) -> Option<f64> {
        self.tally.published_per_second(self.lived)
    }
}

impl Outbox<'_> {
    /// All about one event; none when it is not there, or no longer. In a transaction that reads from one snapshot.
    pub async fn event_detail(&mut self, id: EventId) -> Result<Option<EventDetail>, StoreError> {
        let Some(event) = self.event(id).await? else { return Ok(None) };
        let exception = self.exception(id).await?;
        let floor = self.floor().await?;
        let place = self.places().await?.into_iter().find(|place| place.slot == event.slot);
        let is_read = id <= floor || place.as_ref().is_some_and(|place| place.window.covers(id, event.xid));
        let state = exception.as_ref().map(|exception| exception.record.exception.state.word());
        Ok(Some(EventDetail {
            fate: Fate::of(is_read, state),
            owner: place.as_ref().and_then(|place| place.owner),
            epoch: place.map_or(Epoch::ZERO, |place| place.epoch),
            event,
            exception,
        }))
    }

    /// The relays whose lease is good, the eldest first.
    pub async fn relays(&mut self) -> Result<Vec<RelayDetail>, StoreError> {
        let now = self.now().await?;
        let rows = self.outbox_relay_details(now.into()).await?;
        rows.into_iter().map(|row| row.detail(now)).collect()
    }
}

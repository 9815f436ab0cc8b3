//! Failed events to retry now, as they would be published.

use super::list::ContentRow;
use super::{Settled, SettledAs};
use crate::error::{Result, damaged};
use crate::outbox::{numbers, slot_of};
use crate::statements::outbox::reading::{Most, Size};
use crate::tx::Outbox;
use tidemill_domain::outbox::event::Headers;
use tidemill_domain::outbox::failed_event::FailedEventState;
use tidemill_domain::outbox::{Aggregate, EventId, Payload, Seq, Slot};
use tidemill_domain::time::Timestamp;

/// With operator changes applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DueEvent {
    pub id: EventId,
    pub slot: Slot,
    pub seq: Seq,
    pub aggregate: Aggregate,
    pub event_type: String,
    pub topic: String,
    /// An operator has set the topic.
    pub is_redirected: bool,
    pub headers: Headers,
    pub payload: Payload,
    pub created_at: Timestamp,
    pub attempts: u32,
    /// Needed to settle the attempt.
    pub revision: i64,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Due {
    /// The events of one aggregate are adjacent and in order.
    pub events: Vec<DueEvent>,
    /// Events whose row is gone or invalid: settle them like this.
    pub unpublishable: Vec<Settled>,
}

impl Outbox<'_> {
    /// Retries for these slots: at most `heads_max` due events, each with the events held after it, and at most
    /// `events_max` in all, about evenly by aggregate; fewer if they are large.
    #[crate::boxed]
    pub async fn due(
        &mut self,
        slots: &[Slot],
        now: Timestamp,
        heads_max: u32,
        events_max: u32,
    ) -> Result<Due> {
        let heads_max = heads_max.min(events_max);
        let slots = numbers(slots);
        let rows = self.failed_event_due(&slots, now, heads_max, Most::of(events_max, Size::Large)).await?;
        let mut due = Due::default();
        // The aggregate whose remaining events cannot be tried.
        let mut cut = None;
        for row in rows {
            let (head, id, revision) = (row.head, row.event_id, row.revision);
            if cut == Some(head) {
                continue;
            }
            match event(row)? {
                Ok(event) => due.events.push(event),
                Err(error) => {
                    cut = Some(head);
                    // An event after others gets its turn when they are gone.
                    if id == head {
                        let what = SettledAs::Refused { state: FailedEventState::Parked, error };
                        due.unpublishable.push(Settled { event_id: EventId::new(id), revision, what });
                    }
                }
            }
        }
        Ok(due)
    }
}

/// As it would be published, or why it cannot be.
fn event(row: DueRow) -> Result<Result<DueEvent, String>> {
    let broken = |column| damaged("tidemill_outbox_exception", column, row.event_id);
    let slot = slot_of(row.slot).ok_or_else(|| broken("slot"))?;
    let attempts = u32::try_from(row.attempts).map_err(|_| broken("attempts"))?;
    let content = match row.content.content(row.event_id)? {
        Some(Ok(content)) => content,
        Some(Err(bad)) => return Ok(Err(bad.to_string())),
        None => return Ok(Err("the event is no longer in the table outbox_event".to_owned())),
    };
    Ok(Ok(DueEvent {
        id: EventId::new(row.event_id),
        slot,
        seq: Seq::new(row.seq),
        attempts,
        revision: row.revision,
        aggregate: Aggregate { kind: row.aggregate_type, id: row.aggregate_id },
        event_type: row.event_type,
        topic: content.topic,
        is_redirected: row.is_redirected,
        headers: content.headers,
        payload: content.payload,
        created_at: content.created_at,
    }))
}

crate::statement::row! {
    /// A due event, or one held after it.
    pub(crate) struct DueRow {
        event_id: i64,
        /// The due event of this aggregate.
        head: i64,
        slot: i16,
        seq: i64,
        aggregate_type: String,
        aggregate_id: String,
        event_type: String,
        revision: i64,
        attempts: i64,
        is_redirected: bool,
        .. content: ContentRow
    }
}

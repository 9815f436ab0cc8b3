//! Events that a sink has refused, and those that wait behind them. What an event says is shown of one at a time, to
//! those who may see payloads.

pub mod bulk;
pub mod operate;

use crate::api::outbox::event::EventPayload;
use crate::api::{QueryString, id, limit, page_of};
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tidemill_domain::outbox::failed_event::{FailedEventRefusal, Original, StateWord};
use tidemill_domain::outbox::{EventId, Slot};
use tidemill_store::outbox::failed_event::{FailedEventDetail, FailedEventFilter, FailedEventRecord};
use utoipa::{IntoParams, ToSchema};

/// What to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListFailedEvents {
    /// At most so many; 50 when not given, 500 at most.
    limit: Option<u32>,
    /// Only events behind this one: the last id of the page before.
    after: Option<i64>,
    /// Only those in this state: `waiting`, `held`, `parked` or `skipped`.
    state: Option<String>,
    /// Only those of this slot, 0 to 255.
    slot: Option<u8>,
    /// Only those of aggregates of this type.
    aggregate_type: Option<String>,
    /// Only those of the aggregate with this id.
    aggregate_id: Option<String>,
    /// Only those that go to this topic.
    topic: Option<String>,
    /// Only those of this type.
    event_type: Option<String>,
    /// Only those whose error contains this text.
    error: Option<String>,
}

/// Which failed events an order is about; an absent condition is always met.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventFilter {
    /// Only those in this state: `waiting`, `held` or `parked`.
    pub(super) state: Option<String>,
    /// Only those of this slot, 0 to 255.
    pub(super) slot: Option<u8>,
    /// Only those of aggregates of this type.
    pub(super) aggregate_type: Option<String>,
    /// Only those of the aggregate with this id.
    pub(super) aggregate_id: Option<String>,
    /// Only those that go to this topic.
    pub(super) topic: Option<String>,
    /// Only those of this type.
    pub(super) event_type: Option<String>,
    /// Only those whose error contains this text.
    pub(super) error: Option<String>,
}

/// An event that a sink has refused, or that waits behind one.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FailedEvent {
    /// The number of the event.
    id: i64,
    /// Its slot.
    slot: u8,
    /// Its place among the events of its slot.
    seq: i64,
    /// What sort of thing it happened to.
    aggregate_type: String,
    /// To which one.
    aggregate_id: String,
    /// What happened.
    event_type: String,
    /// Where it goes; unknown when the event itself is gone.
    topic: Option<String>,
    /// `waiting`, `held`, `parked` or `skipped`.
    state: String,
    /// When it is tried again.
    next_attempt_at: Option<String>,
    /// The event that comes first, when it is held.
    behind: Option<i64>,
    /// How often it was tried.
    attempts: u32,
    /// Why it was last not taken.
    error: Option<String>,
    /// Since when it is a failed event.
    since: String,
    /// When it last changed.
    updated_at: String,
    /// Whether somebody has changed what it says.
    is_edited: bool,
    /// Whether somebody has changed where it goes.
    is_redirected: bool,
    /// Whether the event is no longer in its table.
    is_gone: bool,
}

/// A page of failed events.
#[derive(Debug, Serialize, ToSchema)]
pub struct FailedEvents {
    /// The oldest first.
    items: Vec<FailedEvent>,
    /// Ask with `after` this for the next page; none when this was the last.
    next: Option<i64>,
}

/// All about one failed event.
#[derive(Debug, Serialize, ToSchema)]
pub struct OneFailedEvent {
    /// Where it stands.
    failed_event: FailedEvent,
    /// When the event was written; unknown when it is gone.
    created_at: Option<String>,
    /// What would be published; none when the event is gone or cannot be read.
    payload: Option<EventPayload>,
    /// Further words that would be published with it.
    headers: Option<BTreeMap<String, String>>,
    /// Why the event cannot be read.
    unreadable: Option<String>,
}

impl From<FailedEventRecord> for FailedEvent {
    fn from(record: FailedEventRecord) -> Self {
        Self {
            id: record.id.get(),
            slot: record.slot.get(),
            seq: record.seq.get(),
            aggregate_type: record.aggregate.kind,
            aggregate_id: record.aggregate.id,
            event_type: record.event_type,
            topic: record.topic,
            state: record.failed_event.state.word().as_str().to_owned(),
            next_attempt_at: record.failed_event.state.next_attempt_at().map(|at| at.to_string()),
            behind: record.behind.map(EventId::get),
            attempts: record.failed_event.attempts,
            error: record.error,
            since: record.since.to_string(),
            updated_at: record.updated_at.to_string(),
            is_edited: record.is_edited,
            is_redirected: record.is_redirected,
            is_gone: record.original == Original::Gone,
        }
    }
}

impl From<FailedEventDetail> for OneFailedEvent {
    fn from(detail: FailedEventDetail) -> Self {
        let failed_event = FailedEvent::from(detail.record);
        let unreadable = |why| Self {
            failed_event: failed_event.clone(),
            created_at: None,
            payload: None,
            headers: None,
            unreadable: why,
        };
        match detail.content {
            None => unreadable(None),
            Some(Err(bad)) => unreadable(Some(bad.to_string())),
            Some(Ok(content)) => Self {
                failed_event: failed_event.clone(),
                created_at: Some(content.created_at.to_string()),
                payload: Some(content.payload.into()),
                headers: Some(content.headers),
                unreadable: None,
            },
        }
    }
}

impl EventFilter {
    /// As the store takes it.
    pub(super) fn checked(self) -> Result<FailedEventFilter, Problem> {
        let state = self.state.map(|word| word.parse::<StateWord>()).transpose();
        let state = state.map_err(|error| {
            Problem::bad_request(format!("the state is {error}"), "use one of these, or none for all")
        })?;
        Ok(FailedEventFilter {
            states: state.into_iter().collect(),
            slot: self.slot.map(Slot::new),
            aggregate_type: self.aggregate_type,
            aggregate_id: self.aggregate_id,
            topic: self.topic,
            event_type: self.event_type,
            error_contains: self.error,
        })
    }
}

/// Why an order was refused, as a problem.
pub(crate) fn refused(id: EventId, refusal: FailedEventRefusal) -> Problem {
    Problem::new(refusal.code(), format!("event {id}: {refusal}"), refusal.fix())
}

/// The events that were not taken, and those that wait behind them, without what they say.
#[utoipa::path(get, path = "/api/v1/outbox/failed", params(ListFailedEvents), responses((status = 200, body = FailedEvents)))]
pub(crate) async fn list(
    Given(state): Given<State>,
    QueryString(asked): QueryString<ListFailedEvents>,
) -> Result<Json<FailedEvents>, Problem> {
    let limit = limit(asked.limit)?;
    let filter = EventFilter {
        state: asked.state,
        slot: asked.slot,
        aggregate_type: asked.aggregate_type,
        aggregate_id: asked.aggregate_id,
        topic: asked.topic,
        event_type: asked.event_type,
        error: asked.error,
    };
    let filter = filter.checked()?;
    let mut tx = state.read().await?;
    let after = EventId::new(asked.after.unwrap_or(0));
    let records = tx.outbox().failed_events(&filter, after, limit + 1).await?;
    let (items, next) = page_of(records, limit, |record| record.id.get());
    Ok(Json(FailedEvents { items, next }))
}

/// One of them, with what it says.
#[utoipa::path(get, path = "/api/v1/outbox/failed/{id}", params(("id" = i64, Path, description = "Id of the event")), responses((status = 200, body = OneFailedEvent), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn show(
    Given(state): Given<State>,
    Path(text): Path<String>,
) -> Result<Json<OneFailedEvent>, Problem> {
    Ok(Json(find(&state, EventId::new(id(&text)?)).await?.into()))
}

pub(crate) async fn find(state: &State, id: EventId) -> Result<FailedEventDetail, Problem> {
    let mut tx = state.read().await?;
    let found = tx.outbox().failed_event(id).await?;
    found.ok_or_else(|| refused(id, FailedEventRefusal::Unknown))
}

/// What a change of events that go to this topic is a change of, for scopes; of any topic when there is none.
pub(crate) fn object(topic: Option<&str>) -> String {
    format!("outbox/{}", topic.unwrap_or("*"))
}

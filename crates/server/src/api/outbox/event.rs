//! The events of the outbox: writing one, and looking at them. What an event says is shown of one at a time, to those who
//! may see payloads.

use crate::api::{Body, QueryString, id, limit, page_of};
use crate::mutation::Caller;
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use tidemill_domain::audit::AuditEntry;
use tidemill_domain::code::Code;
use tidemill_domain::outbox::{BadEvent, EventId, NewEvent, Payload};
use tidemill_store::outbox::{EventDetail, EventFilter, EventRecord};
use utoipa::{IntoParams, ToSchema};

/// What an event says.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum EventPayload {
    /// JSON, as it is written.
    Json {
        /// The text.
        text: String,
    },
    /// Anything else.
    Bytes {
        /// In base64, with padding.
        base64: String,
    },
    /// Nothing.
    Tombstone {},
}

/// An event to be written.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddEvent {
    /// What sort of thing it happened to.
    aggregate_type: String,
    /// To which one; events of one id are published in order.
    aggregate_id: String,
    /// What happened.
    event_type: String,
    /// Where it goes.
    topic: String,
    /// What it says.
    payload: EventPayload,
    /// Further words.
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// An event that was written.
#[derive(Debug, Serialize, ToSchema)]
pub struct AddedEvent {
    /// Its number.
    id: i64,
    /// Its slot.
    slot: u8,
}

/// What to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListEvents {
    /// At most so many; 50 when not given, 500 at most.
    limit: Option<u32>,
    /// Only events before this one: the last id of the page before.
    before: Option<i64>,
    /// Only those of aggregates of this type.
    aggregate_type: Option<String>,
    /// Only those of the aggregate with this id.
    aggregate_id: Option<String>,
    /// Only those to this topic.
    topic: Option<String>,
    /// Only those of this type.
    event_type: Option<String>,
}

/// An event, without what it says.
#[derive(Debug, Serialize, ToSchema)]
pub struct Event {
    /// Its number; grows.
    id: i64,
    /// When it was written.
    created_at: String,
    /// What sort of thing it happened to.
    aggregate_type: String,
    /// To which one.
    aggregate_id: String,
    /// What happened.
    event_type: String,
    /// Where it goes.
    topic: String,
    /// Its slot.
    slot: u8,
    /// How large its payload is; none of a tombstone.
    bytes: Option<usize>,
}

/// A page of events.
#[derive(Debug, Serialize, ToSchema)]
pub struct Events {
    /// The newest first.
    items: Vec<Event>,
    /// Ask with `before` this for the next page; none when this was the last.
    next: Option<i64>,
}

/// All about one event.
#[derive(Debug, Serialize, ToSchema)]
pub struct OneEvent {
    /// The event.
    event: Event,
    /// `pending`, `published`, `waiting`, `held`, `parked` or `skipped`. Of the last four,
    /// `/api/v1/outbox/failed/{id}` tells more.
    state: String,
    /// The relay that has its slot.
    owner: Option<String>,
    /// How many owners the slot has had.
    epoch: i64,
    /// What it says.
    payload: EventPayload,
    /// Further words; none when they cannot be read.
    headers: Option<BTreeMap<String, String>>,
    /// Why the event cannot be read.
    unreadable: Option<String>,
}

impl From<Payload> for EventPayload {
    fn from(payload: Payload) -> Self {
        match payload {
            Payload::Json(text) => Self::Json { text },
            Payload::Bytes(bytes) => Self::Bytes { base64: STANDARD.encode(bytes) },
            Payload::Tombstone => Self::Tombstone {},
        }
    }
}

impl EventPayload {
    /// As the outbox takes it.
    pub(super) fn stored(self) -> Result<Payload, Problem> {
        Ok(match self {
            Self::Json { text } => Payload::Json(text),
            Self::Bytes { base64 } => Payload::Bytes(STANDARD.decode(base64).map_err(|_| {
                let what = "the bytes of the payload are not base64";
                Problem::bad_request(what, "use the usual alphabet, with padding")
            })?),
            Self::Tombstone {} => Payload::Tombstone,
        })
    }
}

impl From<EventRecord> for Event {
    fn from(event: EventRecord) -> Self {
        Self {
            id: event.id.get(),
            created_at: event.created_at.to_string(),
            aggregate_type: event.aggregate.kind,
            aggregate_id: event.aggregate.id,
            event_type: event.event_type,
            topic: event.topic,
            slot: event.slot.get(),
            bytes: event.bytes,
        }
    }
}

impl From<EventDetail> for OneEvent {
    fn from(detail: EventDetail) -> Self {
        let (headers, all) = (detail.event.headers.good(), detail.event.good());
        Self {
            event: EventRecord::from(&detail.event).into(),
            state: detail.fate.as_str().to_owned(),
            owner: detail.owner.map(|owner| owner.to_string()),
            epoch: detail.epoch.get(),
            headers: headers.ok().cloned(),
            unreadable: all.err().map(ToString::to_string),
            payload: detail.event.payload.into(),
        }
    }
}

/// Writes an event, which relays publish.
#[utoipa::path(post, path = "/api/v1/outbox/events", request_body = AddEvent, responses((status = 201, body = AddedEvent), (status = 400, body = crate::problem::ProblemBody)))]
pub(crate) async fn add(caller: Caller, Body(body): Body<AddEvent>) -> Result<Response, Problem> {
    let what = format!("POST /api/v1/outbox/events {}", json!(body));
    let AddEvent { aggregate_type, aggregate_id, event_type, topic, payload, headers: words } = body;
    let event = NewEvent::new(aggregate_type, aggregate_id, event_type, topic, payload.stored()?);
    let event = event.and_then(|event| event.with_headers(words)).map_err(|bad| bad_event(&bad))?;
    let object = format!("outbox/{}", event.topic());
    caller
        .run(&object, &what, async |tx| {
            let id = tx.publish(&event).await?;
            tx.audit()
                .record(&AuditEntry::new(caller.principal.actor(), "event.add", &format!("event/{id}")))
                .await?;
            Ok((StatusCode::CREATED, json!(AddedEvent { id: id.get(), slot: event.slot().get() })))
        })
        .await
}

/// What no sink would take.
pub(super) fn bad_event(bad: &BadEvent) -> Problem {
    Problem::new(bad.code(), bad.to_string(), "correct it, and send it again")
}

/// The events, without what they say.
#[utoipa::path(get, path = "/api/v1/outbox/events", params(ListEvents), responses((status = 200, body = Events)))]
pub(crate) async fn list(
    Given(state): Given<State>,
    QueryString(asked): QueryString<ListEvents>,
) -> Result<Json<Events>, Problem> {
    let limit = limit(asked.limit)?;
    let filter = EventFilter {
        before: asked.before.map(EventId::new),
        aggregate_type: asked.aggregate_type,
        aggregate_id: asked.aggregate_id,
        topic: asked.topic,
        event_type: asked.event_type,
    };
    let mut tx = state.read().await?;
    let events = tx.outbox().events(&filter, limit + 1).await?;
    let (items, next) = page_of(events, limit, |event| event.id.get());
    Ok(Json(Events { items, next }))
}

/// One event, with what it says and what became of it.
#[utoipa::path(get, path = "/api/v1/outbox/events/{id}", params(("id" = i64, Path, description = "Its id")), responses((status = 200, body = OneEvent), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn show(
    Given(state): Given<State>,
    Path(text): Path<String>,
) -> Result<Json<OneEvent>, Problem> {
    let id = EventId::new(id(&text)?);
    let mut tx = state.read().await?;
    let found = tx.outbox().event_detail(id).await?;
    let remedy = "list the events; those that were published long ago are forgotten";
    let detail =
        found.ok_or_else(|| Problem::new(Code::EventNotFound, format!("there is no event {id}"), remedy))?;
    Ok(Json(detail.into()))
}

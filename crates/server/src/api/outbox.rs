//! The outbox: events, failed events, attached tables, relays and statistics. The payload of one event needs the permission
//! `administer`.

pub mod attached;
pub mod failed_event;

use crate::api::{Answer, Body, Id, List, QueryString, Read, limit};
use crate::mutation::Caller;
use crate::problem::Problem;
use axum::Json;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use tidemill_api::Page;
use tidemill_api::outbox::{
    AddEvent, AddedEvent, Event, EventDetail, EventPayload, ListEvents, OutboxSlot, OutboxStats, Relay,
    ShowOutboxStats,
};
use tidemill_domain::audit::AuditEntry;
use tidemill_domain::code::Code;
use tidemill_domain::outbox::{BadEvent, EventId, NewEvent, Payload};
use tidemill_store::outbox::EventFilter;

/// Counts stop here.
const COUNT_MAX: u32 = 10_000;

/// List the live relays, the oldest first.
#[utoipa::path(get, path = "/api/v1/outbox/relays", operation_id = "list_relays", responses((status = 200, body = Page<Relay>)))]
pub(crate) async fn relays(Read(mut tx): Read) -> List<Relay> {
    let relays = tx.outbox().relays().await?;
    Ok(Json(Page::whole(&relays)))
}

/// Show statistics of the outbox.
#[utoipa::path(get, path = "/api/v1/outbox/stats", operation_id = "get_outbox_stats", params(ShowOutboxStats), responses((status = 200, body = OutboxStats)))]
pub(crate) async fn stats(
    QueryString(query): QueryString<ShowOutboxStats>,
    Read(mut tx): Read,
) -> Answer<OutboxStats> {
    let stats = tx.outbox().stats(COUNT_MAX).await?;
    let attached = tx.outbox().attached_stats(COUNT_MAX).await?;
    let mut view = OutboxStats::from((&stats, attached.as_slice()));
    if query.slots {
        view.slots = OutboxSlot::all(&stats);
    }
    Ok(Json(view))
}

/// Add an event to the outbox.
#[utoipa::path(post, path = "/api/v1/outbox/events", operation_id = "add_event", request_body = AddEvent, responses((status = 201, body = AddedEvent)))]
pub(crate) async fn add(caller: Caller, Body(body): Body<AddEvent>) -> Result<Response, Problem> {
    let what = format!("POST /api/v1/outbox/events {}", json!(body));
    let payload = decode(body.payload)?;
    let event = NewEvent::new(body.aggregate_type, body.aggregate_id, body.event_type, body.topic, payload)?
        .with_headers(body.headers)?;
    caller
        .run(&object(Some(event.topic())), &what, async |tx| {
            let id = tx.publish(&event).await?;
            tx.audit()
                .record(&AuditEntry::new(caller.principal.actor(), "event.add", &format!("event/{id}")))
                .await?;
            Ok((StatusCode::CREATED, json!(AddedEvent { id: id.get(), slot: event.slot().get() })))
        })
        .await
}

fn decode(payload: EventPayload) -> Result<Payload, Problem> {
    payload.try_into().map_err(|_| {
        let what = "the bytes of the payload are not base64";
        Problem::bad_request(what, "use the standard alphabet with padding")
    })
}

impl From<BadEvent> for Problem {
    fn from(bad: BadEvent) -> Self {
        Self::new(bad.code(), bad.to_string(), "correct it and send it again")
    }
}

/// List events without their payloads, the newest first.
#[utoipa::path(get, path = "/api/v1/outbox/events", operation_id = "list_events", params(ListEvents), responses((status = 200, body = Page<Event>)))]
pub(crate) async fn events(QueryString(query): QueryString<ListEvents>, Read(mut tx): Read) -> List<Event> {
    let limit = limit(query.limit)?;
    let filter = EventFilter {
        before: query.before.map(EventId::new),
        aggregate_type: query.aggregate_type,
        aggregate_id: query.aggregate_id,
        topic: query.topic,
        event_type: query.event_type,
    };
    let events = tx.outbox().events(&filter, limit + 1).await?;
    Ok(Json(Page::of(&events, limit, |event| event.id.get())))
}

/// Show an event with its payload and state.
#[utoipa::path(get, path = "/api/v1/outbox/events/{id}", operation_id = "get_event", params(("id" = i64, Path, description = "Id of the event")), responses((status = 200, body = EventDetail)))]
pub(crate) async fn event(Id(id): Id, Read(mut tx): Read) -> Answer<EventDetail> {
    let id = EventId::new(id);
    let detail = tx.outbox().event_detail(id).await?.ok_or_else(|| {
        let remedy = "list the events; events that were published long ago are deleted";
        Problem::new(Code::EventNotFound, format!("there is no event {id}"), remedy)
    })?;
    Ok(Json(EventDetail::from(&detail)))
}

/// The object of changes to events of this topic, for scopes; `outbox/*` if the topic is unknown.
pub(crate) fn object(topic: Option<&str>) -> String {
    format!("outbox/{}", topic.unwrap_or("*"))
}

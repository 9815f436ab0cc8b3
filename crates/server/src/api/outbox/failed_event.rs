//! Failed events: listing and showing them. The payload of one event needs the permission `administer`.

pub mod operate;

use crate::api::{Answer, Id, List, QueryString, Read, limit};
use crate::problem::Problem;
use axum::Json;
use tidemill_api::Page;
use tidemill_api::failed_event::{EventFilter, FailedEvent, FailedEventDetail, ListFailedEvents};
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::failed_event::FailedEventRefusal;
use tidemill_domain::words::UnknownWord;
use tidemill_store::Tx;
use tidemill_store::outbox::failed_event::{self, FailedEventFilter};

/// List failed events without their payloads, the oldest first.
#[utoipa::path(get, path = "/api/v1/outbox/failed", operation_id = "list_failed_events", params(ListFailedEvents), responses((status = 200, body = Page<FailedEvent>)))]
pub(crate) async fn list(
    QueryString(query): QueryString<ListFailedEvents>,
    Read(mut tx): Read,
) -> List<FailedEvent> {
    let (limit, after) = (limit(query.limit)?, EventId::new(query.after.unwrap_or(0)));
    let filter = checked(query.into())?;
    let records = tx.outbox().failed_events(&filter, after, limit + 1).await?;
    Ok(Json(Page::of(&records, limit, |record| record.id.get())))
}

/// Show a failed event with its payload.
#[utoipa::path(get, path = "/api/v1/outbox/failed/{id}", operation_id = "get_failed_event", params(("id" = i64, Path, description = "Id of the event")), responses((status = 200, body = FailedEventDetail)))]
pub(crate) async fn show(Id(id): Id, Read(mut tx): Read) -> Answer<FailedEventDetail> {
    let detail = find(&mut tx, EventId::new(id)).await?;
    Ok(Json(FailedEventDetail::from(&detail)))
}

pub(crate) async fn find(tx: &mut Tx, id: EventId) -> Result<failed_event::FailedEventDetail, Problem> {
    let found = tx.outbox().failed_event(id).await?;
    found.ok_or_else(|| refused(id, FailedEventRefusal::Unknown))
}

pub(crate) fn refused(id: EventId, refusal: FailedEventRefusal) -> Problem {
    Problem::new(refusal.code(), format!("event {id}: {refusal}"), refusal.fix())
}

fn checked(filter: EventFilter) -> Result<FailedEventFilter, Problem> {
    filter.try_into().map_err(|error: UnknownWord| {
        Problem::bad_request(format!("the state is {error}"), "use one of these, or leave it out")
    })
}

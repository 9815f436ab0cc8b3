//! Failed events: listing, showing and changing them. The payload of one event needs the permission `administer`.

use super::{decode, object};
use crate::api::{Answer, Id, List, QueryString, Read, limit};
use crate::operate::{ActionBody, ActionRequest, Outcome, Parameters, checked as checked_reason};
use crate::problem::Problem;
use axum::Json;
use axum::http::StatusCode;
use serde_json::json;
use tidemill_api::Page;
use tidemill_api::failed_event::{
    ChangeEvents, ChangedEvents, EditEvent, EventFilter, FailedEvent, FailedEventDetail, ListFailedEvents,
    RedirectEvent, RedirectEvents,
};
use tidemill_domain::action::Action;
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::failed_event::{Edit, FailedEventRefusal, Redirect, Verb};
use tidemill_domain::words::UnknownWord;
use tidemill_store::Tx;
use tidemill_store::outbox::failed_event::{self, FailedEventFilter, Operation, Selection};

pub(crate) const IDS_MAX: usize = 500;

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

impl ActionBody for EditEvent {
    fn read(&self) -> Result<(Option<&str>, Parameters), Problem> {
        let reason = checked_reason(&self.reason)?;
        if self.payload.is_none() && self.headers.is_none() {
            let remedy = "set `payload`, `headers` or both; to retry it unchanged, replay it";
            return Err(Problem::bad_request("the edit changes nothing", remedy));
        }
        let payload = self.payload.clone().map(decode).transpose()?;
        let edit = Edit::new(payload, self.headers.clone())?;
        Ok((Some(reason), Parameters::Event(Verb::Edit(edit))))
    }
}

impl ActionBody for RedirectEvent {
    fn read(&self) -> Result<(Option<&str>, Parameters), Problem> {
        let reason = checked_reason(&self.reason)?;
        Ok((Some(reason), Parameters::Event(Verb::Redirect(Redirect::new(&self.topic)?))))
    }
}

impl ActionBody for ChangeEvents {
    fn read(&self) -> Result<(Option<&str>, Parameters), Problem> {
        let reason = checked_reason(&self.reason)?;
        let (selection, limit) = selection(self)?;
        Ok((Some(reason), Parameters::Events { verb: None, selection, limit }))
    }
}

impl ActionBody for RedirectEvents {
    fn read(&self) -> Result<(Option<&str>, Parameters), Problem> {
        let reason = checked_reason(&self.events.reason)?;
        let verb = Verb::Redirect(Redirect::new(&self.topic)?);
        let (selection, limit) = selection(&self.events)?;
        Ok((Some(reason), Parameters::Events { verb: Some(verb), selection, limit }))
    }
}

fn selection(events: &ChangeEvents) -> Result<(Selection, u32), Problem> {
    match (&events.ids, &events.filter) {
        (Some(ids), None) if (1..=IDS_MAX).contains(&ids.len()) => {
            let ids = ids.iter().copied().map(EventId::new).collect();
            Ok((Selection::Selected(ids), limit(Some(500))?))
        }
        (Some(_), None) => Err(Problem::bad_request(
            "the list of ids is empty or too long",
            format!("send 1 to {IDS_MAX} ids, or use a filter"),
        )),
        (None, Some(filter)) => {
            let filter = checked(filter.clone())?;
            let after = EventId::new(events.after.unwrap_or(0));
            Ok((Selection::Matching { filter, after }, limit(events.limit)?))
        }
        (None, None) | (Some(_), Some(_)) => Err(Problem::bad_request(
            "the request must have either `ids` or `filter`",
            "send one of them; an empty filter matches all events",
        )),
    }
}

/// What to do with the events. Scopes also limit the topic that events are redirected to.
fn verb<'a>(request: &ActionRequest<'_>, given: Option<&'a Verb>) -> Result<&'a Verb, Problem> {
    let verb = match (request.action, given) {
        (_, Some(verb)) => verb,
        (Action::EventSkip | Action::EventsSkip, None) => &Verb::Skip,
        (Action::EventReplay | Action::EventsReplay, None) => &Verb::Replay,
        _ => return Err(request.mistaken()),
    };
    if let Verb::Redirect(redirect) = verb {
        request.check_scope(&object(Some(redirect.topic())))?;
    }
    Ok(verb)
}

/// Changes one event and answers with the result.
pub(crate) async fn one(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let id = EventId::new(request.id()?);
    let given = if let Parameters::Event(verb) = &request.parameters { Some(verb) } else { None };
    let verb = verb(request, given)?;
    request.check_scope(&object(find(tx, id).await?.record.topic.as_deref()))?;
    let operation = Operation { verb, actor: &request.actor(), reason: request.required_reason(), limit: 1 };
    let operated = tx.outbox().operate(&Selection::One(id), &operation).await?;
    if let Some((id, refusal)) = operated.refused.first() {
        return Err(refused(*id, *refusal));
    }
    Ok((StatusCode::OK, json!(FailedEvent::from(&find(tx, id).await?.record))))
}

/// Changes many events. A token that is limited to topics needs a filter with one of these topics.
pub(crate) async fn many(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let Parameters::Events { verb: given, selection, limit } = &request.parameters else {
        return Err(request.mistaken());
    };
    let verb = verb(request, given.as_ref())?;
    request.check_scope(&match selection {
        Selection::Matching { filter, .. } => object(filter.topic.as_deref()),
        Selection::One(_) | Selection::Selected(_) => object(None),
    })?;
    let operation =
        Operation { verb, actor: &request.actor(), reason: request.required_reason(), limit: *limit };
    let operated = tx.outbox().operate(selection, &operation).await?;
    Ok((StatusCode::OK, json!(ChangedEvents::from(operated))))
}

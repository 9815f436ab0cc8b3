//! Changes to failed events: one by its id, or many by their ids or a filter.

use super::{checked, find, refused};
use crate::access::Principal;
use crate::api::limit;
use crate::api::outbox::event::decode;
use crate::api::outbox::object;
use crate::operate::{ActionBody, ActionRequest, Outcome, Parameters};
use crate::problem::Problem;
use axum::http::StatusCode;
use serde_json::json;
use tidemill_api::failed_event::{
    ChangeEvents, ChangedEvents, EditEvent, FailedEvent, RedirectEvent, RedirectEvents,
};
use tidemill_domain::action::Action;
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::failed_event::{Edit, Redirect, Verb};
use tidemill_store::Tx;
use tidemill_store::outbox::failed_event::{Operation, Selection};

/// Maximum number of ids in one request.
pub(crate) const IDS_MAX: usize = 500;

impl ActionBody for EditEvent {
    fn reason(&self) -> Option<&str> {
        Some(&self.reason)
    }

    fn parameters(&self) -> Result<Parameters, Problem> {
        if self.payload.is_none() && self.headers.is_none() {
            let remedy = "set `payload`, `headers` or both; to retry it unchanged, replay it";
            return Err(Problem::bad_request("the edit changes nothing", remedy));
        }
        let payload = self.payload.clone().map(decode).transpose()?;
        Ok(Parameters::Event(Verb::Edit(Edit::new(payload, self.headers.clone())?)))
    }
}

impl ActionBody for RedirectEvent {
    fn reason(&self) -> Option<&str> {
        Some(&self.reason)
    }

    fn parameters(&self) -> Result<Parameters, Problem> {
        Ok(Parameters::Event(Verb::Redirect(Redirect::new(&self.topic)?)))
    }
}

impl ActionBody for ChangeEvents {
    fn reason(&self) -> Option<&str> {
        Some(&self.reason)
    }

    fn parameters(&self) -> Result<Parameters, Problem> {
        let (selection, limit) = selection(self)?;
        Ok(Parameters::Events { verb: None, selection, limit })
    }
}

impl ActionBody for RedirectEvents {
    fn reason(&self) -> Option<&str> {
        self.events.reason()
    }

    fn parameters(&self) -> Result<Parameters, Problem> {
        let verb = Verb::Redirect(Redirect::new(&self.topic)?);
        let (selection, limit) = selection(&self.events)?;
        Ok(Parameters::Events { verb: Some(verb), selection, limit })
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

/// Scopes also limit the topic that events are redirected to.
fn check_target(principal: &Principal, verb: &Verb) -> Result<(), Problem> {
    match verb {
        Verb::Redirect(redirect) => principal.check_scope(&object(Some(redirect.topic()))),
        Verb::Skip | Verb::Replay | Verb::Edit(_) => Ok(()),
    }
}

/// Changes one event and answers with the result.
pub(crate) async fn one(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let id = EventId::new(request.id()?);
    let verb = match (request.action, &request.parameters) {
        (Action::EventSkip, _) => &Verb::Skip,
        (Action::EventReplay, _) => &Verb::Replay,
        (_, Parameters::Event(verb)) => verb,
        _ => return Err(request.mistaken()),
    };
    check_target(&request.caller.principal, verb)?;
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
    let Parameters::Events { verb, selection, limit } = &request.parameters else {
        return Err(request.mistaken());
    };
    let verb = match (request.action, verb) {
        (_, Some(verb)) => verb,
        (Action::EventsSkip, None) => &Verb::Skip,
        (Action::EventsReplay, None) => &Verb::Replay,
        _ => return Err(request.mistaken()),
    };
    check_target(&request.caller.principal, verb)?;
    request.check_scope(&match selection {
        Selection::Matching { filter, .. } => object(filter.topic.as_deref()),
        Selection::One(_) | Selection::Selected(_) => object(None),
    })?;
    let operation =
        Operation { verb, actor: &request.actor(), reason: request.required_reason(), limit: *limit };
    let operated = tx.outbox().operate(selection, &operation).await?;
    Ok((StatusCode::OK, json!(ChangedEvents::from(operated))))
}

//! What an operator may do with one failed event.

use super::{FailedEvent, object, refused};
use crate::access::Principal;
use crate::api::outbox::event::{EventPayload, bad_event};
use crate::operate::{ActionBody, ActionRequest, Outcome, Parameters};
use crate::problem::Problem;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use tidemill_domain::action::Action;
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::failed_event::{Edit, FailedEventRefusal, Redirect, Verb};
use tidemill_store::Tx;
use tidemill_store::outbox::failed_event::{Operation, Selection};
use utoipa::ToSchema;

/// What is to be published in place of an event; what is not given stays.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EditEvent {
    /// Why, for those who wonder later.
    reason: String,
    /// What it says.
    payload: Option<EventPayload>,
    /// All its headers.
    headers: Option<BTreeMap<String, String>>,
}

/// Where an event is to go.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RedirectEvent {
    /// Why, for those who wonder later.
    reason: String,
    /// The topic.
    topic: String,
}

impl ActionBody for EditEvent {
    fn reason(&self) -> Option<&str> {
        Some(&self.reason)
    }

    fn parameters(&self) -> Result<Parameters, Problem> {
        if self.payload.is_none() && self.headers.is_none() {
            let remedy = "give `payload`, `headers` or both; to try it again unchanged, replay it";
            return Err(Problem::bad_request("the edit changes nothing", remedy));
        }
        let payload = self.payload.clone().map(EventPayload::stored).transpose()?;
        let edit = Edit::new(payload, self.headers.clone()).map_err(|bad| bad_event(&bad))?;
        Ok(Parameters::Event(Verb::Edit(edit)))
    }
}

impl ActionBody for RedirectEvent {
    fn reason(&self) -> Option<&str> {
        Some(&self.reason)
    }

    fn parameters(&self) -> Result<Parameters, Problem> {
        Ok(Parameters::Event(redirection(&self.topic)?))
    }
}

/// A redirection to this topic.
pub(super) fn redirection(topic: &str) -> Result<Verb, Problem> {
    Ok(Verb::Redirect(Redirect::new(topic).map_err(|bad| bad_event(&bad))?))
}

/// Refuses a redirection to a topic beyond the caller's scopes: they limit where it publishes, too.
pub(super) fn check_target(principal: &Principal, verb: &Verb) -> Result<(), Problem> {
    match verb {
        Verb::Redirect(redirect) => principal.check_scope(&object(Some(redirect.topic()))),
        Verb::Skip | Verb::Replay | Verb::Edit(_) => Ok(()),
    }
}

/// Changes one event, and answers with it as it stands then. Whoever is limited to some topics may change their events
/// only.
pub(crate) async fn perform(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let id = EventId::new(request.id()?);
    let verb = match (request.action, &request.parameters) {
        (Action::EventSkip, _) => &Verb::Skip,
        (Action::EventReplay, _) => &Verb::Replay,
        (_, Parameters::Event(verb)) => verb,
        _ => return Err(request.mistaken()),
    };
    check_target(&request.caller.principal, verb)?;
    let unknown = || refused(id, FailedEventRefusal::Unknown);
    let found = tx.outbox().failed_event(id).await?.ok_or_else(unknown)?;
    request.check_scope(&object(found.record.topic.as_deref()))?;
    let operation = Operation { verb, actor: &request.actor(), reason: request.required_reason(), limit: 1 };
    let operated = tx.outbox().operate(&Selection::One(id), &operation).await?;
    if let Some((id, refusal)) = operated.refused.first() {
        return Err(refused(*id, *refusal));
    }
    let after = tx.outbox().failed_event(id).await?.ok_or_else(unknown)?;
    Ok((StatusCode::OK, json!(FailedEvent::from(after.record))))
}

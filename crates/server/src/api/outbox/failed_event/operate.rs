//! What an operator may do with one failed event.

use super::{FailedEvent, object, refused};
use crate::access::Principal;
use crate::api::execution::operate::{Order, checked};
use crate::api::outbox::event::{EventPayload, bad_event};
use crate::api::{Body, id};
use crate::mutation::{self, Caller};
use crate::problem::Problem;
use crate::state::State;
use axum::Extension;
use axum::extract::{Path, State as Given};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::failed_event::{Edit, FailedEventRefusal, Redirect, Verb};
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

/// Never publishes an event; those behind it go on.
#[utoipa::path(post, path = "/api/v1/outbox/failed/{id}/skip", params(("id" = i64, Path, description = "Id of the event")), request_body = Order, responses((status = 200, body = FailedEvent), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn skip(
    caller: Caller,
    Path(id): Path<String>,
    Body(body): Body<Order>,
) -> Result<Response, Problem> {
    order(caller, &id, &Verb::Skip, &body.reason, &body).await
}

/// Tries an event again at once, as if it had never been refused.
#[utoipa::path(post, path = "/api/v1/outbox/failed/{id}/replay", params(("id" = i64, Path, description = "Id of the event")), request_body = Order, responses((status = 200, body = FailedEvent), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn replay(
    caller: Caller,
    Path(id): Path<String>,
    Body(body): Body<Order>,
) -> Result<Response, Problem> {
    order(caller, &id, &Verb::Replay, &body.reason, &body).await
}

/// Publishes something else in place of an event, at once or when its turn comes.
#[utoipa::path(post, path = "/api/v1/outbox/failed/{id}/edit", params(("id" = i64, Path, description = "Id of the event")), request_body = EditEvent, responses((status = 200, body = FailedEvent), (status = 400, body = crate::problem::ProblemBody), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn edit(
    caller: Caller,
    Path(id): Path<String>,
    Body(body): Body<EditEvent>,
) -> Result<Response, Problem> {
    if body.payload.is_none() && body.headers.is_none() {
        let remedy = "give `payload`, `headers` or both; to try it again unchanged, replay it";
        return Err(Problem::bad_request("the edit changes nothing", remedy));
    }
    let payload = body.payload.clone().map(EventPayload::stored).transpose()?;
    let edit = Edit::new(payload, body.headers.clone()).map_err(|bad| bad_event(&bad))?;
    order(caller, &id, &Verb::Edit(edit), &body.reason, &body).await
}

/// Publishes an event to another topic, at once or when its turn comes.
#[utoipa::path(post, path = "/api/v1/outbox/failed/{id}/redirect", params(("id" = i64, Path, description = "Id of the event")), request_body = RedirectEvent, responses((status = 200, body = FailedEvent), (status = 400, body = crate::problem::ProblemBody), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn redirect(
    caller: Caller,
    Path(id): Path<String>,
    Body(body): Body<RedirectEvent>,
) -> Result<Response, Problem> {
    order(caller, &id, &redirection(&body.topic)?, &body.reason, &body).await
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

/// Gives an order, and answers with the event as it stands then. Whoever is limited to some topics may give orders about
/// their events only.
async fn order(
    caller: Caller,
    text: &str,
    verb: &Verb,
    reason: &str,
    body: &impl Serialize,
) -> Result<Response, Problem> {
    let (Given(state), Extension(principal), headers) = &caller;
    let id = EventId::new(id(text)?);
    let what = format!("POST /api/v1/outbox/failed/{id}/{} {}", verb.as_str(), json!(body));
    give(FailedEventRequest { state, principal, headers, what, verb, reason }, id).await
}

/// A request about failed events, by a program or by a form.
#[derive(Debug)]
pub(crate) struct FailedEventRequest<'a> {
    pub(crate) state: &'a State,
    pub(crate) principal: &'a Principal,
    pub(crate) headers: &'a HeaderMap,
    /// The whole request as text.
    pub(crate) what: String,
    pub(crate) verb: &'a Verb,
    pub(crate) reason: &'a str,
}

/// Gives an order about one event.
pub(crate) async fn give(asked: FailedEventRequest<'_>, id: EventId) -> Result<Response, Problem> {
    let FailedEventRequest { state, principal, headers, what, verb, reason } = asked;
    let (reason, actor) = (checked(reason)?, principal.actor());
    check_target(principal, verb)?;
    mutation::run_finding(state, principal, headers, &what, async |tx| {
        let unknown = || refused(id, FailedEventRefusal::Unknown);
        let found = tx.outbox().failed_event(id).await?.ok_or_else(unknown)?;
        principal.check_scope(&object(found.record.topic.as_deref()))?;
        let operation = Operation { verb, actor: &actor, reason, limit: 1 };
        let operated = tx.outbox().operate(&Selection::One(id), &operation).await?;
        if let Some((id, refusal)) = operated.refused.first() {
            return Err(refused(*id, *refusal));
        }
        let after = tx.outbox().failed_event(id).await?.ok_or_else(unknown)?;
        Ok((StatusCode::OK, json!(FailedEvent::from(after.record))))
    })
    .await
}

//! What an operator may do with one excepted event.

use super::{Exception, find, object, refused};
use crate::access::Principal;
use crate::api::execution::operate::{Order, checked};
use crate::api::outbox::event::{EventPayload, bad_event};
use crate::api::{Body, id};
use crate::mutation;
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
use tidemill_domain::outbox::exception::{Edit, ExceptionRefusal, Redirect, Verb};
use tidemill_store::outbox::exception::{Operation, Selection};
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
#[utoipa::path(post, path = "/api/v1/outbox/exceptions/{id}/skip", params(("id" = i64, Path, description = "Id of the event")), request_body = Order, responses((status = 200, body = Exception), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn skip(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    headers: HeaderMap,
    Body(body): Body<Order>,
) -> Result<Response, Problem> {
    let asked =
        Asked { state: &state, principal: &principal, headers: &headers, id: EventId::new(id(&text)?) };
    asked.order(&Verb::Skip, &body.reason, &json!(body)).await
}

/// Tries an event again at once, as if it had never been refused.
#[utoipa::path(post, path = "/api/v1/outbox/exceptions/{id}/replay", params(("id" = i64, Path, description = "Id of the event")), request_body = Order, responses((status = 200, body = Exception), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn replay(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    headers: HeaderMap,
    Body(body): Body<Order>,
) -> Result<Response, Problem> {
    let asked =
        Asked { state: &state, principal: &principal, headers: &headers, id: EventId::new(id(&text)?) };
    asked.order(&Verb::Replay, &body.reason, &json!(body)).await
}

/// Publishes something else in place of an event, at once or when its turn comes.
#[utoipa::path(post, path = "/api/v1/outbox/exceptions/{id}/edit", params(("id" = i64, Path, description = "Id of the event")), request_body = EditEvent, responses((status = 200, body = Exception), (status = 400, body = crate::problem::ProblemBody), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn edit(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    headers: HeaderMap,
    Body(body): Body<EditEvent>,
) -> Result<Response, Problem> {
    let asked =
        Asked { state: &state, principal: &principal, headers: &headers, id: EventId::new(id(&text)?) };
    if body.payload.is_none() && body.headers.is_none() {
        let remedy = "give `payload`, `headers` or both; to try it again unchanged, replay it";
        return Err(Problem::bad_request("the edit changes nothing", remedy));
    }
    let payload = body.payload.clone().map(EventPayload::stored).transpose()?;
    let verb = Verb::Edit(Edit::new(payload, body.headers.clone()).map_err(|bad| bad_event(&bad))?);
    asked.order(&verb, &body.reason, &json!(body)).await
}

/// Publishes an event to another topic, at once or when its turn comes.
#[utoipa::path(post, path = "/api/v1/outbox/exceptions/{id}/redirect", params(("id" = i64, Path, description = "Id of the event")), request_body = RedirectEvent, responses((status = 200, body = Exception), (status = 400, body = crate::problem::ProblemBody), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn redirect(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    headers: HeaderMap,
    Body(body): Body<RedirectEvent>,
) -> Result<Response, Problem> {
    let asked =
        Asked { state: &state, principal: &principal, headers: &headers, id: EventId::new(id(&text)?) };
    let verb = redirection(&body.topic, &principal)?;
    asked.order(&verb, &body.reason, &json!(body)).await
}

/// A redirection to a topic that lies within the caller's scopes: they limit where it publishes, too.
pub(super) fn redirection(topic: &str, principal: &Principal) -> Result<Verb, Problem> {
    let redirect = Redirect::new(topic).map_err(|bad| bad_event(&bad))?;
    principal.check_scope(&object(Some(topic)))?;
    Ok(Verb::Redirect(redirect))
}

/// A request about one event.
struct Asked<'a> {
    state: &'a State,
    principal: &'a Principal,
    headers: &'a HeaderMap,
    id: EventId,
}

impl Asked<'_> {
    /// Gives an order, and answers with the event as it stands then. Whoever is limited to some topics may give orders
    /// about their events only.
    async fn order(&self, verb: &Verb, reason: &str, body: &serde_json::Value) -> Result<Response, Problem> {
        let (id, reason, actor) = (self.id, checked(reason)?, self.principal.actor());
        let found = find(self.state, id).await?;
        let object = object(found.record.topic.as_deref());
        let what = format!("POST /api/v1/outbox/exceptions/{id}/{} {body}", verb.as_str());
        mutation::run(self.state, self.principal, &object, self.headers, &what, async |tx| {
            let operation = Operation { verb, actor: &actor, reason, limit: 1 };
            let operated = tx.operate_outbox(&Selection::One(id), &operation).await?;
            if let Some((id, refusal)) = operated.refused.first() {
                return Err(refused(*id, *refusal));
            }
            let after = tx.outbox_exception(id).await?;
            let after = after.ok_or_else(|| refused(id, ExceptionRefusal::Unknown))?;
            Ok((StatusCode::OK, json!(Exception::from(after.record))))
        })
        .await
    }
}

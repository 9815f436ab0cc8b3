//! What an operator may do with many failed events at once: those that are named, or all that a filter lets through.

use super::operate::{FailedEventRequest, check_target, redirection};
use super::{EventFilter, object};
use crate::api::execution::operate::checked;
use crate::api::{Body, limit};
use crate::mutation::{self, Caller};
use crate::problem::Problem;
use axum::Extension;
use axum::extract::State as Given;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::failed_event::Verb;
use tidemill_store::outbox::failed_event::{Operated, Operation, Selection};
use utoipa::ToSchema;

/// An order about many events: `ids`, or a `filter`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ManyEvents {
    /// Why, for those who wonder later.
    reason: String,
    /// These events, at most 500.
    ids: Option<Vec<i64>>,
    /// All that this lets through and that the order can be given for; an empty one lets all through.
    filter: Option<EventFilter>,
    /// With a filter: only events behind this one, which is `next` of the answer before.
    after: Option<i64>,
    /// With a filter: at most so many; 50 when not given, 500 at most.
    limit: Option<u32>,
}

/// A redirection of many events.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RedirectEvents {
    /// The topic.
    topic: String,
    /// Which events, and why.
    events: ManyEvents,
}

/// What became of an order about many events.
#[derive(Debug, Serialize, ToSchema)]
pub struct ManyChanged {
    /// The events that it was done to.
    changed: Vec<i64>,
    /// Those that it was not done to.
    refused: Vec<RefusedEvent>,
    /// There are more: send the same again with `after` this.
    next: Option<i64>,
}

/// An event that an order was not done to.
#[derive(Debug, Serialize, ToSchema)]
pub struct RefusedEvent {
    /// Which.
    id: i64,
    /// The stable code.
    code: String,
    /// Why.
    detail: String,
    /// What the caller can do about it.
    remedy: String,
}

impl From<Operated> for ManyChanged {
    fn from(operated: Operated) -> Self {
        let refused = operated.refused.into_iter().map(|(id, refusal)| RefusedEvent {
            id: id.get(),
            code: refusal.code().to_string(),
            detail: refusal.to_string(),
            remedy: refusal.fix(),
        });
        Self {
            changed: operated.changed.into_iter().map(EventId::get).collect(),
            refused: refused.collect(),
            next: operated.next.map(EventId::get),
        }
    }
}

/// Never publishes these events; those behind them go on.
#[utoipa::path(post, path = "/api/v1/outbox/failed/skip", request_body = ManyEvents, responses((status = 200, body = ManyChanged)))]
pub(crate) async fn skip(caller: Caller, Body(body): Body<ManyEvents>) -> Result<Response, Problem> {
    order(caller, &Verb::Skip, &body, &body).await
}

/// Tries these events again at once.
#[utoipa::path(post, path = "/api/v1/outbox/failed/replay", request_body = ManyEvents, responses((status = 200, body = ManyChanged)))]
pub(crate) async fn replay(caller: Caller, Body(body): Body<ManyEvents>) -> Result<Response, Problem> {
    order(caller, &Verb::Replay, &body, &body).await
}

/// Publishes these events to another topic, at once or when their turn comes.
#[utoipa::path(post, path = "/api/v1/outbox/failed/redirect", request_body = RedirectEvents, responses((status = 200, body = ManyChanged)))]
pub(crate) async fn redirect(caller: Caller, Body(body): Body<RedirectEvents>) -> Result<Response, Problem> {
    order(caller, &redirection(&body.topic)?, &body.events, &body).await
}

/// Gives an order. Whoever is limited to some topics has to name one of them in the filter.
async fn order(
    caller: Caller,
    verb: &Verb,
    events: &ManyEvents,
    body: &impl Serialize,
) -> Result<Response, Problem> {
    let (Given(state), Extension(principal), headers) = &caller;
    let (selection, limit) = selection(events.clone())?;
    let what = format!("POST /api/v1/outbox/failed/{} {}", verb.as_str(), json!(body));
    let asked = FailedEventRequest { state, principal, headers, what, verb, reason: &events.reason };
    let (status, body) = give(asked, &selection, limit).await?;
    Ok(mutation::answer(status, body))
}

/// Gives an order about many events, and returns the answer that is kept of it.
pub(crate) async fn give(
    asked: FailedEventRequest<'_>,
    selection: &Selection,
    limit: u32,
) -> Result<(u16, String), Problem> {
    let FailedEventRequest { state, principal, headers, what, verb, reason } = asked;
    let (reason, actor) = (checked(reason)?, principal.actor());
    check_target(principal, verb)?;
    let object = match selection {
        Selection::Matching { filter, .. } => object(filter.topic.as_deref()),
        Selection::One(_) | Selection::Selected(_) => object(None),
    };
    mutation::run_for_body(state, principal, &object, headers, &what, async |tx| {
        let operation = Operation { verb, actor: &actor, reason, limit };
        let operated = tx.outbox().operate(selection, &operation).await?;
        Ok((StatusCode::OK, json!(ManyChanged::from(operated))))
    })
    .await
}

/// Most ids in one request.
pub(crate) const IDS_MAX: usize = 500;

fn selection(events: ManyEvents) -> Result<(Selection, u32), Problem> {
    match (events.ids, events.filter) {
        (Some(ids), None) if (1..=IDS_MAX).contains(&ids.len()) => {
            let ids = ids.into_iter().map(EventId::new).collect();
            Ok((Selection::Selected(ids), limit(Some(500))?))
        }
        (Some(_), None) => Err(Problem::bad_request(
            "the list of ids is empty or too long",
            format!("name 1 to {IDS_MAX} events, or use a filter"),
        )),
        (None, Some(filter)) => {
            let filter = filter.checked()?;
            let after = EventId::new(events.after.unwrap_or(0));
            Ok((Selection::Matching { filter, after }, limit(events.limit)?))
        }
        (None, None) | (Some(_), Some(_)) => Err(Problem::bad_request(
            "it has to be said which events are meant, in one way",
            "give `ids` or a `filter`; an empty filter means all",
        )),
    }
}

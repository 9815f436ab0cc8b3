//! What an operator may do with many failed events at once: those that are named, or all that a filter lets through.

use super::operate::{check_target, redirection};
use super::{EventFilter, object};
use crate::api::limit;
use crate::operate::{ActionBody, ActionRequest, Outcome, Parameters};
use crate::problem::Problem;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidemill_domain::action::Action;
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::failed_event::Verb;
use tidemill_store::Tx;
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

impl ActionBody for ManyEvents {
    fn reason(&self) -> Option<&str> {
        Some(&self.reason)
    }

    fn parameters(&self) -> Result<Parameters, Problem> {
        let (selection, limit) = selection(self.clone())?;
        Ok(Parameters::Events { verb: None, selection, limit })
    }
}

impl ActionBody for RedirectEvents {
    fn reason(&self) -> Option<&str> {
        self.events.reason()
    }

    fn parameters(&self) -> Result<Parameters, Problem> {
        let (selection, limit) = selection(self.events.clone())?;
        Ok(Parameters::Events { verb: Some(redirection(&self.topic)?), selection, limit })
    }
}

/// Changes many events. Whoever is limited to some topics has to name one of them in the filter.
pub(crate) async fn perform(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
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
    Ok((StatusCode::OK, json!(ManyChanged::from(operated))))
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

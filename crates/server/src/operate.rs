//! Actions of operators: the handler of the API, and one way to run an action for the API and for forms.
//! [`tidemill_domain::action`] declares the actions; the file of each noun performs them.

use crate::api::{self, Body};
use crate::mutation::{self, Caller};
use crate::problem::Problem;
use crate::state::State;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, delete, on, post};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidemill_api::alert::{CreateSilence, EndSilence};
use tidemill_api::execution::RestartExecution;
use tidemill_api::failed_event::{ChangeEvents, ChangeRows, EditEvent, RedirectEvent, RedirectEvents};
use tidemill_api::render::selection::{ChangeRenders, PrioritizeRender, PrioritizeRenders};
use tidemill_api::render::{ApproveRender, CorrectRender, RejectRender};
use tidemill_domain::action::{Action, Reason};
use tidemill_domain::audit::{self, Actor};
use tidemill_domain::code::Code;
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::failed_event::Verb;
use tidemill_domain::render::selection::PriorityChange;
use tidemill_engine::render::{Correction, Selection as RenderSelection};
use tidemill_store::Tx;
use tidemill_store::outbox::failed_event::Selection;
use utoipa::ToSchema;

/// The body of an action with an optional reason.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "reason": "the maintenance is over" }))]
pub struct OptionalReason {
    /// Kept in the audit log.
    reason: Option<String>,
}

/// The body of an action that needs a reason.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "reason": "the maintenance window begins" }))]
pub struct Order {
    /// Kept in the audit log.
    reason: String,
}

pub(crate) trait ActionBody: DeserializeOwned + Serialize + Send + Sync + 'static {
    /// The reason, and what else the action needs.
    fn read(&self) -> Result<(Option<&str>, Parameters), Problem>;
}

impl ActionBody for OptionalReason {
    fn read(&self) -> Result<(Option<&str>, Parameters), Problem> {
        Ok((self.reason.as_deref().map(checked).transpose()?, Parameters::None))
    }
}

impl ActionBody for Order {
    fn read(&self) -> Result<(Option<&str>, Parameters), Problem> {
        Ok((Some(checked(&self.reason)?), Parameters::None))
    }
}

/// What an action needs besides its object and the reason.
#[derive(Debug)]
pub(crate) enum Parameters {
    None,
    /// What is changed about one failed event.
    Event(Verb),
    /// Which failed events, and how many at most; the verb only where it says more than the action.
    Events {
        verb: Option<Verb>,
        selection: Selection,
        limit: u32,
    },
    Rows(Vec<EventId>),
    Correction(Correction),
    Priority(PriorityChange),
    /// Which renders, and the change of their priority.
    Renders(RenderSelection, Option<PriorityChange>),
    /// The revision that somebody has looked at.
    Revision(Option<i64>),
    /// A silence checks its own reason.
    Silence(CreateSilence),
    EndSilence(EndSilence),
}

/// A request for an action, by a program or by a form.
#[derive(Debug)]
pub(crate) struct ActionRequest<'a> {
    pub(crate) action: Action,
    pub(crate) caller: &'a Caller,
    /// The whole request as text.
    pub(crate) what: String,
    /// The values of the path; the last one names the object.
    pub(crate) places: &'a [String],
    pub(crate) reason: Option<&'a str>,
    pub(crate) parameters: Parameters,
}

pub(crate) type Outcome = Result<(StatusCode, Value), Problem>;

impl ActionRequest<'_> {
    /// Performs it in a transaction, or repeats the response of the same request.
    pub(crate) async fn run(&self) -> Result<(u16, String), Problem> {
        if let Parameters::Renders(selection, priority) = &self.parameters {
            return api::render::selection::run(self, selection, *priority).await;
        }
        self.caller.once(&self.what, async |tx| perform(self, tx).await).await
    }

    pub(crate) fn object(&self) -> &str {
        self.places.last().map_or("", String::as_str)
    }

    pub(crate) fn id(&self) -> Result<i64, Problem> {
        api::id(self.object())
    }

    pub(crate) fn actor(&self) -> Actor {
        self.caller.principal.actor()
    }

    pub(crate) fn check_scope(&self, object: &str) -> Result<(), Problem> {
        self.caller.principal.check_scope(object)
    }

    /// The reason of an action that needs one.
    pub(crate) fn required_reason(&self) -> &str {
        self.reason.unwrap_or_default()
    }

    /// A bug: the action does not belong to this handler.
    pub(crate) fn mistaken(&self) -> Problem {
        Problem::new(Code::Unexpected, format!("{} is not handled here", self.action), "report it")
    }
}

async fn perform(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    match request.action {
        // A restart runs on after its transaction; see `api::execution::operate::restart`.
        Action::ExecutionRestart => Err(request.mistaken()),
        Action::ExecutionStop | Action::ExecutionAbandon | Action::ExecutionRecover => {
            api::execution::operate::perform(request, tx).await
        }
        Action::SchedulePause | Action::ScheduleResume => api::schedule::perform(request, tx).await,
        Action::PoolPause
        | Action::PoolResume
        | Action::BreakerOpen
        | Action::BreakerClose
        | Action::PoolDelete => api::pool::define::perform(request, tx).await,
        Action::LeaseRelease => api::pool::lease::perform(request, tx).await,
        Action::EventReplay | Action::EventSkip | Action::EventRedirect | Action::EventEdit => {
            api::outbox::failed_event::one(request, tx).await
        }
        Action::EventsReplay | Action::EventsSkip | Action::EventsRedirect => {
            api::outbox::failed_event::many(request, tx).await
        }
        Action::RowsReplay | Action::RowsSkip => api::outbox::attached::perform(request, tx).await,
        Action::RenderCancel
        | Action::RenderApprove
        | Action::RenderReject
        | Action::RenderRetry
        | Action::RenderPrioritize
        | Action::RenderCorrect
        | Action::RenderRecover => api::render::perform(request, tx).await,
        // They need several transactions; see `api::render::selection::run`.
        Action::RendersCancel | Action::RendersRetry | Action::RendersPrioritize => Err(request.mistaken()),
        Action::BatchRetry => api::render::batch::retry(request, tx).await,
        Action::RendersPoll => api::render::poll(request, tx),
        Action::AlertSilence => api::alert::silence(request, tx).await,
        Action::AlertUnsilence => api::alert::unsilence(request, tx).await,
        Action::TokenDelete => api::token::revoke(request, tx).await,
    }
}

/// The handler of an action in the API, and the schema of the body that it reads.
pub(crate) fn route(action: Action) -> (MethodRouter<State>, Option<String>) {
    match action {
        Action::ExecutionRestart => {
            (post(api::execution::operate::restart), Some(RestartExecution::name().into()))
        }
        Action::EventEdit => with_body::<EditEvent>(action),
        Action::EventRedirect => with_body::<RedirectEvent>(action),
        Action::EventsReplay | Action::EventsSkip => with_body::<ChangeEvents>(action),
        Action::EventsRedirect => with_body::<RedirectEvents>(action),
        Action::RowsReplay | Action::RowsSkip => with_body::<ChangeRows>(action),
        Action::RenderCorrect => with_body::<CorrectRender>(action),
        Action::RenderPrioritize => with_body::<PrioritizeRender>(action),
        Action::RendersCancel | Action::RendersRetry => with_body::<ChangeRenders>(action),
        Action::RendersPrioritize => with_body::<PrioritizeRenders>(action),
        Action::RenderApprove => with_body::<ApproveRender>(action),
        Action::RenderReject => with_body::<RejectRender>(action),
        Action::AlertSilence => with_body::<CreateSilence>(action),
        Action::AlertUnsilence => with_body::<EndSilence>(action),
        Action::PoolDelete | Action::TokenDelete => {
            let handler = delete(move |caller: Caller, Path(places): Path<Vec<String>>| {
                by_api(action, caller, places, OptionalReason::default())
            });
            (handler, None)
        }
        _ if action.declaration().reason == Reason::Required => with_body::<Order>(action),
        _ => with_body::<OptionalReason>(action),
    }
}

fn with_body<B: ActionBody + ToSchema>(action: Action) -> (MethodRouter<State>, Option<String>) {
    let is_deletion = action.declaration().method == "DELETE";
    let method = if is_deletion { MethodFilter::DELETE } else { MethodFilter::POST };
    let handler = on(method, move |caller: Caller, Path(places): Path<Vec<String>>, Body(body): Body<B>| {
        by_api(action, caller, places, body)
    });
    (handler, Some(B::name().into()))
}

async fn by_api<B: ActionBody>(
    action: Action,
    caller: Caller,
    places: Vec<String>,
    body: B,
) -> Result<Response, Problem> {
    let declared = action.declaration();
    let what = format!("{} {} {}", declared.method, with_places(declared.path, &places), json!(body));
    let (reason, parameters) = body.read()?;
    let request = ActionRequest { action, caller: &caller, what, places: &places, reason, parameters };
    let (status, body) = request.run().await?;
    Ok(mutation::answer(status, body))
}

fn with_places(template: &str, places: &[String]) -> String {
    let mut places = places.iter();
    let parts = template.split('/').map(|part| match part.starts_with('{') {
        true => places.next().map_or(part, String::as_str),
        false => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Checks that a reason is not empty and fits into the audit log.
pub(crate) fn checked(reason: &str) -> Result<&str, Problem> {
    audit::reason(reason).map_err(|bad| Problem::bad_request(bad.to_string(), bad.fix()))
}

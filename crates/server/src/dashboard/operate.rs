//! Actions by forms: one handler for all, and the page of the question before some of them.

use super::form::{self, ActionForm, Fields, Pairs};
use super::job::schedule;
use super::outbox::failed_event::{many, one};
use super::page_context::home;
use super::part::given;
use super::pool::{breaker, order as pool};
use super::preferences::is_ours;
use super::render::{batch, one as render, selection};
use super::{PageContext, PageResult, PageSnapshot, execution};
use crate::api::execution::operate::restart_request;
use crate::api::job::launch::launch_job;
use crate::api::pool::named;
use crate::api::{QueryString, id};
use crate::operate::{ActionRequest, Parameters, checked};
use crate::problem::Problem;
use crate::state::State;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, get, post};
use maud::html;
use serde::Deserialize;
use tidemill_api::alert::{CreateSilence, EndSilence};
use tidemill_api::execution::RestartExecution;
use tidemill_domain::access::Permission;
use tidemill_domain::action::{Action, Confirmation, Reason};
use tidemill_domain::job::ExecutionId;
use tidemill_engine::render::Correction;

/// The recorded reason of a click: a button has no field for a reason, and every change of a pool needs one.
const ONE_CLICK: &str = "with one click on the dashboard";

/// The permission for the question page of an action; none if it has no such page.
pub(crate) const fn asks(action: Action) -> Option<Permission> {
    match action {
        Action::LeaseRelease
        | Action::BreakerOpen
        | Action::BreakerClose
        | Action::EventReplay
        | Action::EventSkip
        | Action::EventsReplay
        | Action::EventsSkip => Some(Permission::View),
        Action::RenderCancel
        | Action::RenderApprove
        | Action::RenderReject
        | Action::RenderRetry
        | Action::RenderPrioritize
        | Action::RenderCorrect
        | Action::RenderRecover
        | Action::RendersCancel
        | Action::RendersRetry
        | Action::RendersPrioritize
        | Action::BatchRetry => Some(Permission::Operate),
        _ => None,
    }
}

/// The handler of the question page.
pub(crate) fn question(action: Action) -> MethodRouter<State> {
    match action {
        Action::EventsReplay | Action::EventsSkip => {
            get(move |visit: PageContext, QueryString(pairs): QueryString<Pairs>| async move {
                many::ask(action, &visit, &pairs).await
            })
        }
        Action::RendersCancel | Action::RendersRetry | Action::RendersPrioritize => {
            get(move |visit: PageContext, QueryString(pairs): QueryString<Pairs>| async move {
                selection::ask(action, &visit, &pairs).await
            })
        }
        _ => get(
            move |visit: PageContext,
                  Path(places): Path<Vec<String>>,
                  QueryString(back): QueryString<Back>| { ask(action, visit, places, back) },
        ),
    }
}

/// The handler of the form.
pub(crate) fn handler(action: Action) -> MethodRouter<State> {
    match action {
        Action::EventsReplay | Action::EventsSkip => {
            post(move |visit: PageContext, Fields(pairs): Fields<Pairs>| async move {
                many::order(action, &visit, &pairs).await
            })
        }
        Action::RendersCancel | Action::RendersRetry | Action::RendersPrioritize => {
            post(move |visit: PageContext, Fields(pairs): Fields<Pairs>| async move {
                selection::order(action, &visit, &pairs).await
            })
        }
        _ => post(
            move |visit: PageContext, Path(places): Path<Vec<String>>, Fields(fields): Fields<ActionForm>| {
                by_form(action, visit, places, fields)
            },
        ),
    }
}

/// The page to return to.
#[derive(Debug, Deserialize)]
pub(crate) struct Back {
    #[serde(default)]
    back: String,
}

pub(super) fn ours<'a>(state: &State, back: &'a str) -> Option<&'a str> {
    Some(back).filter(|back| is_ours(&home(state), back))
}

fn object(places: &[String]) -> &str {
    places.last().map_or("", String::as_str)
}

async fn ask(action: Action, visit: PageContext, places: Vec<String>, back: Back) -> PageResult {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let object = object(&places);
    let question = match action {
        Action::LeaseRelease => pool::question(&visit, &mut tx, &places).await?,
        Action::BreakerOpen | Action::BreakerClose => {
            breaker::question(action, &visit, &mut tx, object, common.now).await?
        }
        Action::EventReplay | Action::EventSkip => {
            one::question(action, &visit, &mut tx, object, common.now).await?
        }
        Action::BatchRetry => batch::question(&visit, &mut tx, object).await?,
        _ => {
            let back = ours(&visit.state, &back.back);
            render::question(action, &visit, &mut tx, object, back, common.now).await?
        }
    };
    Ok(question.render(&visit, &common, &html! {}))
}

async fn by_form(
    action: Action,
    visit: PageContext,
    places: Vec<String>,
    fields: ActionForm,
) -> Result<Response, Problem> {
    form::check(&visit.principal, &fields.form_token)?;
    let done = match action {
        Action::ExecutionRestart => restart(&visit, &places, &fields).await,
        _ => run(action, &visit, &places, &fields).await,
    };
    match (done, action) {
        (Ok(address), _) => Ok(Redirect::to(&address).into_response()),
        // A refusal is shown on the page of the execution.
        (Err(problem), Action::ExecutionRestart | Action::ExecutionStop | Action::ExecutionAbandon) => {
            let page = execution::page::show(&visit, execution_id(&places)?, Some(&problem)).await?;
            Ok((problem.status(), page).into_response())
        }
        (Err(problem), _) => Err(problem),
    }
}

fn execution_id(places: &[String]) -> Result<ExecutionId, Problem> {
    id(object(places)).map(ExecutionId::new)
}

/// Runs the action and returns the address of the page that shows the result.
async fn run(
    action: Action,
    visit: &PageContext,
    places: &[String],
    fields: &ActionForm,
) -> Result<String, Problem> {
    let reason = reason(action, fields)?;
    let object = object(places);
    if let (Action::LeaseRelease, Some(pool)) = (action, places.first()) {
        named(pool)?;
    }
    if action.declaration().confirmation == Confirmation::Number {
        form::confirmed(&fields.confirm, id(object)?)?;
    }
    let caller = match action {
        // One form has the buttons of many pools, so its key alone does not identify the request.
        Action::PoolPause | Action::PoolResume if !fields.key.is_empty() => {
            visit.caller(&format!("{}/{}/{object}", fields.key, action.verb()))
        }
        _ => visit.caller(&fields.key),
    };
    let parameters = parameters(action, fields)?;
    let what = format!("form: {action} {places:?} {reason:?} {parameters:?}");
    let request = ActionRequest { action, caller: &caller, what, places, reason, parameters };
    match (request.run().await, action) {
        // It has already ended: the form has its effect.
        (Err(problem), Action::AlertUnsilence | Action::TokenDelete)
            if problem.status() == StatusCode::NOT_FOUND => {}
        (done, _) => {
            done?;
        }
    }
    address_after(action, visit, places, fields).await
}

fn reason(action: Action, fields: &ActionForm) -> Result<Option<&str>, Problem> {
    let given = Some(fields.reason.as_str()).filter(|reason| !reason.trim().is_empty());
    match (action, action.declaration().reason, given) {
        (Action::PoolPause | Action::PoolResume, _, None) => Ok(Some(ONE_CLICK)),
        // A silence checks its own reason.
        (Action::AlertSilence, ..) => Ok(None),
        (_, Reason::Required, _) => checked(&fields.reason).map(Some),
        (_, Reason::Optional | Reason::None, given) => given.map(checked).transpose(),
    }
}

fn parameters(action: Action, fields: &ActionForm) -> Result<Parameters, Problem> {
    let subject = given(&fields.subject).map(str::to_owned);
    Ok(match action {
        Action::AlertSilence => Parameters::Silence(CreateSilence {
            rule: fields.rule.trim().to_owned(),
            subject,
            minutes: fields.hours.saturating_mul(60),
            reason: fields.reason.clone(),
        }),
        Action::AlertUnsilence => Parameters::EndSilence(EndSilence { rule: fields.rule.clone(), subject }),
        Action::RenderCorrect => Parameters::Correction(Correction {
            data: given(&fields.data).map(str::to_owned),
            revision: revision(fields)?,
            ..Correction::default()
        }),
        Action::RenderPrioritize => {
            Parameters::Priority(selection::priority_change(&fields.how, &fields.priority)?)
        }
        Action::RenderApprove | Action::RenderReject => Parameters::Revision(revision(fields)?),
        _ => Parameters::None,
    })
}

/// The revision of the render that the page has shown.
fn revision(fields: &ActionForm) -> Result<Option<i64>, Problem> {
    let revision = given(&fields.revision).map(str::parse::<i64>).transpose();
    revision.map_err(|_| Problem::bad_request("revision is not a number", "open the page again"))
}

/// Restarts an execution; returns the address of the new one.
async fn restart(visit: &PageContext, places: &[String], fields: &ActionForm) -> Result<String, Problem> {
    let (id, action) = (execution_id(places)?, Action::ExecutionRestart);
    let what = format!("form: {action} {id} {} {}", fields.reason, fields.accept_change);
    let body = RestartExecution {
        reason: reason(action, fields)?.map(str::to_owned),
        accept_change: fields.accept_change == "yes",
    };
    let answer = launch_job(restart_request(visit.caller(&fields.key), what, id, &body).await?).await?;
    Ok(visit.state.path(&format!("/executions/{}", answer.id()?)))
}

async fn address_after(
    action: Action,
    visit: &PageContext,
    places: &[String],
    fields: &ActionForm,
) -> Result<String, Problem> {
    let (state, object) = (&visit.state, object(places));
    let back_or = |own: String| ours(state, &fields.back).map_or_else(|| state.path(&own), str::to_owned);
    Ok(match action {
        Action::SchedulePause | Action::ScheduleResume => schedule::address_of(visit, object).await?,
        Action::PoolPause | Action::PoolResume => {
            pool::address_after(action, &back_or("/pools".into()), object)
        }
        Action::BreakerOpen | Action::BreakerClose => back_or(format!("/pools/{object}")),
        Action::LeaseRelease => back_or(format!("/pools/{}", places.first().map_or("", String::as_str))),
        Action::EventReplay | Action::EventSkip => back_or(format!("/outbox/failed/{object}")),
        Action::RenderCancel
        | Action::RenderApprove
        | Action::RenderReject
        | Action::RenderRetry
        | Action::RenderPrioritize
        | Action::RenderCorrect
        | Action::RenderRecover => back_or(format!("/render/{object}")),
        Action::BatchRetry => state.path(&format!("/render/batches/{object}")),
        Action::AlertSilence | Action::AlertUnsilence => state.path("/alerts"),
        Action::TokenDelete => state.path("/settings/tokens"),
        _ => state.path(&format!("/executions/{object}")),
    })
}

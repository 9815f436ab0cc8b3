//! The page of an execution and its live regions, and the execution as a JSON file.

use super::page_data::PageData;
use super::{action, content, head, log, step, timeline};
use crate::api::execution::{contexts, report};
use crate::api::id;
use crate::dashboard::part::{attachment, panel, plain_panel, refusal_banner, table};
use crate::dashboard::region::show as show_region;
use crate::dashboard::{
    Audience, Frame, Page, PageContext, PageResult, PageSnapshot, Region, Section, Times, audit,
};
use crate::problem::Problem;
use crate::state::State;
use axum::extract::{Path, State as Given};
use axum::response::Response;
use maud::html;
use serde_json::json;
use tidemill_domain::job::ExecutionId;
use tidemill_engine::job::JobError;

/// The live regions. The page is made of the same.
pub(crate) fn regions(state: &State, data: &PageData, times: &Times) -> Vec<Region> {
    let audience = || Audience::At(Page::Execution(data.execution().id));
    vec![
        Region::whole("head", audience(), head::markup(state, data, times)),
        Region::whole("actions", audience(), action::markup(state, data)),
        Region::whole("fault", audience(), head::fault(data)),
        step::region(data, audience(), times),
        Region::whole("logs", audience(), log::markup(state, data)),
        Region::whole("timeline", audience(), timeline::markup(state, data, times)),
        audit::region(&data.events, audience(), &html! { "No audit entries." }, times),
    ]
}

pub(crate) async fn page(visit: PageContext, Path(text): Path<String>) -> PageResult {
    show(&visit, ExecutionId::new(id(&text)?), None).await
}

/// The page; `refused` is the problem of an action that was refused.
pub(crate) async fn show(visit: &PageContext, id: ExecutionId, refused: Option<&Problem>) -> PageResult {
    let state = &visit.state;
    let (common, mut tx) = PageSnapshot::read(state).await?;
    let data = PageData::read(state, &mut tx, id).await?.ok_or(JobError::UnknownExecution(id))?;
    let content = content::Content::read(visit, &mut tx, &data).await?;
    let times = visit.times(common.now);
    let regions = regions(state, &data, &times);
    let live = |name: &str| show_region(&regions, name);
    let execution = data.execution();
    let name = format!("{} #{id}", execution.job);
    let title = format!("{} {name}", execution.status);
    let of_instance =
        html! { span.soft { "All executions of the instance, without the time between them." } };
    let markup = html! {
        @if let Some(problem) = refused { (refusal_banner(problem)) }
        (live("head"))
        (live("fault"))
        (action::panel_of(visit, &data, &live("actions")))
        (plain_panel("steps", "Steps", &table("Steps", step::COLUMNS, &live("steps"))))
        (live("logs"))
        (panel("timeline", "Timeline", &of_instance, &live("timeline")))
        @if let Some(rejects) = content.rejects() { (plain_panel("skipped", "Skipped items", &rejects)) }
        (panel("context", "Context", &html! { span.soft { "As of when this page was opened." } }, &content.contexts()))
        (plain_panel("events", "Events", &table("Events", audit::COLUMNS, &live("events"))))
    };
    let frame = Frame::new(visit, &common, Section::Jobs).titled(&name).live(Page::Execution(id));
    Ok(frame.render_in(&title, &markup))
}

/// The execution with its steps and contexts as a file.
pub(crate) async fn download(
    Given(state): Given<State>,
    Path(text): Path<String>,
) -> Result<Response, Problem> {
    let id = ExecutionId::new(id(&text)?);
    let mut tx = state.read().await?;
    let (mut report, steps) = report(&mut tx, id).await?;
    report.contexts = Some(contexts(&mut tx, id, &steps).await?);
    let text = format!("{:#}\n", json!(report));
    Ok(attachment(&format!("execution-{id}.json"), "application/json", text))
}

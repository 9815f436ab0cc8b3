//! The page of an execution and its live regions, and the execution as a JSON file.

use super::page_data::PageData;
use super::{action, content, fault, head, log, step, timeline};
use crate::api::execution::{contexts, report};
use crate::api::id;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::instant::Times;
use crate::dashboard::overview::event;
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{empty_row, panel, refusal_banner, table};
use crate::dashboard::region::{Audience, Page, Region, Row};
use crate::problem::Problem;
use crate::state::State;
use axum::extract::{Path, State as Given};
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, html};
use serde_json::json;
use tidemill_domain::job::ExecutionId;
use tidemill_engine::job::JobError;
use tidemill_store::{StoreError, Tx};

/// The live regions of the page.
#[derive(Debug)]
pub(crate) struct Regions {
    head: Region,
    actions: Region,
    fault: Region,
    steps: Region,
    logs: Region,
    timeline: Region,
    events: Region,
}

impl Regions {
    fn new(state: &State, data: &PageData, times: &Times) -> Self {
        let audience = || Audience::At(Page::Execution(data.execution().id));
        Self {
            head: Region::whole("head", audience(), head::markup(state, data, times)),
            actions: Region::whole("actions", audience(), action::markup(state, data)),
            fault: Region::whole("fault", audience(), fault::markup(data)),
            steps: step::region(data, audience(), times),
            logs: Region::whole("logs", audience(), log::markup(state, data)),
            timeline: Region::whole("timeline", audience(), timeline::markup(state, data, times)),
            events: events(data, audience(), times),
        }
    }

    /// Reads and renders the regions; empty if the execution no longer exists.
    pub(crate) async fn read(
        state: &State,
        tx: &mut Tx,
        id: ExecutionId,
        times: &Times,
    ) -> Result<Vec<Region>, StoreError> {
        let Some(data) = PageData::read(state, tx, id).await? else { return Ok(Vec::new()) };
        let Self { head, actions, fault, steps, logs, timeline, events } = Self::new(state, &data, times);
        Ok(vec![head, actions, fault, steps, logs, timeline, events])
    }
}

fn events(data: &PageData, audience: Audience, times: &Times) -> Region {
    let row = |record| Row::new(event::name(record), event::row(record, times));
    let without = empty_row(event::COLUMNS.len(), &html! { "No audit entries." });
    Region::table_body("events", audience, data.events.iter().map(row).collect(), without, html! {})
}

pub(crate) async fn page(visit: PageContext, Path(text): Path<String>) -> Result<Html<String>, Problem> {
    show(&visit, ExecutionId::new(id(&text)?), None).await
}

/// The page; `refused` is the problem of an action that was refused.
pub(crate) async fn show(
    visit: &PageContext,
    id: ExecutionId,
    refused: Option<&Problem>,
) -> Result<Html<String>, Problem> {
    let state = &visit.state;
    let (common, mut tx) = PageSnapshot::read(state).await?;
    let data = PageData::read(state, &mut tx, id).await?.ok_or(JobError::UnknownExecution(id))?;
    let content = content::Content::read(visit, &mut tx, &data).await?;
    let times = visit.times(common.now);
    let regions = Regions::new(state, &data, &times);
    let execution = data.execution();
    let name = format!("{} #{id}", execution.job);
    let title = format!("{} {name}", execution.status);
    let markup = html! {
        @if let Some(problem) = refused { (refusal_banner(problem)) }
        (regions.head.markup())
        (regions.fault.markup())
        (action::panel_of(visit, &data, &regions.actions))
        (body(&regions, &content))
    };
    let frame = Frame::new(visit, &common, Section::Jobs).titled(&name).live(Page::Execution(id));
    Ok(frame.render_in(&title, &markup))
}

fn body(regions: &Regions, content: &content::Content) -> Markup {
    let nothing = html! {};
    html! {
        (panel("steps", "Steps", &nothing, &table("Steps", step::COLUMNS, &regions.steps.markup())))
        (regions.logs.markup())
        (panel("timeline", "Timeline", &html! { span.soft { "All executions of the instance, without the time between them." } },
            &regions.timeline.markup()))
        @if let Some(rejects) = content.rejects() {
            (panel("skipped", "Skipped items", &nothing, &rejects))
        }
        (panel("context", "Context", &html! { span.soft { "As of when this page was opened." } },
            &content.contexts()))
        (panel("events", "Events", &nothing, &table("Events", event::COLUMNS, &regions.events.markup())))
    }
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
    let name = format!("attachment; filename=\"execution-{id}.json\"");
    let headers =
        [(header::CONTENT_TYPE, "application/json".to_owned()), (header::CONTENT_DISPOSITION, name)];
    Ok((headers, format!("{:#}\n", json!(report))).into_response())
}

//! The page of an execution, and its parts that change by themselves.

use super::page_data::Seen;
use super::{action, content, fault, head, step, timeline};
use crate::api::id;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::instant::Times;
use crate::dashboard::overview::event;
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{empty_row, panel, refusal_banner, table, wide_table};
use crate::dashboard::region::{Audience, Page, Region, Row};
use crate::problem::Problem;
use crate::state::State;
use axum::extract::Path;
use axum::response::Html;
use maud::{Markup, html};
use tidemill_domain::job::ExecutionId;
use tidemill_engine::job::JobError;
use tidemill_store::{StoreError, Tx};

/// The parts that change by themselves. The page is put together from the very same.
#[derive(Debug)]
pub(crate) struct Regions {
    head: Region,
    actions: Region,
    fault: Region,
    steps: Region,
    timeline: Region,
    events: Region,
}

impl Regions {
    fn new(state: &State, seen: &Seen, times: &Times) -> Self {
        let audience = || Audience::At(Page::Execution(seen.execution().id));
        Self {
            head: Region::whole("head", audience(), head::markup(state, seen, times)),
            actions: Region::whole("actions", audience(), action::markup(state, seen)),
            fault: Region::whole("fault", audience(), fault::markup(seen)),
            steps: step::region(seen, audience(), times),
            timeline: Region::whole("timeline", audience(), timeline::markup(state, seen, times.now())),
            events: events(seen, audience(), times),
        }
    }

    /// Looks, and renders them for those who compare and send; none when there is no such execution any more.
    pub(crate) async fn read(
        state: &State,
        tx: &mut Tx,
        id: ExecutionId,
        times: &Times,
    ) -> Result<Vec<Region>, StoreError> {
        let Some(seen) = Seen::read(state, tx, id).await? else { return Ok(Vec::new()) };
        let Self { head, actions, fault, steps, timeline, events } = Self::new(state, &seen, times);
        Ok(vec![head, actions, fault, steps, timeline, events])
    }
}

fn events(seen: &Seen, audience: Audience, times: &Times) -> Region {
    let row = |record| Row::new(event::name(record), event::row(record, times));
    let without = empty_row(event::COLUMNS.len(), &html! { "The audit log has nothing about it." });
    Region::table_body("events", audience, seen.events.iter().map(row).collect(), without, html! {})
}

pub(crate) async fn page(visit: PageContext, Path(text): Path<String>) -> Result<Html<String>, Problem> {
    show(&visit, ExecutionId::new(id(&text)?), None).await
}

/// The page, perhaps after something was refused.
pub(crate) async fn show(
    visit: &PageContext,
    id: ExecutionId,
    refused: Option<&Problem>,
) -> Result<Html<String>, Problem> {
    let state = &visit.state;
    let (common, mut tx) = PageSnapshot::read(state).await?;
    let seen = Seen::read(state, &mut tx, id).await?.ok_or(JobError::UnknownExecution(id))?;
    let content = content::Content::read(visit, &mut tx, &seen).await?;
    let times = visit.times(common.now);
    let regions = Regions::new(state, &seen, &times);
    let execution = seen.execution();
    let name = format!("{} #{id}", execution.job);
    let title = format!("{} {name}", execution.status);
    let markup = html! {
        @if let Some(problem) = refused { (refusal_banner(problem)) }
        (regions.head.markup())
        (regions.fault.markup())
        (action::panel_of(visit, &seen, &regions.actions))
        (body(&regions, &content))
    };
    let (section, page) = (Section::Jobs, Page::Execution(id));
    let frame = Frame { visit, common: &common, section, title: Some(&name), page };
    Ok(frame.render_in(&title, &markup))
}

fn body(regions: &Regions, content: &content::Content) -> Markup {
    let nothing = html! {};
    html! {
        (panel("steps", "Steps", &nothing, &wide_table("Steps", step::COLUMNS, &regions.steps.markup())))
        (panel("timeline", "Timeline", &html! { span.soft { "All executions of the instance, without the time between them." } },
            &regions.timeline.markup()))
        @if let Some(rejects) = content.rejects() {
            (panel("skipped", "Skipped items", &nothing, &rejects))
        }
        (panel("context", "Context", &html! { span.soft { "What it remembers, as of when this page was opened." } },
            &content.contexts()))
        (panel("events", "Events", &nothing, &table("Events", event::COLUMNS, &regions.events.markup())))
    }
}

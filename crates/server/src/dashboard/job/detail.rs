//! The page of one job: executions, the form to run it, schedules, instances and definition.

use super::list::SCHEDULES_MAX;
use super::run::{self, RefusedRun};
use super::{chart, definition, instance, schedule};
use crate::api::QueryString;
use crate::dashboard::execution::ExecutionsView;
use crate::dashboard::execution::list::Executions;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::plain_panel;
use crate::dashboard::region::Page;
use crate::problem::Problem;
use axum::extract::Path;
use axum::response::Html;
use maud::html;
use serde::Deserialize;
use tidemill_engine::job::JobError;
use tidemill_store::schedule::ScheduleRecord;

const NOT_HERE: &str =
    "This server does not have the job. It shows the executions in the database but cannot run the job.";

/// Filters of the lists of the page. Empty fields of the form count as missing.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct JobPageQuery {
    #[serde(default)]
    status: String,
    instance: Option<i64>,
    before: Option<i64>,
    pub(super) instances_before: Option<i64>,
}

pub(crate) async fn job(
    visit: PageContext,
    Path(name): Path<String>,
    QueryString(query): QueryString<JobPageQuery>,
) -> Result<Html<String>, Problem> {
    show(&visit, &name, &query, None).await
}

/// The page; `refused` is a launch that was refused.
pub(super) async fn show(
    visit: &PageContext,
    name: &str,
    query: &JobPageQuery,
    refused: Option<&RefusedRun>,
) -> Result<Html<String>, Problem> {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let runs = tx.jobs().recent_runs(&[name], chart::BARS).await?.remove(name).unwrap_or_default();
    let view = ExecutionsView::new(name, &query.status, query.instance, query.before);
    let executions = Executions::read(&mut tx, &view).await?;
    let instances = instance::Instances::read(&mut tx, name, query).await?;
    let mut schedules: Vec<ScheduleRecord> = tx.schedules().list(SCHEDULES_MAX).await?;
    schedules.retain(|record| record.schedule.job == name);
    let jobs = visit.state.launcher().jobs();
    let is_known = !runs.is_empty() || !instances.is_empty() || !schedules.is_empty();
    let (defined, banner) = match jobs.get(name) {
        Ok(defined) => (Some(defined), String::new()),
        Err(invalid @ JobError::InvalidFile { .. }) if is_known => {
            (None, format!("{invalid}. Fix: {}.", invalid.fix()))
        }
        Err(_) if is_known => (None, NOT_HERE.to_owned()),
        Err(unknown @ JobError::UnknownJob { .. }) => return Err(Problem::from(unknown).as_missing()),
        Err(other) => return Err(other.into()),
    };
    let times = visit.times(common.now);
    let content = html! {
        h1 { (name) }
        @if defined.is_none() { p.banner { (banner) } }
        (plain_panel("executions", "Executions", &html! {
            (chart::durations(&runs))
            (executions.markup(&visit.state, &times))
        }))
        (plain_panel("run", "Run", &run::form(visit, name, defined, refused)))
        (plain_panel("schedules", "Schedules", &schedule::table_of(visit, &schedules, &times)))
        (plain_panel("instances", "Instances", &instances.table(visit, name, query, &times)))
        @if let Some(defined) = defined {
            (plain_panel("definition", "Definition", &definition::of(defined)))
        }
    };
    Ok(Frame::new(visit, &common, Section::Jobs).titled(name).live(Page::Executions(view)).render(&content))
}

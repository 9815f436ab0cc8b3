//! The list of executions, of all jobs or of one. All visitors get the same rows, so a row links to actions instead of
//! having buttons.

use super::view::{ExecutionsView, RUNNING};
use crate::api::QueryString;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::instant::Times;
use crate::dashboard::job::list::{address, duration};
use crate::dashboard::job::state::result_word;
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{command, empty_row, first_line, number, pager, panel, table};
use crate::dashboard::region::{Audience, Page, Region, Row};
use crate::problem::Problem;
use crate::state::State;
use axum::response::Html;
use maud::{Markup, html};
use serde::Deserialize;
use tidemill_domain::job::{BatchStatus, ExecutionId, InstanceId};
use tidemill_store::job::{ExecutionFilter, ExecutionRecord};
use tidemill_store::{StoreError, Tx};

const PAGE_ROWS: u32 = 25;
const COLUMNS: &[&str] =
    &["Status", "#Execution", "Job", "#Instance", "Created", "#Duration", "Message", "Action"];

/// Empty fields of the form count as missing.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ExecutionQuery {
    #[serde(default)]
    status: String,
    before: Option<i64>,
}

/// The page of the executions of all jobs.
pub(crate) async fn all(
    visit: PageContext,
    QueryString(query): QueryString<ExecutionQuery>,
) -> Result<Html<String>, Problem> {
    let view = ExecutionsView::new("", &query.status, None, query.before);
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let executions = Executions::read(&mut tx, &view).await?;
    let table = executions.markup(&visit.state, &visit.times(common.now));
    let content = html! {
        h1 { "Executions" }
        (panel("executions", "All jobs", &html! { span.soft { "The newest first." } }, &table))
    };
    let frame = Frame::new(&visit, &common, Section::Jobs).titled("Executions").live(Page::Executions(view));
    Ok(frame.render(&content))
}

#[derive(Debug)]
pub(crate) struct Executions {
    view: ExecutionsView,
    records: Vec<ExecutionRecord>,
    has_more: bool,
}

impl Executions {
    pub(crate) async fn read(tx: &mut Tx, view: &ExecutionsView) -> Result<Self, StoreError> {
        let of_any_status = ExecutionFilter {
            job: Some(view.job.clone()).filter(|job| !job.is_empty()),
            status: None,
            instance: view.instance.map(InstanceId::new),
        };
        let before = view.before.map(ExecutionId::new);
        let statuses = view.statuses();
        let mut records = Vec::new();
        if statuses.is_empty() {
            records = tx.jobs().executions(&of_any_status, before, PAGE_ROWS + 1).await?;
        }
        for status in statuses {
            let filter = ExecutionFilter { status: Some(status), ..of_any_status.clone() };
            records.extend(tx.jobs().executions(&filter, before, PAGE_ROWS + 1).await?);
        }
        records.sort_by_key(|record| std::cmp::Reverse(record.id));
        let has_more = records.len() > PAGE_ROWS as usize;
        records.truncate(PAGE_ROWS as usize);
        Ok(Self { view: view.clone(), records, has_more })
    }

    pub(crate) fn region(&self, state: &State, times: &Times) -> Region {
        let rows = self.records.iter().map(|record| Row::new(name(record), self.row(state, record, times)));
        let without = empty_row(self.columns().len(), &self.nothing());
        let audience = Audience::At(Page::Executions(self.view.clone()));
        Region::table_body("executions", audience, rows.collect(), without, html! {})
    }

    /// The table, with the filter above and the links to other pages below.
    pub(crate) fn markup(&self, state: &State, times: &Times) -> Markup {
        let (view, address) = (&self.view, self.address(state));
        let older = self.records.last().filter(|_| self.has_more);
        html! {
            (self.filter(&address))
            (table("Executions", &self.columns(), &self.region(state, times).markup()))
            (pager(
                view.before.map(|_| format!("{address}{}#executions", view.query(""))),
                older.map(|last| format!("{address}{}#executions", view.query(&format!("before={}", last.id)))),
                &html! {},
            ))
        }
    }

    fn is_of_one_job(&self) -> bool {
        !self.view.job.is_empty()
    }

    fn address(&self, state: &State) -> String {
        if self.is_of_one_job() { address(state, &self.view.job) } else { state.path("/executions") }
    }

    /// A list of one job has no column for the job.
    fn columns(&self) -> Vec<&'static str> {
        COLUMNS.iter().copied().filter(|name| !(self.is_of_one_job() && *name == "Job")).collect()
    }

    fn nothing(&self) -> Markup {
        let job = if self.is_of_one_job() { &self.view.job } else { "FILE.yaml" };
        html! {
            @if !self.view.is_everything() || self.view.before.is_some() {
                "No matching executions."
            } @else {
                @if self.is_of_one_job() { "This job has not run. Run it below, or on the command line: " }
                @else { "No executions yet. Run a job file: " }
                (command(&format!("tidemill job run {job}")))
            }
        }
    }

    fn filter(&self, address: &str) -> Markup {
        let view = &self.view;
        html! {
            form.filter.body method="get" action={ (address) "#executions" } {
                @if let Some(instance) = view.instance {
                    input type="hidden" name="instance" value=(instance);
                }
                label {
                    "Status"
                    select name="status" {
                        option value="" { "any" }
                        option value=(RUNNING) selected[view.is_status(RUNNING)] { "running" }
                        @for status in BatchStatus::ALL {
                            option value=(status) selected[view.is_status(status.as_str())] { (status) }
                        }
                    }
                }
                button { "Show" }
                @if let Some(instance) = view.instance { span { "of instance " (instance) } }
                @if !view.is_everything() { a href={ (address) "#executions" } { "All" } }
            }
        }
    }

    fn row(&self, state: &State, record: &ExecutionRecord, times: &Times) -> Markup {
        let length = record.ended_at.zip(record.started_at).map(|(end, start)| end.since(start));
        let of_job = address(state, &record.job);
        let page = state.path(&format!("/executions/{}", record.id));
        html! {
            tr data-live=(name(record)) {
                td { (result_word(record)) }
                th.number scope="row" { a href=(page) { "#" (record.id) } }
                @if !self.is_of_one_job() { td.long { a href=(of_job) { (record.job) } } }
                td.number {
                    a href={ (of_job) "?instance=" (record.instance) "#executions" }
                        aria-label={ "Executions of instance " (record.instance) } { (number(record.instance.get().unsigned_abs())) }
                }
                td {
                    (times.at(record.created_at))
                    br;
                    span.soft { "by " (record.launched_by.as_deref().unwrap_or("unknown")) }
                }
                td.number {
                    @match record.started_at.filter(|_| record.status.is_running()) {
                        Some(start) => (times.length(start)),
                        None => (duration(length)),
                    }
                }
                td.long { div.brief { (first_line(&record.exit.description)) } }
                td {
                    @if let Some(verb) = self.suggested_action(record) {
                        a.button href={ (page) "#actions" } { (verb) span.unseen { " execution " (record.id) } }
                    }
                }
            }
        }
    }

    /// The most useful action for an execution, if there is one; its page decides whether it is possible. An instance
    /// resumes from its last execution, so earlier ones offer no restart.
    fn suggested_action(&self, record: &ExecutionRecord) -> Option<&'static str> {
        let is_later = |other: &ExecutionRecord| other.instance == record.instance && other.id > record.id;
        match record.status {
            BatchStatus::Starting | BatchStatus::Started => Some("Stop…"),
            BatchStatus::Failed | BatchStatus::Stopped if self.records.iter().any(is_later) => None,
            BatchStatus::Failed | BatchStatus::Stopped => Some("Restart…"),
            BatchStatus::Unknown => Some("Abandon…"),
            BatchStatus::Stopping | BatchStatus::Completed | BatchStatus::Abandoned => None,
        }
    }
}

fn name(record: &ExecutionRecord) -> String {
    format!("execution:{}", record.id)
}

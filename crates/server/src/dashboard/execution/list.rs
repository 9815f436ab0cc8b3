//! The list of executions, of all jobs or of one. All visitors get the same rows, so a row links to actions instead of
//! having buttons.

use crate::api::QueryString;
use crate::dashboard::job::list::address;
use crate::dashboard::job::state::result_word;
use crate::dashboard::part::{command, first_line, number, pager, panel, query, table, took, value_or};
use crate::dashboard::{
    Audience, Frame, Page, PageContext, PageResult, PageSnapshot, Region, Row, Rows, Section, Times,
};
use crate::state::State;
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
pub(crate) async fn all(visit: PageContext, QueryString(query): QueryString<ExecutionQuery>) -> PageResult {
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
    records: Rows<ExecutionRecord>,
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
        Ok(Self { view: view.clone(), records: Rows::new(records, PAGE_ROWS) })
    }

    pub(crate) fn region(&self, state: &State, times: &Times) -> Region {
        let rows = self.records.rows.iter().map(|record| self.row(state, record, times));
        let audience = Audience::At(Page::Executions(self.view.clone()));
        Region::rows("executions", audience, &self.columns(), rows, &self.nothing(), None)
    }

    /// The table, with the filter above and the links to other pages below.
    pub(crate) fn markup(&self, state: &State, times: &Times) -> Markup {
        let (view, address) = (&self.view, self.address(state));
        let older = self.records.last_of_more();
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
                        option value=(RUNNING) selected[view.status == RUNNING] { "running" }
                        @for status in BatchStatus::ALL {
                            option value=(status) selected[view.status == status.as_str()] { (status) }
                        }
                    }
                }
                button { "Show" }
                @if let Some(instance) = view.instance { span { "of instance " (instance) } }
                @if !view.is_everything() { a href={ (address) "#executions" } { "All" } }
            }
        }
    }

    fn row(&self, state: &State, record: &ExecutionRecord, times: &Times) -> Row {
        let length = record.ended_at.zip(record.started_at).map(|(end, start)| end.since(start));
        let of_job = address(state, &record.job);
        let page = state.path(&format!("/executions/{}", record.id));
        let cells = html! {
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
                    None => (value_or(length.map(took), "–")),
                }
            }
            td.long { div.brief { (first_line(&record.exit.description)) } }
            td {
                @if let Some(verb) = self.suggested_action(record) {
                    a.button href={ (page) "#actions" } { (verb) span.unseen { " execution " (record.id) } }
                }
            }
        };
        Row::of(format!("execution:{}", record.id), &cells)
    }

    /// The most useful action for an execution, if there is one; its page decides whether it is possible. An instance
    /// resumes from its last execution, so earlier ones offer no restart.
    fn suggested_action(&self, record: &ExecutionRecord) -> Option<&'static str> {
        let is_later = |other: &ExecutionRecord| other.instance == record.instance && other.id > record.id;
        match record.status {
            BatchStatus::Starting | BatchStatus::Started => Some("Stop…"),
            BatchStatus::Failed | BatchStatus::Stopped if self.records.rows.iter().any(is_later) => None,
            BatchStatus::Failed | BatchStatus::Stopped => Some("Restart…"),
            BatchStatus::Unknown => Some("Abandon…"),
            BatchStatus::Stopping | BatchStatus::Completed | BatchStatus::Abandoned => None,
        }
    }
}

/// The choice for all statuses of a running execution.
const RUNNING: &str = "running";

/// The filter of a list of executions; the default shows all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExecutionsView {
    /// All jobs if empty.
    job: String,
    /// A status, [`RUNNING`], or empty for all.
    status: String,
    instance: Option<i64>,
    before: Option<i64>,
}

impl ExecutionsView {
    /// An unknown status counts as empty, so that equal filters are equal values.
    pub(crate) fn new(job: &str, status: &str, instance: Option<i64>, before: Option<i64>) -> Self {
        let is_known = status == RUNNING || status.parse::<BatchStatus>().is_ok();
        let status = if is_known { status } else { "" };
        Self { job: job.to_owned(), status: status.to_owned(), instance, before }
    }

    /// As one word, for the address of the live events.
    pub fn word(&self) -> String {
        let number = |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
        format!("{}:{}:{}:{}", self.status, number(self.instance), number(self.before), self.job)
    }

    pub fn of_word(word: &str) -> Option<Self> {
        let mut parts = word.splitn(4, ':');
        let status = parts.next()?;
        let mut number = || match parts.next()? {
            "" => Some(None),
            text => text.parse().ok().map(Some),
        };
        let (instance, before) = (number()?, number()?);
        Some(Self::new(parts.next()?, status, instance, before))
    }

    /// Empty for all statuses.
    fn statuses(&self) -> Vec<BatchStatus> {
        if self.status == RUNNING {
            return BatchStatus::ALL.into_iter().filter(|status| status.is_running()).collect();
        }
        self.status.parse().into_iter().collect()
    }

    /// Whether it filters nothing, apart from the page.
    fn is_everything(&self) -> bool {
        self.status.is_empty() && self.instance.is_none()
    }

    /// The query string of this filter, with `more` at its end.
    fn query(&self, more: &str) -> String {
        let instance = self.instance.map(|instance| instance.to_string()).unwrap_or_default();
        query([("status", self.status.as_str()), ("instance", &instance)], more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_reads_back_from_its_word_and_nonsense_is_none() {
        for (job, status, instance, before) in [
            ("", "", None, None),
            ("", RUNNING, None, Some(7)),
            ("load", "FAILED", Some(3), None),
            ("a:b &c", "COMPLETED", None, None),
        ] {
            let view = ExecutionsView::new(job, status, instance, before);
            assert_eq!(ExecutionsView::of_word(&view.word()), Some(view));
        }
        for word in ["", "FAILED", ":x::", "::9"] {
            assert_eq!(ExecutionsView::of_word(word), None, "{word:?}");
        }
        assert!(ExecutionsView::new("", "lunar", None, None).is_everything());
    }

    #[test]
    fn running_is_every_status_of_a_running_execution() {
        let running = ExecutionsView::new("", RUNNING, None, None).statuses();

        assert_eq!(running, [BatchStatus::Starting, BatchStatus::Started, BatchStatus::Stopping]);
        assert_eq!(ExecutionsView::new("", "FAILED", None, None).statuses(), [BatchStatus::Failed]);
    }
}

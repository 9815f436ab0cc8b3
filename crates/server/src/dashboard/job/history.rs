//! The executions of a job, page by page.

use super::detail::Wanted;
use super::list::{address, first_line, length};
use super::standing::word;
use crate::dashboard::instant::Times;
use crate::dashboard::part::{command, empty_row, number, wide_table};
use crate::dashboard::visit::Visit;
use maud::{Markup, html};
use tidemill_domain::job::{BatchStatus, ExecutionId, InstanceId};
use tidemill_store::job::{ExecutionFilter, ExecutionRecord};
use tidemill_store::{StoreError, Tx};

const PAGE_ROWS: u32 = 25;
const COLUMNS: &[(&str, bool)] = &[
    ("Status", false),
    ("Execution", true),
    ("Instance", true),
    ("Created", false),
    ("Took", true),
    ("Launched by", false),
    ("What it said", false),
];

/// A page of executions.
#[derive(Debug)]
pub(super) struct Executions {
    records: Vec<ExecutionRecord>,
    has_more: bool,
}

impl Executions {
    /// Looks.
    pub(super) async fn read(tx: &mut Tx, job: &str, wanted: &Wanted) -> Result<Self, StoreError> {
        let filter = ExecutionFilter {
            job: Some(job.to_owned()),
            status: wanted.status(),
            instance: wanted.instance.map(InstanceId::new),
        };
        let before = wanted.before.map(ExecutionId::new);
        let mut records = tx.executions(&filter, before, PAGE_ROWS + 1).await?;
        let has_more = records.len() > PAGE_ROWS as usize;
        records.truncate(PAGE_ROWS as usize);
        Ok(Self { records, has_more })
    }

    /// The table, with the filter above it and the way to older ones below.
    pub(super) fn table(&self, visit: &Visit, job: &str, wanted: &Wanted, times: &Times) -> Markup {
        let address = address(&visit.state, job);
        let is_everything = wanted.status().is_none() && wanted.instance.is_none();
        let rows = html! {
            tbody {
                @if self.records.is_empty() { (empty_row(COLUMNS.len(), &nothing(job, is_everything))) }
                @for record in &self.records { (row(visit, &address, record, times)) }
            }
        };
        let older = self.records.last().filter(|_| self.has_more);
        html! {
            (filter(&address, wanted, is_everything))
            (wide_table("Executions", COLUMNS, &rows))
            div.row.body {
                @if wanted.before.is_some() { a.button href={ (address) (wanted.query("")) "#executions" } { "Newest" } }
                @if let Some(last) = older {
                    a.button href={ (address) (wanted.query(&format!("before={}", last.id))) "#executions" } { "Older" }
                }
            }
        }
    }
}

fn nothing(job: &str, is_everything: bool) -> Markup {
    html! {
        @if is_everything {
            "This job has not run. Run it below, or at the command line: "
            (command(&format!("tidemill job run {job}")))
        } @else {
            "No execution is like this."
        }
    }
}

fn filter(address: &str, wanted: &Wanted, is_everything: bool) -> Markup {
    html! {
        form.filter.body method="get" action={ (address) "#executions" } {
            @if let Some(instance) = wanted.instance {
                input type="hidden" name="instance" value=(instance);
            }
            label {
                "Status"
                select name="status" {
                    option value="" { "any" }
                    @for status in BatchStatus::ALL {
                        option value=(status) selected[wanted.status() == Some(status)] { (status) }
                    }
                }
            }
            button { "Show" }
            @if let Some(instance) = wanted.instance { span { "of instance " (instance) } }
            @if !is_everything { a href={ (address) "#executions" } { "All" } }
        }
    }
}

fn row(visit: &Visit, address: &str, record: &ExecutionRecord, times: &Times) -> Markup {
    let took = record.ended_at.zip(record.started_at).map(|(end, start)| end.since(start));
    html! {
        tr {
            td { (word(record.status)) }
            th.number scope="row" {
                a href=(visit.state.path(&format!("/executions/{}", record.id))) { "#" (record.id) }
            }
            td.number {
                a href={ (address) "?instance=" (record.instance) "#executions" }
                    aria-label={ "Executions of instance " (record.instance) } { (number(record.instance.get().unsigned_abs())) }
            }
            td { (times.at(record.created_at)) }
            td.number { @if record.status.is_running() { span.soft { "running" } } @else { (length(took)) } }
            td { (record.launched_by.as_deref().unwrap_or("unknown")) }
            td.long { (first_line(&record.exit.description)) }
        }
    }
}

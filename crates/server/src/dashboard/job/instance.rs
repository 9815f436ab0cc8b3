//! The table of the instances of a job.

use super::detail::JobPageQuery;
use super::list::address;
use super::state::status_word;
use crate::dashboard::execution::list::pager;
use crate::dashboard::instant::Times;
use crate::dashboard::page_context::PageContext;
use crate::dashboard::part::{empty_row, number, wide_table};
use maud::{Markup, html};
use tidemill_domain::job::InstanceId;
use tidemill_store::job::InstanceRecord;
use tidemill_store::job::list::COUNTED_MAX;
use tidemill_store::{StoreError, Tx};

const PAGE_ROWS: u32 = 10;
const COLUMNS: &[(&str, bool)] = &[
    ("Status", false),
    ("Instance", true),
    ("Identifying parameters", false),
    ("Executions", true),
    ("Last", false),
];

#[derive(Debug)]
pub(super) struct Instances {
    records: Vec<InstanceRecord>,
    has_more: bool,
}

impl Instances {
    pub(super) async fn read(tx: &mut Tx, job: &str, query: &JobPageQuery) -> Result<Self, StoreError> {
        let before = query.instances_before.map(InstanceId::new);
        let mut records = tx.jobs().instances(job, before, PAGE_ROWS + 1).await?;
        let has_more = records.len() > PAGE_ROWS as usize;
        records.truncate(PAGE_ROWS as usize);
        Ok(Self { records, has_more })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The table with the links to other pages.
    pub(super) fn table(
        &self,
        visit: &PageContext,
        job: &str,
        query: &JobPageQuery,
        times: &Times,
    ) -> Markup {
        let address = address(&visit.state, job);
        let rows = html! {
            tbody {
                @if self.records.is_empty() {
                    (empty_row(COLUMNS.len(), &html! { "No instances yet. Each new set of identifying parameters creates one." }))
                }
                @for record in &self.records { (row(&address, record, times)) }
            }
        };
        let older = self.records.last().filter(|_| self.has_more);
        html! {
            (wide_table("Instances", COLUMNS, &rows))
            (pager(
                query.instances_before.map(|_| format!("{address}#instances")),
                older.map(|last| format!("{address}?instances_before={}#instances", last.id)),
            ))
        }
    }
}

fn row(address: &str, record: &InstanceRecord, times: &Times) -> Markup {
    let is_cut = i64::try_from(record.executions).is_ok_and(|executions| executions >= COUNTED_MAX);
    let identifying = record.parameters.iter().filter(|parameter| parameter.is_identifying);
    let identity: Vec<String> =
        identifying.map(|parameter| format!("{}={}", parameter.name, parameter.value)).collect();
    html! {
        tr {
            td { @if let Some(last) = record.last { (status_word(last.status)) } }
            th.number scope="row" { (number(record.id.get().unsigned_abs())) }
            td.long {
                @if identity.is_empty() { span.soft { "none" } } @else { code { (identity.join(" ")) } }
            }
            td.number {
                a href={ (address) "?instance=" (record.id) "#executions" } {
                    (number(record.executions)) @if is_cut { "+" }
                    span.unseen { " executions of instance " (record.id) }
                }
            }
            td { (times.maybe(record.last.map(|last| last.created_at), "never")) }
        }
    }
}

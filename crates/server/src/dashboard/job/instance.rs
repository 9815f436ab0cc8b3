//! The table of the instances of a job.

use super::detail::JobPageQuery;
use super::list::address;
use super::state::status_word;
use crate::dashboard::instant::Times;
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::Rows;
use crate::dashboard::part::{list_table, number, pager};
use maud::{Markup, html};
use tidemill_domain::job::InstanceId;
use tidemill_store::job::InstanceRecord;
use tidemill_store::job::list::COUNTED_MAX;
use tidemill_store::{StoreError, Tx};

const PAGE_ROWS: u32 = 10;
const COLUMNS: &[&str] = &["Status", "#Instance", "Identifying parameters", "#Executions", "Last"];

#[derive(Debug)]
pub(super) struct Instances(Rows<InstanceRecord>);

impl Instances {
    pub(super) async fn read(tx: &mut Tx, job: &str, query: &JobPageQuery) -> Result<Self, StoreError> {
        let before = query.instances_before.map(InstanceId::new);
        Ok(Self(Rows::new(tx.jobs().instances(job, before, PAGE_ROWS + 1).await?, PAGE_ROWS)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.rows.is_empty()
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
        let rows = self.0.rows.iter().map(|record| row(&address, record, times));
        let empty = html! { "No instances yet. Each new set of identifying parameters creates one." };
        html! {
            (list_table("Instances", COLUMNS, rows, &empty))
            (pager(
                query.instances_before.map(|_| format!("{address}#instances")),
                self.0.last_of_more().map(|last| format!("{address}?instances_before={}#instances", last.id)),
                &html! {},
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

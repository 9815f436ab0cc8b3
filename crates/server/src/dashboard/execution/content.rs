//! Contexts and skipped items of an execution. They are not live: they can be long, and only some visitors may see items.

use super::page_data::PageData;
use crate::dashboard::PageContext;
use crate::dashboard::part::{list_table, plural};
use crate::problem::Problem;
use maud::{Markup, html};
use tidemill_api::execution::{ExecutionContext, is_partition};
use tidemill_domain::access::Permission;
use tidemill_store::Tx;
use tidemill_store::job::RejectRecord;

/// Maximum number of steps whose context is shown.
const STEPS: usize = 20;
/// Maximum number of skipped items.
const REJECTS: u32 = 100;
const COLUMNS: &[&str] = &["Step", "Phase", "Kind", "Error", "Place", "Item"];

#[derive(Debug)]
pub(super) struct Content {
    job: ExecutionContext,
    steps: Vec<(String, ExecutionContext)>,
    skipped: u64,
    /// Skipped items with the names of their steps, or why this visitor may not see them.
    rejects: Result<Vec<(String, RejectRecord)>, String>,
}

impl Content {
    pub(super) async fn read(visit: &PageContext, tx: &mut Tx, data: &PageData) -> Result<Self, Problem> {
        let id = data.execution().id;
        let job = tx.jobs().job_context(id).await?.map(ExecutionContext::from).unwrap_or_default();
        let mut steps = Vec::new();
        for step in data.steps.iter().filter(|step| !is_partition(step)).take(STEPS) {
            let context = tx.jobs().step_context(step.id).await?.map(ExecutionContext::from);
            steps.push((step.name.clone(), context.unwrap_or_default()));
        }
        let skipped = data.steps.iter().map(|step| step.counters.skips()).sum();
        // Items are payloads, which only administrators may see.
        let rejects = match visit.principal.may(Permission::Administer) {
            false => {
                Err(format!("The role {} may not administer, and items are payloads.", visit.principal.role))
            }
            true => {
                let mut found = Vec::new();
                for step in data.steps.iter().filter(|step| step.counters.skips() > 0).take(STEPS) {
                    let left = REJECTS.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
                    let records = tx.jobs().rejects(step.id, 0, left).await?;
                    found.extend(records.into_iter().map(|record| (step.name.clone(), record)));
                }
                Ok(found)
            }
        };
        Ok(Self { job, steps, skipped, rejects })
    }

    /// The skipped items; none if no item was skipped.
    pub(super) fn rejects(&self) -> Option<Markup> {
        if self.skipped == 0 {
            return None;
        }
        let skipped = html! { (plural(self.skipped, "item was", "items were")) " skipped. " };
        let empty =
            html! { "The job does not keep skipped items. To keep them, set " code { "rejects" } "." };
        Some(match &self.rejects {
            Err(reason) => html! { p.empty { (skipped) (reason) } },
            Ok(records) => html! {
                p.empty { (skipped) "The table shows the first " (REJECTS) " that were kept." }
                (list_table("Skipped items", COLUMNS, records.iter().map(row), &empty))
            },
        })
    }

    pub(super) fn contexts(&self) -> Markup {
        html! {
            div.body {
                (context_markup("Execution", &self.job))
                @for (name, context) in &self.steps { (context_markup(&format!("Step {name}"), context)) }
            }
        }
    }
}

fn row((step, record): &(String, RejectRecord)) -> Markup {
    html! {
        tr {
            th scope="row" { (step) }
            td { (record.phase) }
            td { (record.kind) }
            td.long { (record.error) }
            td.long { (record.place.as_deref().unwrap_or_default()) }
            td.long.mono { (record.item.as_deref().unwrap_or_default()) }
        }
    }
}

fn context_markup(title: &str, context: &ExecutionContext) -> Markup {
    html! {
        details {
            summary { (title) " " span.soft { (plural(context.len() as u64, "value", "values")) } }
            pre { (context.to_text()) }
        }
    }
}

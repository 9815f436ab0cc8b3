//! What an execution and its steps remember, and what they have left out. It is read when the page is opened, and does not
//! change by itself: it may be long, and some of it is not for everybody.

use super::page_data::{Seen, is_partition};
use crate::dashboard::page_context::PageContext;
use crate::dashboard::part::{empty_row, plural, table};
use crate::problem::Problem;
use maud::{Markup, html};
use serde_json::Value;
use std::collections::BTreeMap;
use tidemill_domain::access::Permission;
use tidemill_store::Tx;
use tidemill_store::job::{RejectRecord, StoredContext};

/// Most steps whose context is shown.
const STEPS: usize = 20;
/// Most skipped items that are shown.
const REJECTS: u32 = 100;
const COLUMNS: &[&str] = &["Step", "While", "Kind", "What went wrong", "Where", "Item"];

/// What it remembers, and what was left out.
#[derive(Debug)]
pub(super) struct Content {
    job: Option<StoredContext>,
    steps: Vec<(String, Option<StoredContext>)>,
    /// How many items were skipped.
    skipped: u64,
    /// Those that are kept, with the names of their steps; why not when they are not for this visitor.
    rejects: Result<Vec<(String, RejectRecord)>, String>,
}

impl Content {
    pub(super) async fn read(visit: &PageContext, tx: &mut Tx, seen: &Seen) -> Result<Self, Problem> {
        let id = seen.execution().id;
        let job = tx.jobs().job_context(id).await?;
        let mut steps = Vec::new();
        for step in seen.steps.iter().filter(|step| !is_partition(step)).take(STEPS) {
            steps.push((step.name.clone(), tx.jobs().step_context(step.id).await?));
        }
        let count = |step: &tidemill_store::job::StepRecord| {
            step.counters.read_skip + step.counters.process_skip + step.counters.write_skip
        };
        let skipped = seen.steps.iter().map(count).sum();
        // They are payloads, as for programs.
        let rejects = match visit.principal.may(Permission::Administer) {
            false => {
                Err(format!("The role {} may not administer, and items are payloads.", visit.principal.role))
            }
            true => {
                let mut found = Vec::new();
                for step in seen.steps.iter().filter(|step| count(step) > 0).take(STEPS) {
                    let left = REJECTS.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
                    let records = tx.jobs().rejects(step.id, 0, left).await?;
                    found.extend(records.into_iter().map(|record| (step.name.clone(), record)));
                }
                Ok(found)
            }
        };
        Ok(Self { job, steps, skipped, rejects })
    }

    /// What was left out, if anything was.
    pub(super) fn rejects(&self) -> Option<Markup> {
        if self.skipped == 0 {
            return None;
        }
        Some(match &self.rejects {
            Err(reason) => {
                html! { p.empty { (plural(self.skipped, "item was", "items were")) " skipped. " (reason) } }
            }
            Ok(records) => html! {
                p.empty { (plural(self.skipped, "item was", "items were")) " skipped; the first " (REJECTS) " that were kept:" }
                (table("Skipped items", COLUMNS, &rows(records)))
            },
        })
    }

    pub(super) fn contexts(&self) -> Markup {
        html! {
            div.body {
                (context("The execution", self.job.as_ref()))
                @for (name, stored) in &self.steps { (context(&format!("Step {name}"), stored.as_ref())) }
            }
        }
    }
}

fn rows(records: &[(String, RejectRecord)]) -> Markup {
    html! {
        tbody {
            @if records.is_empty() {
                (empty_row(COLUMNS.len(), &html! { "The step does not keep them; a job says so with " code { "rejects" } "." }))
            }
            @for (step, record) in records {
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
    }
}

fn context(title: &str, stored: Option<&StoredContext>) -> Markup {
    let (count, text) = match stored {
        None => (0, String::new()),
        Some(StoredContext::Foreign(text)) => (1, text.clone()),
        Some(StoredContext::Ours(context)) => {
            let values: BTreeMap<&str, &Value> = context.iter().collect();
            (values.len(), json(&values))
        }
    };
    html! {
        details {
            summary { (title) " " span.soft { (plural(count as u64, "value", "values")) } }
            pre { (text) }
        }
    }
}

/// As JSON, by name at every depth. Numbers are as they are stored.
fn json(values: &BTreeMap<&str, &Value>) -> String {
    let sorted: serde_json::Map<String, Value> =
        values.iter().map(|(key, value)| ((*key).to_owned(), sorted((*value).clone()))).collect();
    format!("{:#}", Value::Object(sorted))
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<String, Value> =
                members.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(members.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json as value;

    #[test]
    fn values_are_told_by_name_at_every_depth_and_numbers_exactly() {
        let (first, second) =
            (value!({ "z": 1, "a": 9_007_199_254_740_993_u64 }), value!([{ "b": 1, "a": -1 }]));
        let text = json(&BTreeMap::from([("y", &second), ("x", &first)]));

        let compact: String = text.split_whitespace().collect();
        assert_eq!(compact, r#"{"x":{"a":9007199254740993,"z":1},"y":[{"a":-1,"b":1}]}"#);
    }
}

//! The last executions of a job as a strip of cells, the oldest first.

use super::state::{health, letter};
use crate::dashboard::instant::took;
use maud::{Markup, html};
use tidemill_domain::job::BatchStatus;
use tidemill_store::job::RunRecord;

/// How many cells there are.
pub(crate) const CELLS: u32 = 20;

/// The strip; `runs` come newest first.
pub(crate) fn strip(runs: &[RunRecord]) -> Markup {
    html! {
        @if runs.is_empty() {
            span.soft { "none" }
        } @else {
            span.strip role="img" aria-label=(told(runs)) {
                @for run in runs.iter().rev() {
                    span.cell.(health(run.status).class()) title=(about(run)) { (letter(run.status)) }
                }
            }
        }
    }
}

/// The strip in words, for those who do not see it.
fn told(runs: &[RunRecord]) -> String {
    let counted = BatchStatus::ALL.into_iter().filter_map(|status| {
        let count = runs.iter().filter(|run| run.status == status).count();
        (count > 0).then(|| format!("{count} {status}"))
    });
    let parts: Vec<String> = counted.collect();
    format!("The last {} executions: {}", runs.len(), parts.join(", "))
}

fn about(run: &RunRecord) -> String {
    let length = run.length().map(|length| format!(", took {}", took(length))).unwrap_or_default();
    format!("#{} {}, {}{length}", run.id, run.status, run.created_at)
}

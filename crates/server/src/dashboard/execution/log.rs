//! The last lines that command and Spark steps wrote.

use super::page_data::PageData;
use crate::api::execution::log::{place, tails};
use crate::dashboard::job::state::status_word;
use crate::dashboard::part::{number, query};
use crate::state::State;
use maud::{Markup, html};
use tidemill_domain::job::command::readable;
use tidemill_domain::job::{BatchStatus, ExecutionId};
use tidemill_store::job::StepRecord;
use tidemill_store::{StoreError, Tx};

/// Maximum number of steps; the last ones are shown.
const STEPS: usize = 10;
const STEP_BYTES: u64 = 8 * 1024;
const LINES: usize = 30;
const LINE_CHARS: usize = 500;

/// The end of the output of one step, or where to find it.
#[derive(Debug)]
pub(super) struct StepOutput {
    step: StepRecord,
    content: Result<Tail, String>,
}

#[derive(Debug)]
struct Tail {
    bytes: u64,
    lines: Vec<String>,
}

pub(super) async fn read(
    state: &State,
    tx: &mut Tx,
    execution: ExecutionId,
    steps: &[StepRecord],
) -> Result<Vec<StepOutput>, StoreError> {
    let last = &steps[steps.len().saturating_sub(STEPS)..];
    let folder = state.launcher().log_folder();
    let ids = last.iter().map(|step| step.id).collect();
    let parts = tails(folder, execution, ids, STEP_BYTES).await;
    let mut all = Vec::new();
    for (step, part) in last.iter().zip(parts) {
        let content = match part {
            Some(part) => {
                let lines: Vec<&[u8]> = part.bytes.split(|byte| *byte == b'\n').collect();
                // The last line is empty: it comes after the last line end.
                let lines = &lines[..lines.len().saturating_sub(1)];
                let shown = &lines[lines.len().saturating_sub(LINES)..];
                let lines = shown.iter().map(|line| readable(line, LINE_CHARS)).collect();
                Ok(Tail { bytes: part.end(), lines })
            }
            None => match place(tx, step.id).await? {
                Some(place) => Err(place.advice(&step.name)),
                None => continue,
            },
        };
        all.push(StepOutput { step: step.clone(), content });
    }
    Ok(all)
}

/// The panel; empty if no step has output.
pub(super) fn markup(state: &State, data: &PageData) -> Markup {
    let address = state.path(&format!("/executions/{}/logs", data.execution().id));
    html! {
        div data-live="logs" {
            @if !data.outputs.is_empty() {
                section.panel aria-labelledby="logs-heading" {
                    header { h2 #logs-heading { "Output" } span.soft { "The last " (LINES) " lines of each step." } }
                    div.body { @for output in &data.outputs { (output_of(output, &address)) } }
                }
            }
        }
    }
}

fn output_of(StepOutput { step, content }: &StepOutput, address: &str) -> Markup {
    html! {
        details open[step.status != BatchStatus::Completed] id={ "log-" (step.id) } {
            summary { "Step " b { (step.name) } " " (status_word(step.status)) }
            @match content {
                Err(advice) => p { (advice) },
                Ok(Tail { bytes, lines }) => {
                    @if lines.is_empty() { p.soft { "No output yet." } } @else { pre { (lines.join("\n")) } }
                    div.row {
                        a.button href={ (address) (query([("step", step.name.as_str())], "")) } { "Download" }
                        span.soft { (number(*bytes)) " bytes" }
                    }
                },
            }
        }
    }
}

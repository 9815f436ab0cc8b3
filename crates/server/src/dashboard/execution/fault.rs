//! The error panel at the top of the page of a failed execution.

use super::page_data::{COMPARED, PageData};
use crate::dashboard::job::state::status_word;
use crate::dashboard::part::first_line;
use crate::dashboard::part::number;
use maud::{Markup, html};
use tidemill_api::execution::is_partition;
use tidemill_domain::job::BatchStatus;
use tidemill_store::job::StepRecord;

/// Lines of a message that are not folded.
const LINES: usize = 20;
/// Maximum number of steps; many partitions can fail.
const STEPS: usize = 5;

/// The panel; empty if the execution did not fail.
pub(super) fn markup(data: &PageData) -> Markup {
    let execution = data.execution();
    let is_bad =
        matches!(execution.status, BatchStatus::Failed | BatchStatus::Unknown | BatchStatus::Abandoned);
    html! {
        div data-live="fault" {
            @if is_bad {
                section.panel.wrong aria-labelledby="fault-heading" {
                    header { h2 #fault-heading { "What went wrong" } }
                    div.body { (details(data)) }
                }
            }
        }
    }
}

fn details(data: &PageData) -> Markup {
    let description = &data.execution().exit.description;
    let all: Vec<&StepRecord> = data.steps.iter().filter(|step| step.status.is_unsuccessful()).collect();
    // The message of a partitioned step repeats those of its partitions.
    let parts: Vec<&StepRecord> = all.iter().copied().filter(|step| is_partition(step)).collect();
    let steps = if parts.is_empty() { &all } else { &parts };
    html! {
        p.fault { b { (first_line(description)) } }
        @if first_line(description).is_empty() { p { "No message was recorded." } }
        @if data.same_error > 0 {
            p.soft { (data.same_error) " of the last " (COMPARED) " executions of this job ended with the same message." }
        }
        @for (place, step) in steps.iter().take(STEPS).enumerate() { (step_details(step, data, place == 0)) }
        @if steps.len() > STEPS { p.soft { (steps.len() - STEPS) " more steps are in the table below." } }
    }
}

fn step_details(step: &StepRecord, data: &PageData, is_open: bool) -> Markup {
    let counters = &step.counters;
    html! {
        details open[is_open] id={ "fault-" (step.id) } {
            summary { "Step " b { (step.name) } " " (status_word(step.status)) }
            dl {
                @if let Some(items) = data.positions.get(&step.id) { dt { "Committed" } dd { (number(*items)) " items" } }
                dt { "Chunk" } dd { "number " (number(counters.commit + 1)) " of this run, " (number(counters.rollback)) " rolled back" }
                @if counters.skips() > 0 { dt { "Skipped" } dd { (number(counters.skips())) " items" } }
            }
            (message(&step.exit.description))
        }
    }
}

/// A message; long ones are folded.
fn message(text: &str) -> Markup {
    let lines: Vec<&str> = text.lines().collect();
    let (first, rest) = lines.split_at(lines.len().min(LINES));
    html! {
        @if !first.is_empty() { pre { (first.join("\n")) } }
        @if !rest.is_empty() {
            details { summary { (rest.len()) " more lines" } pre { (rest.join("\n")) } }
        }
    }
}

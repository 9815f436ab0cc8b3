//! What went wrong, at the top of the page of an execution that failed.

use super::page_data::{COMPARED, Seen, is_partition};
use crate::dashboard::job::list::first_line;
use crate::dashboard::job::state::word;
use crate::dashboard::part::number;
use maud::{Markup, html};
use tidemill_domain::job::BatchStatus;
use tidemill_store::job::StepRecord;

/// Lines of a message that are shown at once.
const LINES: usize = 20;
/// Steps that are told of; of a divided step, many partitions may have failed.
const STEPS: usize = 5;

/// The panel; empty when nothing went wrong.
pub(super) fn markup(seen: &Seen) -> Markup {
    let execution = seen.execution();
    let is_bad =
        matches!(execution.status, BatchStatus::Failed | BatchStatus::Unknown | BatchStatus::Abandoned);
    html! {
        div data-live="fault" {
            @if is_bad {
                section.panel.wrong aria-labelledby="fault-heading" {
                    header { h2 #fault-heading { "What went wrong" } }
                    div.body { (told(seen)) }
                }
            }
        }
    }
}

fn told(seen: &Seen) -> Markup {
    let description = &seen.execution().exit.description;
    let all: Vec<&StepRecord> = seen.steps.iter().filter(|step| step.status.is_unsuccessful()).collect();
    // A divided step says what its partitions have said.
    let parts: Vec<&StepRecord> = all.iter().copied().filter(|step| is_partition(step)).collect();
    let steps = if parts.is_empty() { &all } else { &parts };
    html! {
        p.fault { b { (first_line(description)) } }
        @if first_line(description).is_empty() { p { "Nobody has written down why." } }
        @if seen.alike > 0 {
            p.soft { "The same ended " (seen.alike) " of the " (COMPARED) " executions of this job before." }
        }
        @for (place, step) in steps.iter().take(STEPS).enumerate() { (of_step(step, seen, place == 0)) }
        @if steps.len() > STEPS { p.soft { "And " (steps.len() - STEPS) " more steps, in the table below." } }
    }
}

fn of_step(step: &StepRecord, seen: &Seen, is_open: bool) -> Markup {
    let (counters, place) = (&step.counters, seen.places.get(&step.id));
    let skipped = counters.read_skip + counters.process_skip + counters.write_skip;
    html! {
        details open[is_open] id={ "fault-" (step.id) } {
            summary { "Step " b { (step.name) } " " (word(step.status)) }
            dl {
                @if let Some(items) = place { dt { "Behind it" } dd { (number(*items)) " items are committed" } }
                dt { "Chunk" } dd { "number " (number(counters.commit + 1)) " of this run, " (number(counters.rollback)) " rolled back" }
                @if skipped > 0 { dt { "Skipped before" } dd { (number(skipped)) " items" } }
            }
            (message(&step.exit.description))
        }
    }
}

/// A message, its first lines at once.
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

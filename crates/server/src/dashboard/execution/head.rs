//! The head of the page of an execution, and the panel with the error of a failed one.

use super::page_data::{COMPARED, PageData};
use crate::dashboard::Times;
use crate::dashboard::job::list::address;
use crate::dashboard::job::state::{result_word, status_word};
use crate::dashboard::part::{first_line, number, took};
use crate::state::State;
use maud::{Markup, html};
use tidemill_api::execution::{ExecutionDetail, ExecutionOwner, JobParameter, is_partition};
use tidemill_domain::job::ExitStatus;
use tidemill_store::job::StepRecord;

/// Lines of a message that are not folded.
const LINES: usize = 20;
/// Maximum number of steps; many partitions can fail.
const STEPS: usize = 5;

/// It has the title of the window, so that the tab shows the current status.
pub(super) fn markup(state: &State, data: &PageData, times: &Times) -> Markup {
    let execution = data.execution();
    let detail = ExecutionDetail::from((&data.detail, times.now()));
    let title =
        format!("{} {} #{} – {}", execution.status, execution.job, execution.id, state.inner().instance);
    let length = execution.ended_at.zip(execution.started_at).map(|(end, start)| end.since(start));
    let running_since = execution.started_at.filter(|_| execution.status.is_running());
    html! {
        section.panel.head data-live="head" data-title=(title) {
            header {
                h1 { a href=(address(state, &execution.job)) { (execution.job) } " #" (execution.id) }
                b.lead { (result_word(execution)) }
            }
            dl.body {
                dt { "Instance" }
                dd {
                    a href={ (address(state, &execution.job)) "?instance=" (execution.instance) "#executions" } {
                        (number(execution.instance.get().unsigned_abs()))
                    }
                    @if let Some((place, all)) = data.attempt() { ", execution " (place) " of " (all) }
                }
                dt { "Parameters" } dd { (parameters(&detail.parameters)) }
                dt { "Started" } dd { (times.maybe(execution.started_at, "not yet")) }
                dt { "Ended" }
                dd {
                    (times.maybe(execution.ended_at, "not yet"))
                    @if let Some(length) = length { ", after " (took(length)) }
                    @if let Some(start) = running_since { ", running for " (times.length(start)) }
                    @if execution.exit.code == ExitStatus::NOOP { div { (execution.exit.description) } }
                }
                dt { "Launched by" }
                dd { (execution.launched_by.as_deref().unwrap_or("unknown (written by Spring Batch)")) }
                @if let Some(owner) = &detail.owner { dt { "Process" } dd { (process(owner)) } }
                @if let Some(stop) = &detail.stop_request {
                    dt { "Stop requested" }
                    dd {
                        (times.at(stop.at)) " by " (stop.by)
                        @if let Some(reason) = &stop.reason { ": " (reason) }
                    }
                }
                @if execution.crash_restarts > 0 {
                    dt { "Automatic restarts" } dd { (execution.crash_restarts) " after crashes" }
                }
                @if detail.is_restart_due {
                    dt { "Restart" } dd { "pending; the next process that has the job restarts it" }
                }
            }
        }
    }
}

fn process(owner: &ExecutionOwner) -> String {
    let lease = if owner.holds_lease { ", holds the lease" } else { "" };
    match (&owner.name, owner.state) {
        (Some(name), Some(state)) => format!("{name}, {state}{lease}"),
        _ => format!("{}, ended long ago{lease}", owner.process),
    }
}

fn parameters(parameters: &[JobParameter]) -> Markup {
    html! {
        @if parameters.is_empty() { span.soft { "none" } }
        @for parameter in parameters {
            div {
                code { (parameter.name) "=" (parameter.value) }
                " "
                span.soft { (parameter.kind) @if !parameter.is_identifying { ", not identifying" } }
            }
        }
    }
}

/// The panel; empty if the execution did not fail.
pub(super) fn fault(data: &PageData) -> Markup {
    html! {
        div data-live="fault" {
            @if data.execution().status.is_unsuccessful() {
                section.panel.wrong aria-labelledby="fault-heading" {
                    header { h2 #fault-heading { "What went wrong" } }
                    div.body { (fault_details(data)) }
                }
            }
        }
    }
}

fn fault_details(data: &PageData) -> Markup {
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

//! The head of the page of an execution.

use super::page_data::PageData;
use crate::dashboard::instant::{Times, took};
use crate::dashboard::job::list::address;
use crate::dashboard::job::state::result_word;
use crate::dashboard::part::number;
use crate::state::State;
use maud::{Markup, html};
use tidemill_api::execution::{ExecutionDetail, ExecutionOwner, JobParameter};
use tidemill_domain::job::ExitStatus;

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

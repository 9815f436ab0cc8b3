//! What an execution is, and where.

use super::page_data::Seen;
use crate::dashboard::instant::{Times, took};
use crate::dashboard::job::list::address;
use crate::dashboard::job::state::word;
use crate::dashboard::part::number;
use crate::state::State;
use maud::{Markup, html};
use tidemill_domain::job::parameter::ParameterType;
use tidemill_domain::time::Timestamp;
use tidemill_store::job::{Owner, ParameterRecord};

/// The head. It carries what the window is to be called, so that its tab tells the status.
pub(super) fn markup(state: &State, seen: &Seen, times: &Times) -> Markup {
    let execution = seen.execution();
    let title =
        format!("{} {} #{} – {}", execution.status, execution.job, execution.id, state.inner().instance);
    let length = execution.ended_at.zip(execution.started_at).map(|(end, start)| end.since(start));
    html! {
        section.panel.head data-live="head" data-title=(title) {
            header {
                h1 { a href=(address(state, &execution.job)) { (execution.job) } " #" (execution.id) }
                b.lead { (word(execution.status)) }
            }
            dl.body {
                dt { "Instance" }
                dd {
                    a href={ (address(state, &execution.job)) "?instance=" (execution.instance) "#executions" } {
                        (number(execution.instance.get().unsigned_abs()))
                    }
                    @if let Some((place, all)) = seen.attempt() { ", execution " (place) " of " (all) }
                }
                dt { "Parameters" } dd { (parameters(&seen.detail.parameters)) }
                dt { "Started" } dd { (times.maybe(execution.started_at, "not yet")) }
                dt { "Ended" }
                dd {
                    (times.maybe(execution.ended_at, "not yet"))
                    @if let Some(length) = length { ", after " (took(length)) }
                }
                dt { "Launched by" }
                dd { (execution.launched_by.as_deref().unwrap_or("nobody knows: Spring Batch has written it")) }
                @if let Some(owner) = &seen.detail.owner { dt { "Process" } dd { (process(owner, times.now())) } }
                @if let Some(stop) = &seen.detail.stop {
                    dt { "Stop wanted" }
                    dd {
                        (times.at(stop.at)) " by " (stop.by)
                        @if let Some(reason) = &stop.reason { ": " (reason) }
                    }
                }
                @if execution.crash_restarts > 0 {
                    dt { "After crashes" } dd { "restarted by itself " (execution.crash_restarts) " times" }
                }
                @if seen.detail.is_restart_due {
                    dt { "Restart" } dd { "due, by the next process that has the job" }
                }
            }
        }
    }
}

fn process(owner: &Owner, now: Timestamp) -> String {
    let lease = if owner.holds_lease { ", holds the lease" } else { "" };
    match &owner.process {
        Some(process) => format!("{}, {}{lease}", process.identity.name, process.state.word(now)),
        None => format!("{}, ended long ago{lease}", owner.id),
    }
}

fn parameters(parameters: &[ParameterRecord]) -> Markup {
    html! {
        @if parameters.is_empty() { span.soft { "none" } }
        @for parameter in parameters {
            div {
                code { (parameter.name) "=" (parameter.value) }
                " "
                span.soft {
                    (kind(parameter)) @if !parameter.is_identifying { ", does not tell instances apart" }
                }
            }
        }
    }
}

fn kind(parameter: &ParameterRecord) -> &str {
    let known = parameter.class.parse::<ParameterType>();
    known.map_or(&parameter.class, |kind| kind.as_str())
}

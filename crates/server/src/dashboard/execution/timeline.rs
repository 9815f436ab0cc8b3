//! When each step ran, in all executions of the instance, on one scale. The time between two executions is left out: it
//! can be much longer than the executions.

use super::page_data::PageData;
use crate::dashboard::Times;
use crate::dashboard::job::state::{health, status_word};
use crate::dashboard::part::{list_table, took};
use crate::state::State;
use maud::{Markup, html};
use std::time::Duration;
use tidemill_api::execution::is_partition;
use tidemill_domain::job::{BatchStatus, ExecutionId};
use tidemill_domain::time::Timestamp;
use tidemill_store::job::{ExecutionRecord, StepRecord};

/// Maximum number of bars; the last ones are shown.
const BARS: usize = 40;
/// Width of a drawing in its own units.
const WIDTH: f64 = 1000.0;
const COLUMNS: &[&str] = &["#Execution", "Step", "Status", "When", "#Duration"];

/// `from` counts only time in which an execution of the instance ran.
struct Bar<'a> {
    execution: ExecutionId,
    step: &'a StepRecord,
    from: Duration,
    length: Duration,
}

pub(super) fn markup(state: &State, data: &PageData, times: &Times) -> Markup {
    let (bars, total) = bars(&data.attempts, times.now());
    let shown = bars.iter().skip(bars.len().saturating_sub(BARS));
    let rows = shown.map(|bar| row(state, data, bar, total, times));
    html! {
        div data-live="timeline" {
            @if bars.is_empty() {
                p.empty { "No steps have started yet." }
            } @else {
                (list_table("Timeline", COLUMNS, rows, &html! {}))
            }
        }
    }
}

/// The bars of all executions in a row, and their total length.
fn bars(attempts: &[(ExecutionRecord, Vec<StepRecord>)], now: Timestamp) -> (Vec<Bar<'_>>, Duration) {
    let (mut bars, mut before) = (Vec::new(), Duration::ZERO);
    for (execution, steps) in attempts {
        let Some(start) = execution.started_at else { continue };
        for step in steps.iter().filter(|step| !is_partition(step)) {
            let Some(began) = step.started_at else { continue };
            let length = until(step.ended_at, step.updated_at, step.status, now).since(began);
            bars.push(Bar { execution: execution.id, step, from: before + began.since(start), length });
        }
        before += until(execution.ended_at, execution.updated_at, execution.status, now).since(start);
    }
    let longest = bars.iter().map(|bar| bar.from + bar.length).max().unwrap_or_default();
    (bars, before.max(longest))
}

/// The end of a bar; if it is running, the current time, rounded so that an idle page is not sent every second.
fn until(
    end: Option<Timestamp>,
    update: Option<Timestamp>,
    status: BatchStatus,
    now: Timestamp,
) -> Timestamp {
    const ROUND_TO: u64 = 10;
    let seconds = now.since(Timestamp::EPOCH).as_secs();
    let rounded = Timestamp::EPOCH.plus(Duration::from_secs(seconds - seconds % ROUND_TO));
    let last = update.unwrap_or(now);
    end.unwrap_or(if status.is_running() { last.max(rounded) } else { last })
}

fn row(state: &State, data: &PageData, bar: &Bar<'_>, total: Duration, times: &Times) -> Markup {
    let share = |time: Duration| match total.as_secs_f64() {
        0.0 => 0.0,
        total => time.as_secs_f64() / total * WIDTH,
    };
    // Even the shortest bar is visible, and none is outside.
    let width = share(bar.length).max(4.0);
    let from = share(bar.from).min(WIDTH - width);
    let is_this = bar.execution == data.execution().id;
    html! {
        tr {
            td.number {
                @if is_this { b { "#" (bar.execution) } } @else {
                    a href=(state.path(&format!("/executions/{}", bar.execution))) { "#" (bar.execution) }
                }
            }
            th scope="row" { (bar.step.name) }
            td { (status_word(bar.step.status)) }
            td.wide {
                svg.gantt viewBox={ "0 0 " (WIDTH) " 10" } preserveAspectRatio="none" role="img" {
                    title { (bar.step.name) ", started after " (took(bar.from)) ", took " (took(bar.length)) }
                    rect.track x="0" y="4" width=(WIDTH) height="2" {}
                    rect.bar.(health(bar.step.status)) x=(format!("{from:.1}")) y="0"
                        width=(format!("{width:.1}")) height="10" {}
                }
            }
            td.number {
                @match bar.step.started_at.filter(|_| bar.step.status.is_running()) {
                    Some(start) => (times.length(start)),
                    None => (took(bar.length)),
                }
            }
        }
    }
}

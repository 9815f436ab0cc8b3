//! Which step ran when, in all executions of the instance: one bar each, on one scale. The time between two executions is
//! left out, because it may be a night, and then nothing else could be seen.

use super::page_data::{Seen, is_partition};
use crate::dashboard::instant::took;
use crate::dashboard::job::state::{health, word};
use crate::dashboard::part::wide_table;
use crate::state::State;
use maud::{Markup, html};
use std::time::Duration;
use tidemill_domain::job::ExecutionId;
use tidemill_domain::time::Timestamp;
use tidemill_store::job::{ExecutionRecord, StepRecord};

/// Most bars; the last ones are shown.
const BARS: usize = 40;
/// Width of a drawing in its own units.
const WIDTH: f64 = 1000.0;
const COLUMNS: &[(&str, bool)] =
    &[("Execution", true), ("Step", false), ("Status", false), ("When", false), ("Took", true)];

/// A bar: from when to when, in time that the instance was worked at.
struct Bar<'a> {
    execution: ExecutionId,
    step: &'a StepRecord,
    from: Duration,
    length: Duration,
}

pub(super) fn markup(state: &State, seen: &Seen, now: Timestamp) -> Markup {
    let (bars, total) = bars(&seen.attempts, now);
    let rows = html! {
        tbody {
            @for bar in bars.iter().skip(bars.len().saturating_sub(BARS)) { (row(state, seen, bar, total)) }
        }
    };
    html! {
        div data-live="timeline" {
            @if bars.is_empty() {
                p.empty { "No step has begun yet." }
            } @else {
                (wide_table("Timeline", COLUMNS, &rows))
            }
        }
    }
}

/// The bars of all executions, one behind the other, and how long they are together.
fn bars(attempts: &[(ExecutionRecord, Vec<StepRecord>)], now: Timestamp) -> (Vec<Bar<'_>>, Duration) {
    let (mut bars, mut before) = (Vec::new(), Duration::ZERO);
    for (execution, steps) in attempts {
        let Some(start) = execution.started_at else { continue };
        for step in steps.iter().filter(|step| !is_partition(step)) {
            let Some(began) = step.started_at else { continue };
            let length = end(step.ended_at.or(step.updated_at), now).since(began);
            bars.push(Bar { execution: execution.id, step, from: before + began.since(start), length });
        }
        before += end(execution.ended_at.or(execution.updated_at), now).since(start);
    }
    let longest = bars.iter().map(|bar| bar.from + bar.length).max().unwrap_or_default();
    (bars, before.max(longest))
}

fn end(known: Option<Timestamp>, now: Timestamp) -> Timestamp {
    known.unwrap_or(now)
}

fn row(state: &State, seen: &Seen, bar: &Bar<'_>, total: Duration) -> Markup {
    let share = |time: Duration| match total.as_secs_f64() {
        0.0 => 0.0,
        total => time.as_secs_f64() / total * WIDTH,
    };
    // Also the shortest can be seen, and none is outside.
    let width = share(bar.length).max(4.0);
    let from = share(bar.from).min(WIDTH - width);
    let is_this = bar.execution == seen.execution().id;
    html! {
        tr {
            td.number {
                @if is_this { b { "#" (bar.execution) } } @else {
                    a href=(state.path(&format!("/executions/{}", bar.execution))) { "#" (bar.execution) }
                }
            }
            th scope="row" { (bar.step.name) }
            td { (word(bar.step.status)) }
            td.wide {
                svg.gantt viewBox={ "0 0 " (WIDTH) " 10" } preserveAspectRatio="none" role="img" {
                    title { (bar.step.name) ", from " (took(bar.from)) " on, for " (took(bar.length)) }
                    rect.track x="0" y="4" width=(WIDTH) height="2" {}
                    rect.bar.(health(bar.step.status).class()) x=(format!("{from:.1}")) y="0"
                        width=(format!("{width:.1}")) height="10" {}
                }
            }
            td.number { (took(bar.length)) }
        }
    }
}

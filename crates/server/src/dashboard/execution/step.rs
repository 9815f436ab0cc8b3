//! The table of the steps of an execution; partitions are below their step.

use super::page_data::PageData;
use crate::dashboard::job::state::status_word;
use crate::dashboard::part::{number, span, took, value_or};
use crate::dashboard::{Audience, Region, Row, Times};
use maud::{Markup, html};
use std::time::Duration;
use tidemill_api::execution::{is_partition, steps_to_show};
use tidemill_domain::time::Timestamp;
use tidemill_store::job::StepRecord;

/// Maximum number of rows.
const ROWS_MAX: usize = 200;

pub(super) const COLUMNS: &[&str] = &[
    "Step",
    "Status",
    "Progress",
    "#Read",
    "#Written",
    "#Filtered",
    "#Skipped",
    "#Commits",
    "#Rollbacks",
    "#Items/s",
    "#Duration",
];

pub(super) fn region(data: &PageData, audience: Audience, times: &Times) -> Region {
    let mut shown = steps_to_show(&data.steps);
    shown.truncate(ROWS_MAX);
    let left_out = data.steps.len() - shown.len();
    let rows = shown.into_iter().map(|step| row(step, data, times));
    let note = (left_out > 0).then(|| {
        html! { (number(left_out as u64)) " partitions are not shown; the download has all of them." }
    });
    Region::rows("steps", audience, COLUMNS, rows, &html! { "No steps have run yet." }, note)
}

fn row(step: &StepRecord, data: &PageData, times: &Times) -> Row {
    let name = format!("step:{}", step.id);
    let counters = &step.counters;
    let kind = is_partition(step).then_some("part");
    let length = length(step, times.now());
    let skipped = format!(
        "{} when reading, {} when processing, {} when writing",
        counters.read_skip, counters.process_skip, counters.write_skip
    );
    let markup = html! {
        tr data-live=(name) id={ "step-" (step.name) } class=[kind] {
            th.long scope="row" {
                (step.name)
                @if let Some(process) = &step.process { div.soft { (process) } }
                div.soft { "started " (times.maybe(step.started_at, "not yet")) }
            }
            td { (status_word(step.status)) }
            td { (progress(step, data, length)) }
            td.number { (number(counters.read)) }
            td.number { (number(counters.write)) }
            td.number { (number(counters.filter)) }
            td.number title=(skipped) { (number(counters.skips())) }
            td.number { (number(counters.commit)) }
            td.number { (number(counters.rollback)) }
            td.number { (pace(step, length)) }
            td.number { (duration(step, length, times)) }
        }
    };
    Row::new(name, markup)
}

/// The script keeps the duration of a running step current, so that an idle row is not sent again.
fn duration(step: &StepRecord, length: Option<Duration>, times: &Times) -> Markup {
    match step.started_at.filter(|_| step.ended_at.is_none() && step.status.is_running()) {
        Some(start) => times.length(start),
        None => html! { @if let Some(length) = length { (took(length)) } },
    }
}

/// The time over which the items were counted: of a running step until its last commit.
fn length(step: &StepRecord, now: Timestamp) -> Option<Duration> {
    let end = step.ended_at.or(step.updated_at).unwrap_or(now);
    step.started_at.map(|start| end.since(start))
}

fn per_second(step: &StepRecord, length: Option<Duration>) -> Option<f64> {
    let seconds = length.filter(|length| !length.is_zero())?.as_secs_f64();
    let items = step.counters.read as f64;
    (items > 0.0).then_some(items / seconds)
}

fn pace(step: &StepRecord, length: Option<Duration>) -> Markup {
    let text = |pace: f64| if pace < 10.0 { format!("{pace:.1}") } else { number(pace.round() as u64) };
    value_or(per_second(step, length).map(text), "–")
}

/// A progress bar if the total is known, otherwise the number of items.
fn progress(step: &StepRecord, data: &PageData, length: Option<Duration>) -> Markup {
    let counters = &step.counters;
    let own = counters.read + counters.read_skip;
    let Some(total) = step.total_items else {
        return html! { @if own > 0 { (number(own)) " items" } @else { span.soft { "–" } } };
    };
    // Items without a commit are read again.
    let committed = if counters.commit == 0 { 0 } else { own };
    let done = data.positions.get(&step.id).copied().unwrap_or(committed).min(total);
    let left = per_second(step, length)
        .filter(|_| step.status.is_running())
        .map(|pace| (total - done) as f64 / pace);
    html! {
        progress max=(total.max(1)) value=(done) aria-label={ "Progress of " (step.name) } {}
        div.still {
            (number(done)) " of " (number(total))
            @if let Some(left) = left { span.soft { ", about " (span(Duration::from_secs_f64(left.min(1e9)))) " left" } }
        }
    }
}

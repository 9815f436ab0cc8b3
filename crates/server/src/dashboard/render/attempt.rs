//! The attempts of a render, each with the time of its parts.

use super::row::RowContext;
use crate::dashboard::Times;
use crate::dashboard::part::{Health, list_table, plain_panel, span, state as state_word};
use maud::{Markup, html};
use std::time::Duration;
use tidemill_domain::render::Status;
use tidemill_domain::render::attempt::AttemptOutcome;
use tidemill_domain::time::Timestamp;
use tidemill_store::render::{AttemptRecord, RenderRecord, TransitionRecord};

const COLUMNS: &[&str] =
    &["Attempt", "Worker", "Timeline", "Started", "Duration", "Outcome", "nexrender job"];

tidemill_domain::words! {
    /// A part of an attempt. A job in nexrender first waits for a node.
    enum Part {
        Preparing = "preparing",
        WaitingForNode = "waiting for a node",
        Rendering = "rendering",
        Encoding = "encoding",
        Uploading = "checking and publishing",
    }
}

impl Part {
    const fn of(status: Status) -> Option<Self> {
        match status {
            Status::Preparing => Some(Self::Preparing),
            Status::Rendering => Some(Self::Rendering),
            Status::Encoding => Some(Self::Encoding),
            Status::Uploading => Some(Self::Uploading),
            Status::Pending | Status::Completed | Status::Failed | Status::Cancelled => None,
        }
    }

    /// The style sheet numbers the parts in the order of the enum.
    fn class(self) -> String {
        format!("p{}", self as usize + 1)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Interval {
    part: Part,
    from: Timestamp,
    to: Timestamp,
}

/// The parts of an attempt, from the status changes.
fn intervals(
    record: &RenderRecord,
    attempt: &AttemptRecord,
    changes: &[TransitionRecord],
    now: Timestamp,
) -> Vec<Interval> {
    let end = attempt.ended_at.unwrap_or(now);
    let mut intervals = Vec::new();
    for (place, change) in changes.iter().enumerate() {
        let Some(part) = Part::of(change.to).filter(|_| change.epoch == attempt.epoch) else { continue };
        let to = changes.get(place + 1).map_or(end, |next| next.at).min(end);
        let is_rendering_now = part == Part::Rendering && attempt.ended_at.is_none();
        match record.node_started_at {
            Some(node) if is_rendering_now && node > change.at && node < to => {
                intervals.push(Interval { part: Part::WaitingForNode, from: change.at, to: node });
                intervals.push(Interval { part, from: node, to });
            }
            None if is_rendering_now => {
                intervals.push(Interval { part: Part::WaitingForNode, from: change.at, to });
            }
            _ => intervals.push(Interval { part, from: change.at, to }),
        }
    }
    intervals
}

pub(super) fn panel_of(
    context: &RowContext<'_>,
    record: &RenderRecord,
    attempts: &[AttemptRecord],
    changes: &[TransitionRecord],
) -> Markup {
    let now = context.times.now();
    let lengths = attempts.iter().map(|attempt| attempt.ended_at.unwrap_or(now).since(attempt.started_at));
    let longest = lengths.max().unwrap_or_default();
    let rows = attempts
        .iter()
        .map(|attempt| row(context.times, attempt, &intervals(record, attempt, changes, now), longest));
    let table = list_table("Attempts", COLUMNS, rows, &html! { "No worker has claimed it yet." });
    let legend = html! {
        @if !attempts.is_empty() {
            ul.legend.body {
                @for part in Part::ALL {
                    li { svg.(part.class()) width="12" height="12" aria-hidden="true" { rect width="12" height="12" {} } " " (part) }
                }
            }
        }
    };
    plain_panel("attempts", "Attempts", &html! { (table) (legend) })
}

fn row(times: &Times, attempt: &AttemptRecord, intervals: &[Interval], longest: Duration) -> Markup {
    html! {
        tr {
            th scope="row" { (attempt.epoch) }
            td.long { (attempt.worker_name) }
            td { (lane(attempt.started_at, intervals, longest)) }
            td { (times.at(attempt.started_at)) }
            td.still {
                @match attempt.ended_at {
                    Some(end) => (span(end.since(attempt.started_at))),
                    None => { (times.length(attempt.started_at)) " so far" }
                }
            }
            td.long { (outcome(attempt)) }
            td { @if let Some(job) = &attempt.remote_job { code { (job) } } }
        }
    }
}

fn outcome(attempt: &AttemptRecord) -> Markup {
    let (health, word) = match attempt.outcome {
        None => (Health::Ok, "running"),
        Some(AttemptOutcome::Completed) => (Health::Ok, "completed"),
        Some(AttemptOutcome::Failed) => (Health::Bad, "failed"),
        Some(AttemptOutcome::Cancelled) => (Health::Idle, "cancelled"),
        Some(AttemptOutcome::Retried) => (Health::Warn, "retried"),
        Some(AttemptOutcome::GivenBack) => (Health::Idle, "given back"),
        Some(AttemptOutcome::Lost) => (Health::Bad, "worker lost"),
    };
    html! {
        (state_word(health, word))
        @if let Some(reason) = &attempt.reason {
            br;
            details {
                summary { code { (reason.code) } }
                pre { (reason.message) }
            }
        }
    }
}

/// A bar of the parts of an attempt. All attempts have the same scale.
fn lane(from: Timestamp, intervals: &[Interval], longest: Duration) -> Markup {
    let labels: Vec<String> = intervals
        .iter()
        .map(|interval| format!("{} {}", interval.part, span(interval.to.since(interval.from))))
        .collect();
    let whole = longest.as_secs_f64().max(0.001);
    let share =
        |length: Duration| format!("{:.2}%", (length.as_secs_f64() / whole * 100.0).clamp(0.0, 100.0));
    html! {
        @if intervals.is_empty() {
            span.soft { "unknown" }
        } @else {
            svg.lane role="img" aria-label=(labels.join(", ")) {
                @for (interval, label) in intervals.iter().zip(&labels) {
                    rect.(interval.part.class()) x=(share(interval.from.since(from))) height="100%"
                        width=(share(interval.to.since(interval.from).max(longest / 200))) { title { (label) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_tells_its_parts_in_words_and_keeps_within_its_scale() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let intervals = [
            Interval { part: Part::Preparing, from: at(0), to: at(8) },
            Interval { part: Part::Rendering, from: at(8), to: at(80) },
        ];

        let markup = lane(at(0), &intervals, Duration::from_secs(160)).into_string();

        assert!(markup.contains("aria-label=\"preparing 8 s, rendering 1 min\""), "{markup}");
        assert!(markup.contains("class=\"p3\" x=\"5.00%\" height=\"100%\" width=\"45.00%\""), "{markup}");
        assert!(!markup.contains("style"));
        let none = lane(at(0), &[], Duration::ZERO).into_string();
        assert!(none.contains("unknown"), "{none}");
        // A clock that goes back does not make a negative bar.
        let odd = lane(at(9), &[Interval { part: Part::Encoding, from: at(5), to: at(2) }], Duration::ZERO);
        assert!(odd.into_string().contains("x=\"0.00%\""));
    }
}

//! What was tried with a render: one row for each claim, with where the time went.

use super::row::Look;
use crate::dashboard::instant::{Times, span};
use crate::dashboard::part::{Health, empty_row, panel, state as state_word, table};
use maud::{Markup, html};
use std::time::Duration;
use tidemill_domain::render::Status;
use tidemill_domain::render::attempt::AttemptOutcome;
use tidemill_domain::time::Timestamp;
use tidemill_store::render::{AttemptRecord, RenderRecord, TransitionRecord};

const COLUMNS: &[&str] =
    &["Attempt", "Worker", "Where the time went", "Begun", "Took", "Outcome", "Job at the farm"];

tidemill_domain::words! {
    /// A part of an attempt. A render that nexrender has waits for a node first.
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

    const fn class(self) -> &'static str {
        match self {
            Self::Preparing => "p1",
            Self::WaitingForNode => "p2",
            Self::Rendering => "p3",
            Self::Encoding => "p4",
            Self::Uploading => "p5",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stretch {
    part: Part,
    from: Timestamp,
    to: Timestamp,
}

/// Where the time of an attempt went, as far as changes of status tell.
fn stretches(
    record: &RenderRecord,
    attempt: &AttemptRecord,
    changes: &[TransitionRecord],
    now: Timestamp,
) -> Vec<Stretch> {
    let end = attempt.ended_at.unwrap_or(now);
    let mut stretches = Vec::new();
    for (place, change) in changes.iter().enumerate() {
        let Some(part) = Part::of(change.to).filter(|_| change.epoch == attempt.epoch) else { continue };
        let to = changes.get(place + 1).map_or(end, |next| next.at).min(end);
        match record.node_started_at.filter(|_| part == Part::Rendering && attempt.ended_at.is_none()) {
            Some(node) if node > change.at && node < to => {
                stretches.push(Stretch { part: Part::WaitingForNode, from: change.at, to: node });
                stretches.push(Stretch { part, from: node, to });
            }
            None if part == Part::Rendering
                && attempt.ended_at.is_none()
                && record.node_started_at.is_none() =>
            {
                stretches.push(Stretch { part: Part::WaitingForNode, from: change.at, to });
            }
            _ => stretches.push(Stretch { part, from: change.at, to }),
        }
    }
    stretches
}

fn length(from: Timestamp, to: Timestamp) -> Duration {
    if to > from { to.since(from) } else { Duration::ZERO }
}

pub(super) fn panel_of(
    look: &Look<'_>,
    record: &RenderRecord,
    attempts: &[AttemptRecord],
    changes: &[TransitionRecord],
) -> Markup {
    let now = look.times.now();
    let longest = attempts
        .iter()
        .map(|attempt| length(attempt.started_at, attempt.ended_at.unwrap_or(now)))
        .max()
        .unwrap_or_default();
    let rows = html! {
        tbody {
            @if attempts.is_empty() { (empty_row(COLUMNS.len(), &html! { "No worker has had it yet." })) }
            @for attempt in attempts {
                (row(look.times, attempt, &stretches(record, attempt, changes, now), longest))
            }
        }
    };
    let legend = html! {
        @if !attempts.is_empty() {
            ul.legend.body {
                @for part in Part::ALL {
                    li { svg.(part.class()) width="12" height="12" aria-hidden="true" { rect width="12" height="12" {} } " " (part) }
                }
            }
        }
    };
    panel("attempts", "What was tried", &html! {}, &html! { (table("Attempts", COLUMNS, &rows)) (legend) })
}

fn row(times: &Times, attempt: &AttemptRecord, stretches: &[Stretch], longest: Duration) -> Markup {
    let end = attempt.ended_at.unwrap_or(times.now());
    html! {
        tr {
            th scope="row" { (attempt.epoch) }
            td.long { (attempt.worker_name) }
            td { (lane(attempt.started_at, stretches, longest)) }
            td { (times.at(attempt.started_at)) }
            td.still {
                @match attempt.ended_at {
                    Some(_) => (span(length(attempt.started_at, end))),
                    None => { (times.length(attempt.started_at)) " so far" }
                }
            }
            td.long { (outcome(attempt)) }
            td { @if let Some(job) = &attempt.remote_job { code { (job) } } }
        }
    }
}

fn outcome(attempt: &AttemptRecord) -> Markup {
    let word = match attempt.outcome {
        None => state_word(Health::Ok, "at work"),
        Some(AttemptOutcome::Completed) => state_word(Health::Ok, "completed"),
        Some(AttemptOutcome::Failed) => state_word(Health::Bad, "failed"),
        Some(AttemptOutcome::Cancelled) => state_word(Health::Idle, "cancelled"),
        Some(AttemptOutcome::Retried) => state_word(Health::Warn, "to be tried again"),
        Some(AttemptOutcome::GivenBack) => state_word(Health::Idle, "given back"),
        Some(AttemptOutcome::Lost) => state_word(Health::Bad, "worker lost"),
    };
    html! {
        (word)
        @if let Some(reason) = &attempt.reason {
            br;
            details {
                summary { code { (reason.code) } }
                pre { (reason.message) }
            }
        }
    }
}

/// A bar of the parts of an attempt; all attempts have one scale.
fn lane(from: Timestamp, stretches: &[Stretch], longest: Duration) -> Markup {
    let told: Vec<String> = stretches
        .iter()
        .map(|stretch| format!("{} {}", stretch.part, span(length(stretch.from, stretch.to))))
        .collect();
    let whole = longest.as_secs_f64().max(0.001);
    let share =
        |length: Duration| format!("{:.2}%", (length.as_secs_f64() / whole * 100.0).clamp(0.0, 100.0));
    html! {
        @if stretches.is_empty() {
            span.soft { "unknown" }
        } @else {
            svg.lane role="img" aria-label=(told.join(", ")) {
                @for (stretch, told) in stretches.iter().zip(&told) {
                    rect.(stretch.part.class()) x=(share(length(from, stretch.from))) height="100%"
                        width=(share(length(stretch.from, stretch.to).max(longest / 200))) { title { (told) } }
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
        let stretches = [
            Stretch { part: Part::Preparing, from: at(0), to: at(8) },
            Stretch { part: Part::Rendering, from: at(8), to: at(80) },
        ];

        let markup = lane(at(0), &stretches, Duration::from_secs(160)).into_string();

        assert!(markup.contains("aria-label=\"preparing 8 s, rendering 1 min\""), "{markup}");
        assert!(markup.contains("class=\"p3\" x=\"5.00%\" height=\"100%\" width=\"45.00%\""), "{markup}");
        assert!(!markup.contains("style"));
        let none = lane(at(0), &[], Duration::ZERO).into_string();
        assert!(none.contains("unknown"), "{none}");
        // A clock that went back makes no bar of less than nothing.
        let odd = lane(at(9), &[Stretch { part: Part::Encoding, from: at(5), to: at(2) }], Duration::ZERO);
        assert!(odd.into_string().contains("x=\"0.00%\""));
    }
}

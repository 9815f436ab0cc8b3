//! One render as a row: on the board, in lists and in patches.

use crate::dashboard::instant::{Times, span};
use crate::dashboard::part::encoded;
use crate::dashboard::part::{Health, state as state_word};
use crate::dashboard::region::{Buttons, Row};
use crate::state::State;
use maud::{Markup, html};
use std::time::Duration;
use tidemill_domain::action::Action;
use tidemill_domain::lease::Lease;
use tidemill_domain::render::order;
use tidemill_domain::render::wait::{Hands, Wait, estimate, why};
use tidemill_domain::render::{Render, Status};
use tidemill_domain::time::Timestamp;
use tidemill_store::render::RenderRecord;

/// What the table's columns are called.
pub(super) const COLUMNS: &[&str] = &["State", "Render", "How it stands", "Urgency", "When", "Action"];

/// As much of an error as a row has.
const LINE_CHARS_MAX: usize = 200;

/// What all rows of a page have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    pub(crate) state: &'a State,
    pub(crate) times: &'a Times,
    pub(crate) buttons: Buttons,
    pub(crate) hands: Hands,
    /// How long a render takes about.
    pub(crate) pace: Option<Duration>,
    /// The address of the page, to come back to.
    pub(crate) back: &'a str,
}

/// How many of those that wait are before one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ahead {
    Exactly(u64),
    MoreThan(u64),
}

impl Ahead {
    const fn least(self) -> u64 {
        match self {
            Self::Exactly(ahead) | Self::MoreThan(ahead) => ahead,
        }
    }
}

pub(crate) fn row(look: &Look<'_>, record: &RenderRecord, ahead: Ahead) -> Row {
    let (times, id) = (look.times, record.id());
    let (word, at) = moment(record);
    let name = format!("render:{id}");
    let markup = html! {
        tr role="row" data-live=(name) {
            td role="cell" { (state(&record.render, times.now())) }
            th.long role="rowheader" scope="row" {
                a href=(look.state.path(&format!("/render/{id}"))) { (title(record)) }
                br;
                span.soft {
                    "#" (id)
                    @if let Some(cue) = &record.cue_item { " · " (cue) }
                }
            }
            td.long role="cell" { (standing(look, record, ahead)) }
            td.still role="cell" {
                @if let Some(deadline) = record.render.deadline { span.soft { "on air " } (times.at(deadline)) br; }
                @if record.priority != 0 { span.soft { "priority " } (record.priority) }
            }
            td role="cell" { span.soft { (word) } br; (times.maybe(at, "unknown")) }
            td role="cell" { (actions(look, record)) }
        }
    };
    Row::new(name.clone(), markup)
}

/// What a render is called.
pub(crate) fn title(record: &RenderRecord) -> &str {
    record.composition.as_deref().filter(|text| !text.trim().is_empty()).unwrap_or("(no composition)")
}

/// Until when its worker may be silent; none when nobody has it.
pub(crate) fn lease_until(render: &Render) -> Option<Timestamp> {
    match render.lease {
        Lease::Held { until, .. } => until,
        Lease::Free { .. } => None,
    }
}

/// Whether its worker has vanished.
pub(crate) fn is_lapsed(render: &Render, now: Timestamp) -> bool {
    order::may_recover(render, now).is_ok()
}

/// Its status, in a word.
pub(crate) fn state(render: &Render, now: Timestamp) -> Markup {
    match render.status {
        Status::Completed => state_word(Health::Ok, "completed"),
        Status::Failed => state_word(Health::Bad, "failed"),
        Status::Cancelled => state_word(Health::Idle, "cancelled"),
        Status::Pending if render.reason.is_some() => state_word(Health::Warn, "pending"),
        Status::Pending => state_word(Health::Idle, "pending"),
        status if is_lapsed(render, now) => {
            html! { (state_word(Health::Bad, status.as_str())) br; span.soft { "worker is silent" } }
        }
        status if render.cancel_requested_at.is_some() => {
            html! { (state_word(Health::Warn, status.as_str())) br; span.soft { "being cancelled" } }
        }
        status => state_word(Health::Ok, status.as_str()),
    }
}

fn standing(look: &Look<'_>, record: &RenderRecord, ahead: Ahead) -> Markup {
    let render = &record.render;
    match render.status {
        Status::Pending => waiting(look, record, ahead),
        Status::Completed => finished(record),
        Status::Failed => html! { (failure(render)) },
        Status::Cancelled => html! {
            @match record.started_at {
                Some(_) => { "It was " (render.phase.label()) " when it was cancelled." }
                None => "It was cancelled before it began.",
            }
        },
        _ => html! {
            (bar(render)) " " (render.phase.label())
            br;
            span.soft {
                (record.worker_name.as_deref().unwrap_or("unknown worker"))
                @if let Some(since) = record.started_at { " · for " (look.times.length(since)) }
                (lease(render, look.times))
            }
        },
    }
}

/// How far it is, for those who see the bar and those who do not.
pub(crate) fn bar(render: &Render) -> Markup {
    let percent = render.progress.get();
    html! {
        progress max="100" value=(percent) aria-label={ "Progress of render " (render.id) } { (percent) " %" }
        " " (percent) " %"
    }
}

fn lease(render: &Render, times: &Times) -> Markup {
    html! {
        @match lease_until(render) {
            Some(until) if until > times.now() => { " · lease for another " (times.length(until)) }
            Some(until) => { " · lease ended " (times.at(until)) }
            None => {}
        }
    }
}

/// The first line of why it failed, and the code.
pub(crate) fn failure(render: &Render) -> Markup {
    html! {
        @if let Some(reason) = &render.reason {
            code { (reason.code) } " " (first_line(&reason.message))
        } @else {
            span.soft { "Nobody has said why." }
        }
    }
}

fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut letters = line.chars();
    let start: String = letters.by_ref().take(LINE_CHARS_MAX).collect();
    if letters.next().is_some() { format!("{start}…") } else { start }
}

fn finished(record: &RenderRecord) -> Markup {
    html! {
        @if let Some(took) = took(record) { "took " (span(took)) }
        @if let Some(bytes) = record.output_bytes { " · " (size(bytes)) }
        @if let Some(path) = &record.output_path { br; code { (path) } }
    }
}

/// From the first claim to the published file.
pub(crate) fn took(record: &RenderRecord) -> Option<Duration> {
    record.duration_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

/// A size as people read it.
#[expect(clippy::cast_precision_loss, reason = "it is rounded to three digits")]
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

/// Why it waits, its place in the queue, and when it begins about.
pub(crate) fn waiting(look: &Look<'_>, record: &RenderRecord, ahead: Ahead) -> Markup {
    let (render, times) = (&record.render, look.times);
    let wait = why(render, ahead.least(), look.hands, times.now());
    let is_put_off = matches!(wait, Wait::NextAttempt { .. } | Wait::NotBefore { .. });
    let begins = estimate(ahead.least(), look.hands, look.pace).filter(|begins| {
        !is_put_off && ahead == Ahead::Exactly(ahead.least()) && *begins >= Duration::from_secs(1)
    });
    html! {
        @if !is_put_off {
            @match ahead {
                Ahead::Exactly(ahead) => { b { "No. " (ahead + 1) } " " }
                Ahead::MoreThan(_) => {}
            }
        }
        span data-why=(wait.as_str()) { (sentence(look, wait, ahead)) }
        @if let Some(begins) = begins { " " span.soft { "Begins in about " (span(begins)) "." } }
        @if render.reason.is_some() { br; (failure(render)) }
    }
}

fn sentence(look: &Look<'_>, wait: Wait, ahead: Ahead) -> Markup {
    let workers = html! { a href=(look.state.path("/render/workers")) { "Workers" } };
    match wait {
        Wait::NextAttempt { at } => html! { "It is tried again " (look.times.at(at)) "." },
        Wait::NotBefore { at } => html! { "It is not wanted before " (look.times.at(at)) "." },
        Wait::NoWorker => html! { (state_word(Health::Bad, "No worker runs.")) },
        Wait::NobodyTakes => {
            html! { (state_word(Health::Warn, "No worker takes renders:")) " see " (workers) "." }
        }
        Wait::NoPlace { places: 1 } => html! { "No licence is free: the only place at the farm is taken." },
        Wait::NoPlace { places } => {
            html! { "No licence is free: all " (places) " places at the farm are taken." }
        }
        Wait::Behind { .. } => match ahead {
            Ahead::Exactly(1) => html! { "One is before it." },
            Ahead::Exactly(ahead) => html! { (ahead) " are before it." },
            Ahead::MoreThan(ahead) => html! { "More than " (ahead) " are before it." },
        },
        Wait::Next => html! { "A worker takes it at its next look." },
    }
}

/// What last happened to it, and when.
fn moment(record: &RenderRecord) -> (&'static str, Option<Timestamp>) {
    match record.render.status {
        Status::Pending => ("ordered", Some(record.created_at)),
        status if status.is_terminal() => ("ended", record.ended_at.or(Some(record.updated_at))),
        _ => ("begun", record.started_at),
    }
}

/// What can be done with a render now.
pub(crate) fn actions_now(render: &Render, now: Timestamp) -> Vec<Action> {
    let is_put_off = render.status == Status::Pending && render.run_after > now;
    let has_failed = matches!(render.status, Status::Failed | Status::Cancelled);
    let all = [
        (Action::RenderCancel, render.cancel_requested_at.is_none() && order::may_cancel(render).is_ok()),
        (Action::RenderRetry, (is_put_off || has_failed) && order::retry(render, now).is_ok()),
        (Action::RenderRecover, order::may_recover(render, now).is_ok()),
    ];
    all.into_iter().filter_map(|(action, is_possible)| is_possible.then_some(action)).collect()
}

/// Buttons that lead to a question: a page without the script, a dialog with it.
fn actions(look: &Look<'_>, record: &RenderRecord) -> Markup {
    html! {
        div.acts {
            @for action in actions_now(&record.render, look.times.now()) { (button(look, record, action)) }
        }
    }
}

pub(crate) fn button(look: &Look<'_>, record: &RenderRecord, action: Action) -> Markup {
    let (id, text) = (record.id(), format!("{}…", action.label()));
    let question = format!("/render/{id}/{}?back={}", action.verb(), encoded(look.back));
    html! {
        @match look.buttons {
            Buttons::On => {
                a.button data-ask href=(look.state.path(&question))
                    aria-label={ (text) " render " (id) } { (text) }
            }
            Buttons::Off => button type="button" disabled aria-describedby="buttons-off" { (text) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::render::RenderId;

    #[test]
    fn sizes_are_told_in_their_unit() {
        for (bytes, told) in
            [(999, "999 bytes"), (1_000, "1.0 kB"), (18_400_000, "18.4 MB"), (2_340_000_000, "2.34 GB")]
        {
            assert_eq!(size(bytes), told);
        }
    }

    #[test]
    fn a_row_has_the_first_line_of_an_error_and_not_all_of_it() {
        assert_eq!(first_line("\n  \nit broke\nat line 7"), "it broke");
        assert_eq!(first_line(&"가".repeat(500)).chars().count(), LINE_CHARS_MAX + 1);
        assert_eq!(first_line(""), "");
    }

    #[test]
    fn only_what_can_be_done_is_offered() {
        let now = Timestamp::from_micros(1_000_000_000);
        let mut render = Render::new(RenderId::new(1), now);
        assert_eq!(actions_now(&render, now), [Action::RenderCancel]);
        render.run_after = now.plus(Duration::from_secs(60));
        assert_eq!(actions_now(&render, now), [Action::RenderCancel, Action::RenderRetry]);
        for (status, expected) in [
            (Status::Failed, &[Action::RenderRetry][..]),
            (Status::Cancelled, &[Action::RenderRetry]),
            (Status::Completed, &[]),
        ] {
            render.status = status;
            assert_eq!(actions_now(&render, now), expected, "{status}");
        }
    }
}

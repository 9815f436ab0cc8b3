//! One render as a row of the live list, of search results and of patches.

use super::poster;
use crate::dashboard::part::{Health, brief, encoded, span, state as state_word};
use crate::dashboard::{Buttons, Row, Times};
use crate::state::State;
use maud::{Markup, html};
use std::time::Duration;
use tidemill_domain::action::Action;
use tidemill_domain::code::Code;
use tidemill_domain::lease::Lease;
use tidemill_domain::outbox::Count;
use tidemill_domain::render::order;
use tidemill_domain::render::remedy::remedy;
use tidemill_domain::render::wait::{Late, Wait, WorkerCapacity, estimate, late, why};
use tidemill_domain::render::{Render, RenderId, Status};
use tidemill_domain::schedule::Zone;
use tidemill_domain::time::Timestamp;
use tidemill_store::render::RenderRecord;

pub(super) const COLUMNS: &[&str] = &["Select", "State", "Render", "Progress", "Urgency", "Time", "Action"];

/// What all rows of a page share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowContext<'a> {
    pub(crate) state: &'a State,
    pub(crate) times: &'a Times,
    pub(crate) buttons: Buttons,
    pub(crate) capacity: WorkerCapacity,
    /// How long a render takes on average.
    pub(crate) pace: Option<Duration>,
    /// The address of the page, to return to after an action.
    pub(crate) back: &'a str,
}

impl RowContext<'_> {
    /// The zone of broadcasts.
    pub(crate) fn zone(&self) -> &Zone {
        &self.state.inner().parts.render.zone
    }
}

/// `preview` is what the render shows.
pub(crate) fn row(context: &RowContext<'_>, record: &RenderRecord, preview: &str, ahead: Count) -> Row {
    let (times, id) = (context.times, record.id());
    let (word, at) = moment(record);
    let name = format!("render:{id}");
    let markup = html! {
        tr role="row" data-live=(name) {
            td role="cell" {
                label.pick {
                    input type="checkbox" name="id" value=(id) disabled[context.buttons == Buttons::Off];
                    span.unseen { "Select render " (id) }
                }
            }
            td role="cell" { (state(&record.render, times.now())) }
            th.long role="rowheader" scope="row" {
                a href=(context.state.path(&format!("/render/{id}"))) { (title(record)) }
                br;
                @if !preview.is_empty() { (preview) br; }
                span.soft {
                    "#" (id)
                    @if let Some(cue) = &record.cue_item { " · " (cue) }
                }
                @if poster::place(context.state, record).is_some() { (picture(context, id)) }
            }
            td.long role="cell" { (progress(context, record, ahead)) }
            td.still role="cell" {
                (deadline(context, record, ahead))
                @if record.priority != 0 { span.soft { "priority " } (record.priority) }
            }
            td role="cell" { span.soft { (word) } br; (times.maybe(at, "unknown")) }
            td role="cell" {
                div.acts { @for action in order::possible(&record.render, times.now()) { (button(context, record, action)) } }
            }
        }
    };
    Row::new(name, markup)
}

fn picture(context: &RowContext<'_>, id: RenderId) -> Markup {
    let address = context.state.path(&format!("/render/{id}/poster"));
    html! { img.thumb src=(address) alt={ "A frame of render " (id) } loading="lazy"; }
}

pub(crate) fn title(record: &RenderRecord) -> &str {
    record.composition.as_deref().filter(|text| !text.trim().is_empty()).unwrap_or("(no composition)")
}

pub(crate) fn state(render: &Render, now: Timestamp) -> Markup {
    match render.status {
        Status::Completed => state_word(Health::Ok, "completed"),
        Status::Failed => state_word(Health::Bad, "failed"),
        Status::Cancelled => state_word(Health::Idle, "cancelled"),
        Status::Pending if render.reason.is_some() || render.awaits_approval() => {
            state_word(Health::Warn, "pending")
        }
        Status::Pending => state_word(Health::Idle, "pending"),
        // Its worker disappeared.
        status if order::may_recover(render, now).is_ok() => {
            html! { (state_word(Health::Bad, status.as_str())) br; span.soft { "worker is silent" } }
        }
        status if render.cancel_requested_at.is_some() => {
            html! { (state_word(Health::Warn, status.as_str())) br; span.soft { "cancelling" } }
        }
        status => state_word(Health::Ok, status.as_str()),
    }
}

fn progress(context: &RowContext<'_>, record: &RenderRecord, ahead: Count) -> Markup {
    let render = &record.render;
    match render.status {
        Status::Pending => waiting(context, record, ahead),
        Status::Completed => finished(record),
        Status::Failed => html! { (failure(render)) },
        Status::Cancelled => html! {
            @match record.started_at {
                Some(_) => { "Cancelled while " (render.phase.label()) "." }
                None => "Cancelled before it started.",
            }
        },
        _ => html! {
            (bar(render)) " " (render.phase.label())
            br;
            span.soft {
                (record.worker_name.as_deref().unwrap_or("unknown worker"))
                @if let Some(since) = record.started_at { " · for " (context.times.length(since)) }
                (lease(render, context.times, " · "))
            }
        },
    }
}

/// A progress bar and its value as text.
pub(crate) fn bar(render: &Render) -> Markup {
    let percent = render.progress.get();
    html! {
        progress max="100" value=(percent) aria-label={ "Progress of render " (render.id) } { (percent) " %" }
        " " (percent) " %"
    }
}

/// When the lease of the worker ends, after `sign`; nothing without a worker.
pub(super) fn lease(render: &Render, times: &Times, sign: &str) -> Markup {
    let Lease::Held { until: Some(until), .. } = render.lease else { return html! {} };
    html! {
        (sign)
        @if until > times.now() { "lease ends in " (times.length(until)) }
        @else { "lease ended " (times.at(until)) }
    }
}

/// The error code, the first line of the message, and the remedy.
pub(crate) fn failure(render: &Render) -> Markup {
    html! {
        @if let Some(reason) = &render.reason {
            code { (reason.code) } " " (brief(&reason.message)) (remedied(reason.code))
        } @else {
            span.soft { "Unknown error." }
        }
    }
}

/// What to do about a failure, as a sentence.
pub(super) fn remedied(code: Code) -> Markup {
    html! { @if let Some(text) = remedy(code) { p.tight { span.soft { "What to do: " } (text) "." } } }
}

fn finished(record: &RenderRecord) -> Markup {
    html! {
        @if let Some(took) = took(record) { "took " (span(took)) }
        @if let Some(bytes) = record.output_bytes { " · " (size(bytes)) }
        @if let Some(path) = &record.output_path { br; code { (path) } }
        @for object in record.objects() { br; code { (object) } }
    }
}

pub(crate) fn took(record: &RenderRecord) -> Option<Duration> {
    record.duration_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

#[expect(clippy::cast_precision_loss, reason = "it is rounded to three digits")]
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

/// The place in the queue, why the render waits, and when it may start.
pub(crate) fn waiting(context: &RowContext<'_>, record: &RenderRecord, ahead: Count) -> Markup {
    let (render, times) = (&record.render, context.times);
    let wait = why(render, ahead.least(), context.capacity, times.now());
    let is_put_off = matches!(wait, Wait::Approval | Wait::NextAttempt { .. } | Wait::NotBefore { .. });
    let starts = starts(context, ahead).filter(|starts| !is_put_off && *starts >= Duration::from_secs(1));
    html! {
        @if !is_put_off {
            @if let Count::Exactly(ahead) = ahead { b { "No. " (ahead + 1) } " " }
        }
        span data-why=(wait.as_str()) { (sentence(context, wait, ahead)) }
        @if let Some(starts) = starts { " " span.soft { "Starts in about " (span(starts)) "." } }
        @if render.reason.is_some() { br; (failure(render)) }
    }
}

/// When a waiting render is expected to start, from now.
fn starts(context: &RowContext<'_>, ahead: Count) -> Option<Duration> {
    estimate(ahead.least(), context.capacity, context.pace).filter(|_| ahead.is_exact())
}

fn lateness(context: &RowContext<'_>, record: &RenderRecord, ahead: Count) -> Option<Late> {
    let (render, now) = (&record.render, context.times.now());
    let starts = match render.status {
        Status::Pending if render.awaits_approval() => None,
        Status::Pending => starts(context, ahead).map(|starts| now.plus(starts).max(render.run_after)),
        _ => record.started_at,
    };
    late(render, record.completed_at, starts, context.pace, now)
}

/// When it goes on air, and whether it is late for that.
pub(super) fn deadline(context: &RowContext<'_>, record: &RenderRecord, ahead: Count) -> Markup {
    html! {
        @if let Some(deadline) = record.render.deadline {
            span.soft { "on air " } (context.times.at(deadline)) br;
        }
        @match lateness(context, record, ahead) {
            Some(Late::By(by)) => { (state_word(Health::Bad, "late")) " by " (span(by)) br; }
            Some(Late::Expected(by)) => { (state_word(Health::Warn, "will be late")) " by about " (span(by)) br; }
            None => {}
        }
    }
}

fn sentence(context: &RowContext<'_>, wait: Wait, ahead: Count) -> Markup {
    let workers = html! { a href=(context.state.path("/render/workers")) { "Workers" } };
    match wait {
        Wait::Approval => html! { "Waits for approval." },
        Wait::NextAttempt { at } => html! { "Next attempt " (context.times.at(at)) "." },
        Wait::NotBefore { at } => html! { "Not before " (context.times.at(at)) "." },
        Wait::NoWorker => html! { (state_word(Health::Bad, "No worker is running.")) },
        Wait::NobodyTakes => {
            html! { (state_word(Health::Warn, "No worker takes renders:")) " see " (workers) "." }
        }
        Wait::NoPlace { places: 1 } => html! { "The only place at the farm is busy." },
        Wait::NoPlace { places } => html! { "All " (places) " places at the farm are busy." },
        Wait::Behind { .. } => match ahead {
            Count::Exactly(1) => html! { "One render is ahead." },
            Count::Exactly(ahead) => html! { (ahead) " renders are ahead." },
            Count::AtLeast(ahead) => html! { "More than " (ahead) " renders are ahead." },
        },
        Wait::Next => html! { "A worker takes it at its next poll." },
    }
}

/// The last change, and its time.
fn moment(record: &RenderRecord) -> (&'static str, Option<Timestamp>) {
    match record.render.status {
        Status::Pending if record.render.awaits_approval() => ("ready", Some(record.render.run_after)),
        Status::Pending => ("ordered", Some(record.created_at)),
        status if status.is_terminal() => ("ended", record.ended_at.or(Some(record.updated_at))),
        _ => ("started", record.started_at),
    }
}

/// A button that opens a question: a dialog, or a page without the script.
pub(crate) fn button(context: &RowContext<'_>, record: &RenderRecord, action: Action) -> Markup {
    let (id, text) = (record.id(), format!("{}…", action.label()));
    let question = format!("/render/{id}/{}?back={}", action.verb(), encoded(context.back));
    html! {
        @match context.buttons {
            Buttons::On => {
                a.button data-ask href=(context.state.path(&question))
                    aria-label={ (text) " render " (id) } { (text) }
            }
            Buttons::Off => button type="button" disabled aria-describedby="buttons-off" { (text) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_their_unit() {
        for (bytes, told) in
            [(999, "999 bytes"), (1_000, "1.0 kB"), (18_400_000, "18.4 MB"), (2_340_000_000, "2.34 GB")]
        {
            assert_eq!(size(bytes), told);
        }
    }
}

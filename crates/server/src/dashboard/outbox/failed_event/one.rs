//! The page of a failed event, and the questions before it is replayed or skipped.

use super::filter::FailedEventQuery;
use super::list::{actions, state_of};
use crate::api::outbox::failed_event::find;
use crate::api::outbox::object;
use crate::api::{Id, id};
use crate::dashboard::part::{command, plain_panel};
use crate::dashboard::sheet::{QuestionPage, Sheet, SheetForm, WHY, number_field, reason_field};
use crate::dashboard::{Buttons, Frame, PageContext, PageResult, PageSnapshot, Section, Times, form};
use crate::problem::Problem;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};
use tidemill_domain::access::Permission;
use tidemill_domain::action::{Action, Reason};
use tidemill_domain::outbox::failed_event::{Original, Verb, operate};
use tidemill_domain::outbox::{EventId, Payload};
use tidemill_domain::time::Timestamp;
use tidemill_store::Tx;
use tidemill_store::outbox::failed_event::{FailedEventDetail, FailedEventRecord};

/// A page shows this much of a payload; the API returns all of it.
const PAYLOAD_CHARS_MAX: usize = 64 * 1024;

pub(crate) async fn page(visit: PageContext, Id(id): Id) -> PageResult {
    let id = EventId::new(id);
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let detail = find(&mut tx, id).await?;
    let times = visit.times(common.now);
    let content = html! {
        h1 { "Event " (id) }
        (plain_panel("status", "Status", &status(&visit, &detail.record, &times)))
        (plain_panel("content", "Payload", &content_of(&visit, &detail, &times)))
    };
    Ok(Frame::new(&visit, &common, Section::Outbox).titled(&format!("Event {id}")).render(&content))
}

fn status(visit: &PageContext, record: &FailedEventRecord, times: &Times) -> Markup {
    let (id, link) = (record.id, |id: EventId| visit.state.path(&format!("/outbox/failed/{id}")));
    let of_aggregate = FailedEventQuery {
        state: "open".into(),
        aggregate_type: record.aggregate.kind.clone(),
        aggregate_id: record.aggregate.id.clone(),
        ..FailedEventQuery::default()
    };
    let address = format!("{}{}", visit.state.path("/outbox/failed"), of_aggregate.query(""));
    let why = |verb: &Verb| operate(record.facts(), verb, times.now()).err();
    let refusal = visit.refusal_of(Permission::Operate, &object(record.topic.as_deref()));
    html! {
        dl.body {
            dt { "State" }
            dd {
                (state_of(record))
                @if let Some(behind) = record.behind { ", waiting for event " a href=(link(behind)) { (behind) } }
            }
            dt { "Error" }
            dd { @match &record.error { Some(error) => pre { (error) }, None => span.soft { "unknown" } } }
            dt { "Attempts" }
            dd {
                (record.failed_event.attempts)
                @if let Some(next) = record.failed_event.state.next_attempt_at() { ", next " (times.at(next)) }
            }
            dt { "Event type" } dd { (record.event_type) }
            dt { "Aggregate" }
            dd { (record.aggregate.kind) " " (record.aggregate.id) " · " a href=(address) { "all its failed events" } }
            dt { "Topic" }
            dd {
                (record.topic.as_deref().unwrap_or("unknown"))
                @if record.is_redirected { " (redirected)" }
            }
            dt { "Slot and position" } dd { (record.slot.get()) ", " (record.seq.get()) }
            dt { "Failed" } dd { (times.at(record.since)) ", changed " (times.at(record.updated_at)) }
        }
        div.row.body {
            (actions(&visit.state, record, times, Buttons::unless(refusal.as_deref())))
            @if let Some(reason) = &refusal {
                span.soft { (reason) }
            } @else if let Some(refusal) = why(&Verb::Replay).or_else(|| why(&Verb::Skip)) {
                span.soft { "Not possible: " (refusal) ". Instead: " (refusal.fix()) "." }
            }
        }
        p.body.soft {
            "Order is kept for each aggregate. At the command line: "
            (command(&format!("tidemill outbox replay {id} --reason WHY"))) " "
            (command(&format!("tidemill outbox edit {id} --help")))
        }
    }
}

/// The payload needs the permission `administer`.
fn content_of(visit: &PageContext, detail: &FailedEventDetail, times: &Times) -> Markup {
    if !visit.principal.may(Permission::Administer) {
        return html! {
            p.body { "The role " (visit.principal.role) " may not " (Permission::Administer.as_str()) ", so the payload is not shown." }
        };
    }
    match &detail.content {
        None => html! { p.body { "The event was deleted from its table; it can only be skipped." } },
        Some(Err(bad)) => html! { p.body { "The event cannot be read: " (bad) "." } },
        Some(Ok(content)) => html! {
            dl.body {
                dt { "Created" } dd { (times.at(content.created_at)) }
                @if detail.record.is_edited { dt { "Edited" } dd { "An operator changed the payload or the headers." } }
                dt { "Headers" }
                dd {
                    @if content.headers.is_empty() { span.soft { "none" } }
                    @for (name, value) in &content.headers { div { code { (name) } ": " code { (value) } } }
                }
                dt { "Payload" } dd { (payload(&content.payload)) }
            }
        },
    }
}

/// Shows the payload as it is stored, so that no number is rounded.
fn payload(payload: &Payload) -> Markup {
    let shown = |text: &str| {
        let is_cut = text.chars().nth(PAYLOAD_CHARS_MAX).is_some();
        let text: String = text.chars().take(PAYLOAD_CHARS_MAX).collect();
        html! {
            pre tabindex="0" { (text) }
            @if is_cut { p.soft { "First " (PAYLOAD_CHARS_MAX) " characters. The API returns all of it." } }
        }
    };
    match payload {
        Payload::Json(text) => shown(text),
        Payload::Bytes(bytes) => {
            html! { p.soft { (bytes.len()) " bytes, in base64" } (shown(&STANDARD.encode(bytes))) }
        }
        Payload::Tombstone => html! { span.soft { "none: a tombstone" } },
    }
}

pub(super) const fn verb(action: Action) -> Verb {
    match action {
        Action::EventSkip | Action::EventsSkip => Verb::Skip,
        _ => Verb::Replay,
    }
}

pub(crate) async fn question(
    action: Action,
    visit: &PageContext,
    tx: &mut Tx,
    text: &str,
    now: Timestamp,
) -> Result<QuestionPage, Problem> {
    let id = EventId::new(id(text)?);
    let record = find(tx, id).await?.record;
    let (title, heading) = (format!("{} event {id}", action.label()), html! { h1 { "Event " (id) } });
    let sheet = sheet(action, visit, &record, now);
    Ok(QuestionPage { section: Section::Outbox, title, heading, sheet })
}

fn consequence(action: Action, record: &FailedEventRecord) -> String {
    let (kind, id) = (&record.aggregate.kind, &record.aggregate.id);
    match (action, record.original) {
        (Action::EventSkip, Original::Gone) => {
            "It will never be published. It was already deleted from its table.".to_owned()
        }
        (Action::EventSkip, _) => {
            format!(
                "It will never be published. This cannot be undone. Later events of {kind} {id} continue without it."
            )
        }
        _ => format!(
            "It is retried now, with new attempts. Later events of {kind} {id} wait until it is published or skipped."
        ),
    }
}

fn sheet(action: Action, visit: &PageContext, record: &FailedEventRecord, now: Timestamp) -> Sheet {
    let (id, word) = (record.id, action.label());
    let back = visit.state.path(&format!("/outbox/failed/{id}"));
    let refusal = visit.refusal_of(Permission::Operate, &object(record.topic.as_deref())).or_else(|| {
        let refusal = operate(record.facts(), &verb(action), now).err()?;
        Some(format!("Not possible: {refusal}. Instead: {}.", refusal.fix()))
    });
    let is_skip = action == Action::EventSkip;
    let address = format!("{back}/{}", action.verb());
    Sheet {
        question: format!("{word} event {id}, “{}”?", record.event_type),
        consequence: html! { @if refusal.is_none() { p { (consequence(action, record)) } } },
        form: SheetForm::Own { address, hidden: form::hidden_with_back(&visit.principal, &back) },
        fields: html! {
            @if is_skip { (number_field(id.get(), None)) }
            (reason_field(WHY, Reason::Required, None))
        },
        back,
        leave: "Leave it",
        button: format!("{word} event {id}"),
        ends: is_skip,
        refusal,
        command: Some(action.command_for(id)),
    }
}

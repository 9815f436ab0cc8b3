//! One event that was not taken: where it stands, what it says, and the questions before something is done about it.

use super::filter::FailedEventQuery;
use super::row::{actions, standing};
use crate::access::Principal;
use crate::api::id;
use crate::api::outbox::failed_event::operate::{FailedEventRequest, give};
use crate::api::outbox::failed_event::{find, object, refused as refusal_problem};
use crate::dashboard::form::{self, Fields, OrderForm};
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::instant::Times;
use crate::dashboard::page_context::{PageContext, home};
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{command, panel, refused};
use crate::dashboard::preferences::is_ours;
use crate::dashboard::region::Page;
use crate::problem::Problem;
use crate::state::State;
use axum::Extension;
use axum::extract::{Path, State as Given};
use axum::response::{Html, Redirect};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};
use tidemill_domain::access::Permission;
use tidemill_domain::audit::FIELD_CHARS_MAX;
use tidemill_domain::outbox::failed_event::{FailedEventRefusal, Original, Verb, operate};
use tidemill_domain::outbox::{EventId, Payload};
use tidemill_domain::time::Timestamp;
use tidemill_store::outbox::failed_event::{FailedEventDetail, FailedEventRecord};

/// As much of a payload as a page shows; the API has all of it.
const PAYLOAD_CHARS_MAX: usize = 64 * 1024;

pub(crate) async fn page(visit: PageContext, Path(text): Path<String>) -> Result<Html<String>, Problem> {
    let id = EventId::new(id(&text)?);
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let found = tx.outbox().failed_event(id).await?;
    let detail = found.ok_or_else(|| refusal_problem(id, FailedEventRefusal::Unknown))?;
    let times = visit.times(common.now);
    let nothing = html! {};
    let content = html! {
        h1 { "Event " (id) }
        (panel("standing", "Where it stands", &nothing, &about(&visit, &detail.record, &times)))
        (panel("content", "What it says", &nothing, &said(&visit, &detail, &times)))
    };
    let title = format!("Event {id}");
    let frame = Frame {
        visit: &visit,
        common: &common,
        section: Section::Outbox,
        title: Some(&title),
        page: Page::Other,
    };
    Ok(frame.render(&content))
}

fn about(visit: &PageContext, record: &FailedEventRecord, times: &Times) -> Markup {
    let (id, link) = (record.id, |id: EventId| visit.state.path(&format!("/outbox/failed/{id}")));
    let of_aggregate = FailedEventQuery {
        state: "open".into(),
        aggregate_type: record.aggregate.kind.clone(),
        aggregate_id: record.aggregate.id.clone(),
        ..FailedEventQuery::default()
    };
    let address = format!("{}{}", visit.state.path("/outbox/failed"), of_aggregate.query(""));
    let why = |verb: &Verb| operate(record.facts(), verb, times.now()).err();
    html! {
        dl.body {
            dt { "State" }
            dd {
                (standing(record))
                @if let Some(behind) = record.behind { ", behind event " a href=(link(behind)) { (behind) } }
            }
            dt { "Why it was not taken" }
            dd { @match &record.error { Some(error) => pre { (error) }, None => span.soft { "unknown" } } }
            dt { "Attempts" }
            dd {
                (record.failed_event.attempts)
                @if let Some(next) = record.failed_event.state.next_attempt_at() { ", the next " (times.at(next)) }
            }
            dt { "What happened" } dd { (record.event_type) }
            dt { "To what" }
            dd { (record.aggregate.kind) " " (record.aggregate.id) " · " a href=(address) { "all of it that were not taken" } }
            dt { "Topic" }
            dd {
                (record.topic.as_deref().unwrap_or("unknown"))
                @if record.is_redirected { " (redirected)" }
            }
            dt { "Slot and place" } dd { (record.slot.get()) ", " (record.seq.get()) }
            dt { "Since" } dd { (times.at(record.since)) ", changed " (times.at(record.updated_at)) }
        }
        div.row.body {
            (actions(&visit.state, record, times, visit.buttons_of(Permission::Operate, &object(record.topic.as_deref()))))
            @if let Some(reason) = visit.refusal_of(Permission::Operate, &object(record.topic.as_deref())) {
                span.soft { (reason) }
            } @else if let Some(refusal) = why(&Verb::Replay).or_else(|| why(&Verb::Skip)) {
                span.soft { "Not now: " (refusal) ". Instead: " (refusal.fix()) "." }
            }
        }
        p.body.soft {
            "Order is kept for each aggregate. At the command line: "
            (command(&format!("tidemill outbox replay {id} --reason WHY"))) " "
            (command(&format!("tidemill outbox edit {id} --help")))
        }
    }
}

/// What would be published, for those who may see payloads.
fn said(visit: &PageContext, detail: &FailedEventDetail, times: &Times) -> Markup {
    if !visit.principal.may(Permission::Administer) {
        return html! {
            p.body { "The role " (visit.principal.role) " may not " (Permission::Administer.as_str()) ", so what it says is not shown." }
        };
    }
    match &detail.content {
        None => html! { p.body { "The event is no longer in its table; it can only be skipped." } },
        Some(Err(bad)) => html! { p.body { "It cannot be read: " (bad) "." } },
        Some(Ok(content)) => html! {
            dl.body {
                dt { "Written" } dd { (times.at(content.created_at)) }
                @if detail.record.is_edited { dt { "Edited" } dd { "Somebody has changed what is published." } }
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

/// As it is stored: no number is rounded, and nothing is left out without a word.
fn payload(payload: &Payload) -> Markup {
    let shown = |text: &str| {
        let is_cut = text.chars().nth(PAYLOAD_CHARS_MAX).is_some();
        let text: String = text.chars().take(PAYLOAD_CHARS_MAX).collect();
        html! {
            pre tabindex="0" { (text) }
            @if is_cut { p.soft { "The first " (PAYLOAD_CHARS_MAX) " characters; the API has all of it." } }
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

/// Asks whether an event is to be tried again.
pub(crate) async fn ask_replay(
    visit: PageContext,
    Path(text): Path<String>,
) -> Result<Html<String>, Problem> {
    ask(&Verb::Replay, &visit, &text).await
}

/// Asks whether an event is never to be published.
pub(crate) async fn ask_skip(visit: PageContext, Path(text): Path<String>) -> Result<Html<String>, Problem> {
    ask(&Verb::Skip, &visit, &text).await
}

async fn ask(verb: &Verb, visit: &PageContext, text: &str) -> Result<Html<String>, Problem> {
    let id = EventId::new(id(text)?);
    let record = find(&visit.state, id).await?.record;
    let (common, _) = PageSnapshot::read(&visit.state).await?;
    let content = html! {
        h1 { "Event " (id) }
        section.panel { div.body { (sheet(verb, visit, &record, common.now)) } }
    };
    let title = format!("{} event {id}", label(verb));
    let frame =
        Frame { visit, common: &common, section: Section::Outbox, title: Some(&title), page: Page::Other };
    Ok(frame.render(&content))
}

/// What an order is called.
pub(super) fn label(verb: &Verb) -> &'static str {
    match verb {
        Verb::Skip => "Skip",
        Verb::Replay | Verb::Edit(_) | Verb::Redirect(_) => "Replay",
    }
}

/// What becomes of the event.
fn consequence(verb: &Verb, record: &FailedEventRecord) -> String {
    let (kind, id) = (&record.aggregate.kind, &record.aggregate.id);
    match (verb, record.original) {
        (Verb::Skip, Original::Gone) => {
            "It is never published; it is no longer in its table anyway.".to_owned()
        }
        (Verb::Skip, _) => {
            format!(
                "It is never published, and that cannot be taken back. Later events of {kind} {id} go on without it."
            )
        }
        _ => format!(
            "It is tried at once, as if it had never been refused. Later events of {kind} {id} wait until it is taken or skipped."
        ),
    }
}

fn sheet(verb: &Verb, visit: &PageContext, record: &FailedEventRecord, now: Timestamp) -> Markup {
    let (id, word) = (record.id, verb.as_str());
    let address = visit.state.path(&format!("/outbox/failed/{id}"));
    let refusal = visit.refusal_of(Permission::Operate, &object(record.topic.as_deref())).or_else(|| {
        let refusal = operate(record.facts(), verb, now).err()?;
        Some(format!("Not now: {refusal}. Instead: {}.", refusal.fix()))
    });
    html! {
        div.sheet {
            h2 { (label(verb)) " event " (id) ", “" (record.event_type) "”?" }
            @if refusal.is_none() { p { (consequence(verb, record)) } }
            form method="post" action={ (address) "/" (word) } {
                (form::hidden(&visit.principal))
                input type="hidden" name="back" value=(address);
                @if refusal.is_none() {
                    div.fields {
                        @if *verb == Verb::Skip {
                            label {
                                "To confirm, type " (id)
                                input name="confirm" required inputmode="numeric" autocomplete="off" pattern=(id);
                            }
                        }
                        label.wide {
                            "Why (for the audit log)"
                            input name="reason" required maxlength=(FIELD_CHARS_MAX) autocomplete="off";
                        }
                    }
                }
                div.row {
                    a.button href=(address) data-close { "Leave it" }
                    @match &refusal {
                        Some(reason) => (refused(&format!("{} event {id}", label(verb)), reason)),
                        None if *verb == Verb::Skip => button.end { "Skip event " (id) },
                        None => button.do { (label(verb)) " event " (id) },
                    }
                }
            }
            @if refusal.is_none() {
                p.soft { "At the command line: " (command(&format!("tidemill outbox {word} {id} --reason WHY"))) }
            }
        }
    }
}

pub(crate) async fn replay(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    Fields(fields): Fields<OrderForm>,
) -> Result<Redirect, Problem> {
    order(&Verb::Replay, &state, &principal, &text, &fields).await
}

/// Never publishes an event.
pub(crate) async fn skip(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    Fields(fields): Fields<OrderForm>,
) -> Result<Redirect, Problem> {
    order(&Verb::Skip, &state, &principal, &text, &fields).await
}

async fn order(
    verb: &Verb,
    state: &State,
    principal: &Principal,
    text: &str,
    fields: &OrderForm,
) -> Result<Redirect, Problem> {
    form::check(principal, &fields.form_token)?;
    let id = EventId::new(id(text)?);
    if *verb == Verb::Skip {
        form::confirmed(&fields.confirm, id.get())?;
    }
    let (headers, reason) = (form::key_header(&fields.key), fields.reason.as_str());
    let what = format!("form: {} event {id} {reason}", verb.as_str());
    give(FailedEventRequest { state, principal, headers: &headers, what, verb, reason }, id).await?;
    let back = Some(fields.back.as_str()).filter(|back| is_ours(&home(state), back));
    Ok(Redirect::to(back.unwrap_or(&state.path(&format!("/outbox/failed/{id}")))))
}

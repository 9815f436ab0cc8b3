//! What is done to pools from a page: pausing and resuming with one click, and the question before units are taken away.

use super::address::{PoolPage, Range, Tab};
use crate::access::Principal;
use crate::api::pool::define::Change;
use crate::api::pool::lease::{Taking, lease_id, take};
use crate::api::pool::{find, gone, named, object};
use crate::dashboard::form::{self, Fields, OrderForm};
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::page_context::{PageContext, home};
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{command, number, plural, refused};
use crate::dashboard::preferences::is_ours;
use crate::dashboard::region::{Buttons, Page};
use crate::problem::Problem;
use crate::state::State;
use axum::Extension;
use axum::extract::{Path, State as Given};
use axum::response::{Html, Redirect};
use maud::{Markup, html};
use serde::Deserialize;
use tidemill_domain::access::Permission;
use tidemill_domain::audit::FIELD_CHARS_MAX;
use tidemill_domain::pool::{PoolName, Settings, State as TicketState};
use tidemill_store::pool::{PoolRecord, TicketRecord};

/// The form that the buttons of rows belong to: what is sent to many has no form of its own, because a form carries
/// the secret of its session.
const FORM: &str = "pool-order";

/// The reason that is recorded of a click: a button has no field to say why, and every order has a reason.
const ONE_CLICK: &str = "with one click on the dashboard";

tidemill_domain::words! {
    /// What one click does to a pool.
    pub(crate) enum Verb {
        Pause = "pause",
        Resume = "resume",
    }
}

impl Verb {
    const fn label(self) -> &'static str {
        match self {
            Self::Pause => "Pause",
            Self::Resume => "Resume",
        }
    }

    /// What a page is told afterwards.
    const fn told(self) -> &'static str {
        match self {
            Self::Pause => "paused",
            Self::Resume => "resumed",
        }
    }

    const fn undone_by(self) -> Self {
        match self {
            Self::Pause => Self::Resume,
            Self::Resume => Self::Pause,
        }
    }

    /// What can be done to a pool that is set so.
    pub(crate) const fn of(settings: &Settings) -> Self {
        if settings.paused.is_some() { Self::Resume } else { Self::Pause }
    }
}

/// What was just done, as the address says it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct PoolNotice {
    pub(super) paused: Option<String>,
    pub(super) resumed: Option<String>,
}

/// The form of the buttons. `back` is the page that they are on, below the base path.
pub(crate) fn form(visit: &PageContext, back: &str) -> Markup {
    html! {
        form id=(FORM) method="post" {
            (form::hidden(&visit.principal))
            input type="hidden" name="back" value=(visit.state.path(back));
        }
    }
}

/// The button that pauses a pool, or resumes it. It belongs to [`form`].
pub(crate) fn button(state: &State, buttons: Buttons, settings: &Settings) -> Markup {
    let (verb, name) = (Verb::of(settings), &settings.name);
    let address = state.path(&format!("/pools/{name}/{}", verb.as_str()));
    html! {
        button form=(FORM) formaction=(address) aria-label={ (verb.label()) " " (name) }
            disabled[buttons == Buttons::Off] { (verb.label()) }
    }
}

/// Says what was just done, and offers to undo it.
pub(crate) fn done(visit: &PageContext, name: &str, verb: Verb, back: &str) -> Markup {
    let undo = verb.undone_by();
    html! {
        div.banner.ok role="status" {
            form.row.tight method="post" action=(visit.state.path(&format!("/pools/{name}/{}", undo.as_str()))) {
                (form::hidden(&visit.principal))
                input type="hidden" name="back" value=(visit.state.path(back));
                span {
                    b { (name) }
                    @match verb {
                        Verb::Pause => " is paused: nothing starts, and who has units keeps them.",
                        Verb::Resume => " goes on with its queue.",
                    }
                }
                @if visit.refusal(Permission::Operate).is_none() { button { "Undo" } }
            }
        }
    }
}

pub(crate) async fn pause(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    Fields(fields): Fields<OrderForm>,
) -> Result<Redirect, Problem> {
    click(Verb::Pause, &state, &principal, &name, &fields).await
}

/// Lets a pool go on.
pub(crate) async fn resume(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    Fields(fields): Fields<OrderForm>,
) -> Result<Redirect, Problem> {
    click(Verb::Resume, &state, &principal, &name, &fields).await
}

async fn click(
    verb: Verb,
    state: &State,
    principal: &Principal,
    name: &str,
    fields: &OrderForm,
) -> Result<Redirect, Problem> {
    form::check(principal, &fields.form_token)?;
    let name = named(name)?;
    let reason = Some(fields.reason.trim()).filter(|reason| !reason.is_empty()).unwrap_or(ONE_CLICK);
    // One form has the buttons of many pools, so its key alone does not name what was wanted.
    let key = form::key_header(&format!("{}/{}/{name}", fields.key, verb.as_str()));
    let headers = if fields.key.is_empty() { form::key_header("") } else { key };
    let what = format!("form: {} pool {name} {reason}", verb.as_str());
    let change = Change { state, principal, headers: &headers, what, name: &name, reason: Some(reason) };
    match verb {
        Verb::Pause => change.pause(reason).await?,
        Verb::Resume => change.resume().await?,
    };
    let back = way_back(state, fields).unwrap_or_else(|| state.path("/pools"));
    let sign = if back.contains('?') { '&' } else { '?' };
    Ok(Redirect::to(&format!("{back}{sign}{}={name}", verb.told())))
}

/// Where the visitor came from, if that is one of our pages.
fn way_back(state: &State, fields: &OrderForm) -> Option<String> {
    Some(fields.back.clone()).filter(|back| is_ours(&home(state), back))
}

/// The address of the question before a ticket is ended.
pub(super) fn release_address(state: &State, pool: &PoolName, record: &TicketRecord) -> String {
    state.path(&format!("/pools/{pool}/tickets/{}/release", record.ticket.id))
}

/// Asks whether units are to be taken away, or a request is to leave the queue.
pub(crate) async fn ask_release(
    visit: PageContext,
    Path((name, ticket)): Path<(String, String)>,
) -> Result<Html<String>, Problem> {
    let (name, id) = (named(&name)?, lease_id(&ticket)?);
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let pool = find(&mut tx, &name).await?;
    let record = tx.pools().ticket(id).await?.filter(|found| found.pool == name);
    let record = record.ok_or_else(|| gone().as_missing())?;
    let content = html! {
        h1 { (name) }
        section.panel { div.body { (sheet(&visit, &pool, &record)) } }
    };
    let title = format!("{} – {name}", ending(&record).0);
    let frame = Frame {
        visit: &visit,
        common: &common,
        section: Section::Pools,
        title: Some(&title),
        page: Page::Other,
    };
    Ok(frame.render(&content))
}

/// What the order is called, and the tab that it is given on.
fn ending(record: &TicketRecord) -> (&'static str, Tab) {
    if record.ticket.state == TicketState::Waiting {
        ("Cancel request", Tab::Queue)
    } else {
        ("Release", Tab::Holders)
    }
}

fn sheet(visit: &PageContext, pool: &PoolRecord, record: &TicketRecord) -> Markup {
    let (ticket, name) = (&record.ticket, &record.pool);
    let (word, tab) = ending(record);
    let back = visit.state.path(&PoolPage::new(name, tab, Range::default()).path());
    let refusal = visit.refusal_of(Permission::Operate, &object(name)).or_else(|| {
        let how = record.ending.as_deref().unwrap_or_default();
        record.ended_at.map(|at| format!("It has ended already, at {at}: {how}."))
    });
    html! {
        div.sheet {
            h2 { (word) " of “" (ticket.holder) "”?" }
            @if refusal.is_none() { p { (consequence(pool, record)) } }
            form method="post" action=(release_address(&visit.state, name, record)) {
                (form::hidden(&visit.principal))
                input type="hidden" name="back" value=(back);
                @if refusal.is_none() {
                    div.fields {
                        label.wide {
                            "Why (for the audit log)"
                            input name="reason" required maxlength=(FIELD_CHARS_MAX) autocomplete="off";
                        }
                    }
                }
                div.row {
                    a.button href=(back) data-close { "Leave it" }
                    @match &refusal {
                        Some(reason) => (refused(word, reason)),
                        None if ticket.state == TicketState::Waiting => button.end { (word) },
                        None => button.end { "Release " (plural(record.units, "unit", "units")) },
                    }
                }
            }
            @if refusal.is_none() {
                p.soft {
                    "At the command line: "
                    (command(&format!("tidemill pool release {} --reason WHY", ticket.id)))
                }
            }
        }
    }
}

fn consequence(pool: &PoolRecord, record: &TicketRecord) -> String {
    let waiting = pool.waiting;
    if record.ticket.state == TicketState::Waiting {
        let others = plural(waiting.saturating_sub(1), "other waits", "others wait");
        return format!("It leaves the queue without units; {others} on. Who asks again stands at the end.");
    }
    let usage = number(pool.usage);
    let after = plural(pool.usage.saturating_sub(record.units), "unit", "units");
    let requests = plural(waiting, "request waits", "requests wait");
    format!(
        "{usage} → {after} in use; {requests}, and may start at once. \
         Nothing is killed: if its work still runs, that goes on beside them. Its next heartbeat tells it that the units are gone."
    )
}

/// Takes units away, or takes a request out of the queue.
pub(crate) async fn release(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Path((name, ticket)): Path<(String, String)>,
    Fields(fields): Fields<OrderForm>,
) -> Result<Redirect, Problem> {
    form::check(&principal, &fields.form_token)?;
    let (name, id) = (named(&name)?, lease_id(&ticket)?);
    let headers = form::key_header(&fields.key);
    let what = format!("form: release {id} {}", fields.reason);
    take(Taking {
        state: &state,
        principal: &principal,
        headers: &headers,
        what,
        id,
        reason: &fields.reason,
    })
    .await?;
    let back = way_back(&state, &fields);
    Ok(Redirect::to(&back.unwrap_or_else(|| state.path(&format!("/pools/{name}")))))
}

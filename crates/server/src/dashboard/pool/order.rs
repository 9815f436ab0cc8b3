//! Actions on pools: pause and resume with one click, and release after a question.

use super::address::{PoolPage, Range, Tab};
use crate::api::pool::{find, gone, lease, named, object};
use crate::dashboard::part::{number, plural};
use crate::dashboard::sheet::{QuestionPage, Sheet, SheetForm, WHY, reason_field};
use crate::dashboard::{Buttons, PageContext, Section, form};
use crate::problem::Problem;
use crate::state::State;
use maud::{Markup, html};
use serde::Deserialize;
use tidemill_domain::access::Permission;
use tidemill_domain::action::{Action, Reason};
use tidemill_domain::pool::{PoolName, Settings, State as TicketState};
use tidemill_store::Tx;
use tidemill_store::pool::{PoolRecord, TicketRecord};

/// The form of the buttons in rows. A live row is sent to many visitors, so it cannot have a form of its own: a form
/// contains the token of its session.
const FORM: &str = "pool-order";

/// The action that led to this page, from the query string.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct PoolNotice {
    pub(super) paused: Option<String>,
    pub(super) resumed: Option<String>,
}

/// The form of the buttons. `back` is their page, below the base path.
pub(crate) fn form(visit: &PageContext, back: &str) -> Markup {
    html! {
        form id=(FORM) method="post" {
            (form::hidden_with_back(&visit.principal, &visit.state.path(back)))
        }
    }
}

/// The button that pauses or resumes a pool. It belongs to [`form`].
pub(crate) fn button(state: &State, buttons: Buttons, settings: &Settings) -> Markup {
    let (action, name) = (settings.possible(), &settings.name);
    let (word, address) = (action.label(), state.path(&format!("/pools/{name}/{}", action.verb())));
    html! {
        button form=(FORM) formaction=(address) aria-label={ (word) " " (name) } disabled[buttons == Buttons::Off] { (word) }
    }
}

/// Confirms the last action, unless it has been undone, and offers to undo it.
pub(crate) fn done<'a>(
    visit: &PageContext,
    notice: &PoolNotice,
    mut pools: impl Iterator<Item = &'a Settings>,
    back: &str,
) -> Markup {
    let is_done = |settings: &&Settings| {
        let name = if settings.paused.is_some() { &notice.paused } else { &notice.resumed };
        name.as_deref() == Some(settings.name.as_str())
    };
    let Some(settings) = pools.find(is_done) else { return html! {} };
    let (name, undo) = (&settings.name, settings.possible());
    html! {
        div.banner.ok role="status" {
            form.row.tight method="post" action=(visit.state.path(&format!("/pools/{name}/{}", undo.verb()))) {
                (form::hidden_with_back(&visit.principal, &visit.state.path(back)))
                span {
                    b { (name) }
                    @if settings.paused.is_some() { " is paused. No request starts; holders keep their units." }
                    @else { " has resumed." }
                }
                @if visit.refusal(Permission::Operate).is_none() { button { "Undo" } }
            }
        }
    }
}

/// The page after a click, which confirms the action.
pub(crate) fn address_after(action: Action, back: &str, name: &str) -> String {
    let sign = if back.contains('?') { '&' } else { '?' };
    let notice = if action == Action::PoolPause { "paused" } else { "resumed" };
    format!("{back}{sign}{notice}={name}")
}

/// The page that asks before a lease is released or a request cancelled.
pub(super) fn release_address(state: &State, pool: &PoolName, id: &str) -> String {
    state.path(&format!("/pools/{pool}/tickets/{id}/release"))
}

pub(crate) async fn question(
    visit: &PageContext,
    tx: &mut Tx,
    places: &[String],
) -> Result<QuestionPage, Problem> {
    let [name, ticket] = places else { return Err(gone().as_missing()) };
    let (name, record) = (named(name)?, lease::find(tx, ticket).await?);
    let pool = find(tx, &name).await?;
    if record.pool != name {
        return Err(gone().as_missing());
    }
    let title = format!("{} – {name}", ending(&record).0);
    let (heading, sheet) = (html! { h1 { (name) } }, sheet(visit, &pool, &record));
    Ok(QuestionPage { section: Section::Pools, title, heading, sheet })
}

/// The action, and the tab with its button.
fn ending(record: &TicketRecord) -> (&'static str, Tab) {
    if record.ticket.state == TicketState::Waiting {
        ("Cancel request", Tab::Queue)
    } else {
        ("Release lease", Tab::Holders)
    }
}

fn sheet(visit: &PageContext, pool: &PoolRecord, record: &TicketRecord) -> Sheet {
    let (ticket, name) = (&record.ticket, &record.pool);
    let (word, tab) = ending(record);
    let back = visit.state.path(&PoolPage::new(name, tab, Range::default()).path());
    let refusal = visit.refusal_of(Permission::Operate, &object(name)).or_else(|| {
        let how = record.ending.as_deref().unwrap_or_default();
        record.ended_at.map(|_| format!("It has already ended: {how}."))
    });
    let address = release_address(&visit.state, name, &ticket.id.to_string());
    Sheet {
        question: format!("{word} of “{}”?", ticket.holder),
        consequence: html! { @if refusal.is_none() { p { (consequence(pool, record)) } } },
        form: SheetForm::Own { address, hidden: form::hidden_with_back(&visit.principal, &back) },
        fields: reason_field(WHY, Reason::Required, None),
        back,
        leave: "Back",
        button: match &refusal {
            None if ticket.state != TicketState::Waiting => {
                format!("Release {}", plural(record.units, "unit", "units"))
            }
            _ => word.to_owned(),
        },
        ends: true,
        refusal,
        command: Some(Action::LeaseRelease.command_for(ticket.id)),
    }
}

fn consequence(pool: &PoolRecord, record: &TicketRecord) -> String {
    let waiting = pool.waiting;
    if record.ticket.state == TicketState::Waiting {
        let others = plural(waiting.saturating_sub(1), "other request waits", "other requests wait");
        return format!(
            "The request leaves the queue without units; {others}. A new request starts at the end of the queue."
        );
    }
    let usage = number(pool.usage);
    let after = plural(pool.usage.saturating_sub(record.units), "unit", "units");
    let requests = plural(waiting, "request waits", "requests wait");
    format!(
        "{usage} → {after} in use; {requests} and may start at once. \
         Tidemill does not stop the work of the holder, but its next heartbeat fails."
    )
}

//! What is done to pools from a page: pausing and resuming with one click, and the question before units are taken away.

use super::address::{PoolPage, Range, Tab};
use crate::api::pool::lease::lease_id;
use crate::api::pool::{find, gone, named, object};
use crate::dashboard::form;
use crate::dashboard::frame::Section;
use crate::dashboard::page_context::PageContext;
use crate::dashboard::part::{number, plural};
use crate::dashboard::region::Buttons;
use crate::dashboard::sheet::{QuestionPage, Sheet, SheetForm, WHY, Weight, reason_field};
use crate::problem::Problem;
use crate::state::State;
use maud::{Markup, html};
use serde::Deserialize;
use tidemill_domain::access::Permission;
use tidemill_domain::action::{Action, Reason};
use tidemill_domain::pool::{PoolName, Settings, State as TicketState, TicketId};
use tidemill_store::Tx;
use tidemill_store::pool::{PoolRecord, TicketRecord};

/// The form that the buttons of rows belong to: what is sent to many has no form of its own, because a form carries
/// the secret of its session.
const FORM: &str = "pool-order";

/// What one click does to a pool that is set so.
pub(super) const fn click_of(settings: &Settings) -> Action {
    if settings.paused.is_some() { Action::PoolResume } else { Action::PoolPause }
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
    let (action, name) = (click_of(settings), &settings.name);
    let (word, address) = (action.label(), state.path(&format!("/pools/{name}/{}", action.verb())));
    html! {
        button form=(FORM) formaction=(address) aria-label={ (word) " " (name) } disabled[buttons == Buttons::Off] { (word) }
    }
}

/// Says what was just done to one of these pools if it is still so, and offers to undo it.
pub(crate) fn done<'a>(
    visit: &PageContext,
    notice: &PoolNotice,
    mut pools: impl Iterator<Item = &'a Settings>,
    back: &str,
) -> Markup {
    let is_told = |settings: &&Settings| {
        let told = if settings.paused.is_some() { &notice.paused } else { &notice.resumed };
        told.as_deref() == Some(settings.name.as_str())
    };
    let Some(settings) = pools.find(is_told) else { return html! {} };
    let (name, undo) = (&settings.name, click_of(settings));
    html! {
        div.banner.ok role="status" {
            form.row.tight method="post" action=(visit.state.path(&format!("/pools/{name}/{}", undo.verb()))) {
                (form::hidden(&visit.principal))
                input type="hidden" name="back" value=(visit.state.path(back));
                span {
                    b { (name) }
                    @if settings.paused.is_some() { " is paused: nothing starts, and who has units keeps them." }
                    @else { " goes on with its queue." }
                }
                @if visit.refusal(Permission::Operate).is_none() { button { "Undo" } }
            }
        }
    }
}

/// Where a click leads: back, to be told what was done.
pub(crate) fn address_after(action: Action, back: &str, name: &str) -> String {
    let sign = if back.contains('?') { '&' } else { '?' };
    let told = if action == Action::PoolPause { "paused" } else { "resumed" };
    format!("{back}{sign}{told}={name}")
}

/// The address of the question before a ticket is ended.
pub(super) fn release_address(state: &State, pool: &PoolName, id: TicketId) -> String {
    state.path(&format!("/pools/{pool}/tickets/{id}/release"))
}

/// Asks whether units are to be taken away, or a request is to leave the queue.
pub(crate) async fn question(
    visit: &PageContext,
    tx: &mut Tx,
    places: &[String],
) -> Result<QuestionPage, Problem> {
    let [name, ticket] = places else { return Err(gone().as_missing()) };
    let (name, id) = (named(name)?, lease_id(ticket)?);
    let pool = find(tx, &name).await?;
    let record = tx.pools().ticket(id).await?.filter(|found| found.pool == name);
    let record = record.ok_or_else(|| gone().as_missing())?;
    let title = format!("{} – {name}", ending(&record).0);
    let (heading, sheet) = (html! { h1 { (name) } }, sheet(visit, &pool, &record));
    Ok(QuestionPage { section: Section::Pools, title, heading, sheet })
}

/// What the order is called, and the tab that it is given on.
fn ending(record: &TicketRecord) -> (&'static str, Tab) {
    if record.ticket.state == TicketState::Waiting {
        ("Cancel request", Tab::Queue)
    } else {
        ("Release", Tab::Holders)
    }
}

fn sheet(visit: &PageContext, pool: &PoolRecord, record: &TicketRecord) -> Sheet {
    let (ticket, name) = (&record.ticket, &record.pool);
    let (word, tab) = ending(record);
    let back = visit.state.path(&PoolPage::new(name, tab, Range::default()).path());
    let refusal = visit.refusal_of(Permission::Operate, &object(name)).or_else(|| {
        let how = record.ending.as_deref().unwrap_or_default();
        record.ended_at.map(|at| format!("It has ended already, at {at}: {how}."))
    });
    let address = release_address(&visit.state, name, ticket.id);
    Sheet {
        question: format!("{word} of “{}”?", ticket.holder),
        consequence: html! { @if refusal.is_none() { p { (consequence(pool, record)) } } },
        form: SheetForm::with_way_back(&visit.principal, address, &back),
        fields: reason_field(WHY, Reason::Required, None),
        back,
        leave: "Leave it",
        button: match &refusal {
            None if ticket.state != TicketState::Waiting => {
                format!("Release {}", plural(record.units, "unit", "units"))
            }
            _ => word.to_owned(),
        },
        weight: Weight::Ends,
        refusal,
        command: Some(Action::LeaseRelease.command_for(ticket.id)),
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

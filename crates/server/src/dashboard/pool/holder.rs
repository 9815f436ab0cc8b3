//! Who has units of a pool.

use super::address::PoolPage;
use super::list::Look;
use super::order;
use crate::dashboard::part::{Health, empty_row, number, state};
use crate::dashboard::region::{Audience, Page, Region, Row};
use crate::dashboard::sheet::ask_button;
use maud::{Markup, html};
use tidemill_domain::pool::{PoolName, State};
use tidemill_store::pool::TicketRecord;

/// Holders that are shown, the oldest first.
pub(super) const SHOWN: u32 = 200;

/// What the columns are called, and whether they are of numbers.
pub(super) const COLUMNS: &[(&str, bool)] = &[
    ("State", false),
    ("Holder", false),
    ("Units", true),
    ("Asked → granted", false),
    ("Class", false),
    ("Since", false),
    ("Lease", false),
    ("Action", false),
];

pub(super) fn region(look: &Look<'_>, pool: &PoolName, holders: &[TicketRecord], page: PoolPage) -> Region {
    let page = Page::Pool(page, look.buttons);
    let shown = holders.iter().take(SHOWN as usize);
    let rows = shown.map(|record| Row::new(name(record), row(look, pool, record))).collect();
    let below = html! {
        @if holders.len() > SHOWN as usize {
            tr { td.soft colspan=(COLUMNS.len()) { "The first " (SHOWN) ", the oldest first; there are more." } }
        }
    };
    let without = empty_row(COLUMNS.len(), &html! { "Nobody has units of it." });
    Region::table_body(&format!("holders@{}", page.word()), Audience::At(page), rows, without, below)
}

fn name(record: &TicketRecord) -> String {
    format!("ticket:{}", record.ticket.id)
}

fn row(look: &Look<'_>, pool: &PoolName, record: &TicketRecord) -> Markup {
    let ticket = &record.ticket;
    let (health, word) = match ticket.state {
        State::Suspect => (Health::Warn, "in doubt"),
        State::Granted => (Health::Idle, "set aside"),
        _ => (Health::Ok, "running"),
    };
    html! {
        tr data-live=(name(record)) id={ "ticket-" (ticket.id) } {
            td { (state(health, word)) }
            th.long scope="row" {
                (ticket.holder)
                @if !ticket.table.is_empty() { br; span.soft { "reads " (ticket.table) } }
            }
            td.number { (number(record.units)) }
            td.still {
                (ticket.asked) " → "
                @match ticket.granted {
                    Some(granted) => (granted),
                    None => "?",
                }
                @if ticket.is_downgraded() { br; (state_less()) }
                @if let Some(upgrade) = ticket.upgrade { br; span.soft { "would like " (upgrade.parallel) } }
            }
            td { (ticket.class.as_str()) }
            td { (look.times.at(ticket.held_since())) }
            td { (lease(look, record)) }
            td {
                (ask_button(look.buttons, &order::release_address(look.state, pool, ticket.id), "Release…",
                    &format!("Release {}…", ticket.holder)))
            }
        }
    }
}

fn state_less() -> Markup {
    state(Health::Warn, "downgraded")
}

/// Until when it counts without being heard of.
fn lease(look: &Look<'_>, record: &TicketRecord) -> Markup {
    let now = look.times.now();
    html! {
        @match record.expires_at {
            Some(until) if until > now => { "for another " (look.times.length(until)) }
            Some(until) => { "ended " (look.times.at(until)) }
            None => span.soft { "unknown" },
        }
        @if record.ticket.lease_for.is_none() { br; span.soft { "sends no heartbeats" } }
    }
}

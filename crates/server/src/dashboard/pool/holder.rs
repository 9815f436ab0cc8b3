//! The leases of a pool.

use super::list::RowContext;
use super::order;
use crate::dashboard::part::{Health, empty_row, number, state};
use crate::dashboard::region::{Audience, Page, Region, Row};
use crate::dashboard::sheet::ask_button;
use maud::{Markup, html};
use tidemill_domain::pool::{PoolName, State};
use tidemill_store::pool::TicketRecord;

/// Maximum number of leases on the page, the oldest first.
pub(super) const SHOWN: u32 = 200;

/// The columns, and whether they hold numbers.
pub(super) const COLUMNS: &[(&str, bool)] = &[
    ("State", false),
    ("Holder", false),
    ("Units", true),
    ("Requested → granted", false),
    ("Class", false),
    ("Since", false),
    ("Lease", false),
    ("Action", false),
];

pub(super) fn region(
    context: &RowContext<'_>,
    pool: &PoolName,
    holders: &[TicketRecord],
    page: Page,
) -> Region {
    let shown = holders.iter().take(SHOWN as usize);
    let rows = shown.map(|record| Row::new(name(record), row(context, pool, record))).collect();
    let below = html! {
        @if holders.len() > SHOWN as usize {
            tr { td.soft colspan=(COLUMNS.len()) { "The oldest " (SHOWN) " leases are shown." } }
        }
    };
    let without = empty_row(COLUMNS.len(), &html! { "No leases." });
    Region::table_body(&format!("holders@{}", page.word()), Audience::At(page), rows, without, below)
}

fn name(record: &TicketRecord) -> String {
    format!("ticket:{}", record.ticket.id)
}

fn row(context: &RowContext<'_>, pool: &PoolName, record: &TicketRecord) -> Markup {
    let ticket = &record.ticket;
    let (health, word) = match ticket.state {
        State::Suspect => (Health::Warn, "suspect"),
        State::Granted => (Health::Idle, "granted"),
        _ => (Health::Ok, "running"),
    };
    html! {
        tr data-live=(name(record)) id={ "ticket-" (ticket.id) } {
            td { (state(health, word)) }
            th.long scope="row" {
                (ticket.holder)
                @if !ticket.table.is_empty() { br; span.soft { "table " (ticket.table) } }
            }
            td.number { (number(record.units)) }
            td.still {
                (ticket.asked) " → "
                @match ticket.granted {
                    Some(granted) => (granted),
                    None => "?",
                }
                @if ticket.is_downgraded() { br; (state(Health::Warn, "downgraded")) }
                @if let Some(upgrade) = ticket.upgrade { br; span.soft { "waits for " (upgrade.parallel) } }
            }
            td { (ticket.class.as_str()) }
            td { (context.times.at(ticket.held_since())) }
            td { (lease(context, record)) }
            td {
                (ask_button(context.buttons, &order::release_address(context.state, pool, &ticket.id.to_string()), "Release…",
                    &format!("Release {}…", ticket.holder)))
            }
        }
    }
}

fn lease(context: &RowContext<'_>, record: &TicketRecord) -> Markup {
    let now = context.times.now();
    html! {
        @match record.expires_at {
            Some(until) if until > now => { "expires in " (context.times.length(until)) }
            Some(until) => { "expired " (context.times.at(until)) }
            None => span.soft { "unknown" },
        }
        @if record.ticket.lease_for.is_none() { br; span.soft { "no heartbeats" } }
    }
}

//! The leases of a pool.

use super::list::RowContext;
use super::order;
use crate::dashboard::part::{Health, number, state};
use crate::dashboard::region::{Page, Region, Row};
use crate::dashboard::sheet::ask_button;
use maud::{Markup, html};
use tidemill_domain::pool::{PoolName, State};
use tidemill_store::pool::TicketRecord;

/// Maximum number of leases on the page, the oldest first.
pub(super) const SHOWN: u32 = 200;

pub(super) const COLUMNS: &[&str] =
    &["State", "Holder", "#Units", "Requested → granted", "Class", "Since", "Lease", "Action"];

pub(super) fn region(
    context: &RowContext<'_>,
    pool: &PoolName,
    holders: &[TicketRecord],
    page: &Page,
) -> Region {
    let rows = holders.iter().take(SHOWN as usize).map(|record| row(context, pool, record));
    let note = (holders.len() > SHOWN as usize).then(|| html! { "The oldest " (SHOWN) " leases are shown." });
    Region::rows_at(page, "holders", COLUMNS, rows, &html! { "No leases." }, note)
}

fn row(context: &RowContext<'_>, pool: &PoolName, record: &TicketRecord) -> Row {
    let ticket = &record.ticket;
    let (health, word) = match ticket.state {
        State::Suspect => (Health::Warn, "suspect"),
        State::Granted => (Health::Idle, "granted"),
        _ => (Health::Ok, "running"),
    };
    let name = format!("ticket:{}", ticket.id);
    let markup = html! {
        tr data-live=(name) id={ "ticket-" (ticket.id) } {
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
    };
    Row::new(name, markup)
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

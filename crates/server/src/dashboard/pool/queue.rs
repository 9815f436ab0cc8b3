//! Who waits for units of a pool: at which place, why, and for how long.

use super::address::PoolPage;
use super::list::Look;
use super::order::release_address;
use crate::dashboard::instant::span;
use crate::dashboard::part::{empty_row, number};
use crate::dashboard::region::{Audience, Page, Region, Row};
use crate::dashboard::sheet::ask_button;
use maud::{Markup, html};
use tidemill_domain::pool::estimate::Estimate;
use tidemill_domain::pool::pass::standing;
use tidemill_domain::pool::{Ledger, PoolName, Reason, Ticket};

const SHOWN: usize = 200;

/// What the columns are called, and whether they are of numbers.
pub(super) const COLUMNS: &[(&str, bool)] = &[
    ("Place", true),
    ("Request", false),
    ("Units", true),
    ("Class", false),
    ("Waits for", false),
    ("Why", false),
    ("Estimate", false),
    ("Action", false),
];

pub(super) fn region(look: &Look<'_>, ledger: &Ledger, page: PoolPage) -> Region {
    let (page, pool) = (Page::Pool(page, look.buttons), &ledger.settings().name);
    let places = standing(ledger, look.times.now());
    let count = places.len();
    let shown = (1_u32..).zip(places).take(SHOWN);
    let rows = shown.filter_map(|(place, (id, reason, estimate))| {
        let ticket = ledger.ticket(id)?;
        let markup = row(look, pool, Place { place, ticket, reason, estimate });
        Some(Row::new(name(ticket), markup))
    });
    let below = html! {
        @if count > SHOWN {
            tr { td.soft colspan=(COLUMNS.len()) { "The first " (SHOWN) " of " (count) "." } }
        }
    };
    let without = empty_row(COLUMNS.len(), &html! { "Nobody is waiting." });
    let name = format!("queue@{}", page.word());
    Region::table_body(&name, Audience::At(page), rows.collect(), without, below)
}

/// A place in the queue.
struct Place<'a> {
    place: u32,
    ticket: &'a Ticket,
    reason: Reason,
    estimate: Option<Estimate>,
}

fn name(ticket: &Ticket) -> String {
    format!("ticket:{}", ticket.id)
}

fn row(look: &Look<'_>, pool: &PoolName, Place { place, ticket, reason, estimate }: Place<'_>) -> Markup {
    let least = ticket.weight.units(ticket.least);
    let address = release_address(look.state, pool, ticket.id);
    // Who has units already and waits for more keeps them: there is nothing to cancel but those.
    let has_units = ticket.state.counts();
    html! {
        tr data-live=(name(ticket)) id={ "ticket-" (ticket.id) } {
            td.number { (place) }
            th.long scope="row" {
                (ticket.holder)
                @if !ticket.table.is_empty() { br; span.soft { "reads " (ticket.table) } }
            }
            td.number {
                (number(ticket.wanted()))
                @if has_units { " more" } @else if least < ticket.wanted() { br; span.soft { "at least " (least) } }
            }
            td { (ticket.class.as_str()) }
            td { (look.times.length(ticket.queued_since())) }
            td.long { (reason.sentence()) br; code { (reason.as_str()) } }
            td {
                @match estimate {
                    Some(estimate) => { "about " (span(estimate.p50)) br; span.soft { "nine of ten within " (span(estimate.p90)) } }
                    None => span.soft { "unknown" },
                }
            }
            td {
                @if has_units {
                    span.soft { "has units; see the holders" }
                } @else {
                    (ask_button(look.buttons, &address, "Cancel…", &format!("Cancel the request of {}…", ticket.holder)))
                }
            }
        }
    }
}

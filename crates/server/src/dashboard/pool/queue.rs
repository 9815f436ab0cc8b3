//! The queue of a pool.

use super::list::RowContext;
use super::order::release_address;
use crate::dashboard::instant::span;
use crate::dashboard::part::{empty_row, number};
use crate::dashboard::region::{Audience, Page, Region, Row};
use crate::dashboard::sheet::ask_button;
use maud::{Markup, html};
use std::time::Duration;
use tidemill_api::pool::PoolPlace;
use tidemill_domain::pool::{Ledger, PoolName, State};

const SHOWN: usize = 200;

/// The columns, and whether they hold numbers.
pub(super) const COLUMNS: &[(&str, bool)] = &[
    ("Position", true),
    ("Holder", false),
    ("Units", true),
    ("Class", false),
    ("Waiting for", false),
    ("Reason", false),
    ("Expected wait", false),
    ("Action", false),
];

pub(super) fn region(context: &RowContext<'_>, ledger: &Ledger, page: Page) -> Region {
    let pool = &ledger.settings().name;
    let places = PoolPlace::queue(ledger, context.times.now(), SHOWN);
    let rows = places.iter().map(|place| Row::new(name(place), row(context, pool, place))).collect();
    let count = ledger.tickets().filter(|ticket| ticket.is_queued()).count();
    let below = html! {
        @if count > SHOWN {
            tr { td.soft colspan=(COLUMNS.len()) { "The first " (SHOWN) " of " (count) " requests are shown." } }
        }
    };
    let without = empty_row(COLUMNS.len(), &html! { "No waiting requests." });
    let name = format!("queue@{}", page.word());
    Region::table_body(&name, Audience::At(page), rows, without, below)
}

fn name(place: &PoolPlace) -> String {
    format!("ticket:{}", place.id)
}

fn row(context: &RowContext<'_>, pool: &PoolName, place: &PoolPlace) -> Markup {
    // A holder that waits for more keeps its units, so there is no request to cancel.
    let has_units = place.state != State::Waiting.as_str();
    let estimate = place.eta_seconds.zip(place.eta_p90_seconds);
    let seconds = |seconds| span(Duration::from_secs(seconds));
    html! {
        tr data-live=(name(place)) id={ "ticket-" (place.id) } {
            td.number { (place.position) }
            th.long scope="row" {
                (place.holder_name)
                @if !place.table.is_empty() { br; span.soft { "table " (place.table) } }
            }
            td.number {
                (number(place.units))
                @if has_units { " more" }
                @else if place.min_units < place.units { br; span.soft { "at least " (place.min_units) } }
            }
            td { (place.class) }
            td { (context.times.length(place.since)) }
            td.long { (place.message) br; code { (place.reason) } }
            td {
                @match estimate {
                    Some((p50, p90)) => { "about " (seconds(p50)) br; span.soft { "90 % within " (seconds(p90)) } }
                    None => span.soft { "unknown" },
                }
            }
            td {
                @if has_units {
                    span.soft { "has units; see Holders" }
                } @else {
                    (ask_button(context.buttons, &release_address(context.state, pool, &place.id), "Cancel…",
                        &format!("Cancel the request of {}…", place.holder_name)))
                }
            }
        }
    }
}

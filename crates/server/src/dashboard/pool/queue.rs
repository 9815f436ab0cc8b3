//! The queue of a pool.

use super::list::RowContext;
use super::order::release_address;
use crate::dashboard::instant::span;
use crate::dashboard::part::number;
use crate::dashboard::region::{Page, Region, Row};
use crate::dashboard::sheet::ask_button;
use maud::html;
use std::time::Duration;
use tidemill_api::pool::PoolPlace;
use tidemill_domain::pool::{Ledger, PoolName, State};

const SHOWN: usize = 200;

pub(super) const COLUMNS: &[&str] =
    &["#Position", "Holder", "#Units", "Class", "Waiting for", "Reason", "Expected wait", "Action"];

pub(super) fn region(context: &RowContext<'_>, ledger: &Ledger, page: &Page) -> Region {
    let pool = &ledger.settings().name;
    let places = PoolPlace::queue(ledger, context.times.now(), SHOWN);
    let rows = places.iter().map(|place| row(context, pool, place));
    let count = ledger.tickets().filter(|ticket| ticket.is_queued()).count();
    let note = (count > SHOWN).then(|| html! { "The first " (SHOWN) " of " (count) " requests are shown." });
    Region::rows_at(page, "queue", COLUMNS, rows, &html! { "No waiting requests." }, note)
}

fn row(context: &RowContext<'_>, pool: &PoolName, place: &PoolPlace) -> Row {
    // A holder that waits for more keeps its units, so there is no request to cancel.
    let has_units = place.state != State::Waiting.as_str();
    let estimate = place.eta_seconds.zip(place.eta_p90_seconds);
    let seconds = |seconds| span(Duration::from_secs(seconds));
    let name = format!("ticket:{}", place.id);
    let markup = html! {
        tr data-live=(name) id={ "ticket-" (place.id) } {
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
    };
    Row::new(name, markup)
}

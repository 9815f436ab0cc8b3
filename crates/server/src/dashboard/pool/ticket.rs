//! The tickets of a pool: its leases, and its queue.

use super::list::RowContext;
use super::order::release_address;
use crate::dashboard::part::{Health, number, plural, span, state};
use crate::dashboard::sheet::ask_button;
use crate::dashboard::{Page, Region, Row};
use maud::{Markup, html};
use std::collections::BTreeMap;
use tidemill_api::pool::PoolPlace;
use tidemill_domain::pool::decide::why_started;
use tidemill_domain::pool::event::{Event, Record};
use tidemill_domain::pool::{Ledger, PoolName, State, TicketId};
use tidemill_domain::time::Timestamp;
use tidemill_store::pool::TicketRecord;

/// Maximum number of leases on the page, the oldest first, and of requests.
pub(super) const SHOWN: u32 = 200;

pub(super) const HOLDER_COLUMNS: &[&str] =
    &["State", "Holder", "#Units", "Requested → granted", "Class", "Since", "Lease", "Action"];

pub(super) const QUEUE_COLUMNS: &[&str] =
    &["#Position", "Holder", "#Units", "Class", "Waiting for", "Reason", "Expected wait", "Action"];

pub(super) fn holders(
    context: &RowContext<'_>,
    pool: &PoolName,
    holders: &[TicketRecord],
    starts: &BTreeMap<TicketId, String>,
    page: &Page,
) -> Region {
    let row = |record: &TicketRecord| holder_row(context, pool, record, starts.get(&record.ticket.id));
    let rows = holders.iter().take(SHOWN as usize).map(row);
    let note = (holders.len() > SHOWN as usize).then(|| html! { "The oldest " (SHOWN) " leases are shown." });
    Region::rows_at(page, "holders", HOLDER_COLUMNS, rows, &html! { "No leases." }, note)
}

/// By which rules a ticket started.
pub(super) fn start(record: &Record) -> Option<(TicketId, String)> {
    match record.event {
        Event::Granted { ticket, turn, size, .. } => Some((ticket, why_started(turn, size))),
        _ => None,
    }
}

fn holder_row(
    context: &RowContext<'_>,
    pool: &PoolName,
    record: &TicketRecord,
    start: Option<&String>,
) -> Row {
    let ticket = &record.ticket;
    let (health, word) = match ticket.state {
        State::Suspect => (Health::Warn, "suspect"),
        State::Granted => (Health::Idle, "granted"),
        _ => (Health::Ok, "running"),
    };
    let id = ticket.id.to_string();
    let cells = html! {
        td { (state(health, word)) }
        (holder_cell(&ticket.holder.to_string(), &ticket.table))
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
        td.long { (context.times.at(ticket.held_since())) @if let Some(start) = start { br; span.soft { (start) } } }
        td { (lease(context, record)) }
        td {
            (ask_button(context.buttons, &release_address(context.state, pool, &id), "Release…",
                &format!("Release {}…", ticket.holder)))
        }
    };
    row(&id, &cells)
}

fn holder_cell(holder: &str, table: &str) -> Markup {
    html! { th.long scope="row" { (holder) @if !table.is_empty() { br; span.soft { "table " (table) } } } }
}

fn row(id: &str, cells: &Markup) -> Row {
    let name = format!("ticket:{id}");
    let markup = html! { tr data-live=(name) id={ "ticket-" (id) } { (cells) } };
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

pub(super) fn queue(context: &RowContext<'_>, ledger: &Ledger, page: &Page) -> Region {
    let pool = &ledger.settings().name;
    let places = PoolPlace::queue(ledger, context.times.now(), SHOWN as usize);
    let rows = places.iter().map(|place| place_row(context, pool, place));
    let count = ledger.tickets().filter(|ticket| ticket.is_queued()).count();
    let note = (count > SHOWN as usize)
        .then(|| html! { "The first " (SHOWN) " of " (count) " requests are shown." });
    Region::rows_at(page, "queue", QUEUE_COLUMNS, rows, &html! { "No waiting requests." }, note)
}

fn place_row(context: &RowContext<'_>, pool: &PoolName, place: &PoolPlace) -> Row {
    // A holder that waits for more keeps its units, so there is no request to cancel.
    let has_units = place.state != State::Waiting.as_str();
    let times = context.times;
    let length = |until: Timestamp| span(until.since(times.now()));
    let cells = html! {
        td.number { (place.position) }
        (holder_cell(&place.holder_name, &place.table))
        td.number {
            (number(place.units))
            @if has_units { " more" }
            @else if place.min_units < place.units { br; span.soft { "at least " (place.min_units) } }
        }
        td { (place.class) }
        td {
            (times.length(place.since))
            @if place.overtaken > 0 {
                br; span.soft { "overtaken by " (plural(place.overtaken, "later request", "later requests")) }
            }
        }
        td.long { (place.message) br; code { (place.reason) } }
        td {
            @match place.eta_p50.zip(place.eta_p90) {
                Some((p50, p90)) => {
                    "about " (length(p50)) ", " (times.at(p50))
                    br;
                    span.soft { "90 % within " (length(p90)) ", " (times.at(p90)) }
                }
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
    };
    row(&place.id, &cells)
}

//! The relays that publish, one row each.

use super::overview::{rounded, unknown};
use crate::dashboard::instant::Times;
use crate::dashboard::part::{Health, command, empty_row, number, state};
use crate::dashboard::region::{Audience, Page, Region, Row};
use maud::{Markup, html};
use tidemill_store::outbox::RelayDetail;

/// What the columns are called, and whether they are of numbers.
pub(super) const COLUMNS: &[(&str, bool)] = &[
    ("State", false),
    ("Relay", false),
    ("Host", false),
    ("Sink", false),
    ("Share", false),
    ("Slots", true),
    ("Published", true),
    ("Per second", true),
    ("Joined", false),
    ("Lease", false),
];

pub(super) fn region(relays: &[RelayDetail], times: &Times) -> Region {
    let rows = relays.iter().map(|relay| Row::new(name(relay), row(relay, times))).collect();
    let text = html! { "No relay runs. Start one: " (command("tidemill relay")) };
    let without = empty_row(COLUMNS.len(), &text);
    Region::table_body("outbox-relays", Audience::On(&[Page::Outbox]), rows, without, html! {})
}

fn name(relay: &RelayDetail) -> String {
    format!("relay:{}", relay.relay.id)
}

fn row(detail: &RelayDetail, times: &Times) -> Markup {
    let relay = &detail.relay;
    html! {
        tr data-live=(name(detail)) {
            td { (state(Health::Ok, "live")) }
            th.long scope="row" title=(relay.id) { (relay.name) }
            td { (relay.host) " " span.soft { "(" (relay.pid) ")" } }
            td { @for part in detail.sink.split_inclusive(',') { (part) wbr; } }
            td {
                @match relay.instance {
                    Some(instance) => (instance),
                    None => span.soft { "fair" },
                }
            }
            td.number { (relay.slots) }
            td.number { (number(detail.tally.published)) }
            td.number {
                @match detail.published_per_second() {
                    Some(rate) => (rounded(rate)),
                    None => (unknown()),
                }
            }
            td { (times.at(relay.joined_at)) }
            td { "for another " (times.length(detail.until)) }
        }
    }
}

//! The relays that publish, one row each.

use super::standing::{rounded, unknown};
use crate::dashboard::instant::Times;
use crate::dashboard::part::{Health, command, empty_row, state};
use crate::dashboard::region::{Audience, Page, Region, Row};
use maud::{Markup, html};
use tidemill_store::outbox::RelayDetail;

/// What the columns are called.
pub(super) const COLUMNS: &[&str] =
    &["State", "Relay", "Host", "Sink", "Share", "Slots", "Published", "Per second", "Joined", "Lease"];

/// The table's body.
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
            td.long { (detail.sink) }
            td {
                @match relay.instance {
                    Some(instance) => (instance),
                    None => span.soft { "fair" },
                }
            }
            td { (relay.slots) }
            td { (detail.tally.published) }
            td {
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

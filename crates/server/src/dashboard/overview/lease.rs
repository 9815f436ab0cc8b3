//! Leases of processes on the overview.

use crate::dashboard::instant::Times;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{Health, command, state, value_or};
use crate::dashboard::region::{Audience, Page, Region, Row};
use maud::html;
use tidemill_domain::lease::Lease;
use tidemill_store::lease::LeaseRecord;

const SHOWN: usize = 50;

pub(crate) const COLUMNS: &[&str] = &["State", "Lease", "Owner", "#Epoch", "Held since", "Until"];

/// The body of the table, without free leases.
pub(crate) fn region(common: &PageSnapshot, times: &Times) -> Region {
    let is_held = |lease: &LeaseRecord| matches!(lease.lease, Lease::Held { .. });
    let held = common.leases.rows.iter().filter(|lease| is_held(lease));
    let rows: Vec<Row> = held.take(SHOWN).map(|lease| row(lease, common, times)).collect();
    let count = common.leases.count(is_held);
    let note = (!rows.is_empty()).then(|| html! { (rows.len()) " of " (count) " are shown." });
    let empty = html! { "No leases. To see some, run " (command("tidemill demo")) };
    Region::rows("leases", Audience::On(&[Page::Overview]), COLUMNS, rows, &empty, note)
}

fn row(lease: &LeaseRecord, common: &PageSnapshot, times: &Times) -> Row {
    let (owner, until) = match lease.lease {
        Lease::Held { fence, until } => (Some(fence.owner), until),
        Lease::Free { .. } => (None, None),
    };
    let (health, word) = match (lease.is_live, owner) {
        (true, _) => (Health::Ok, "held"),
        (false, Some(_)) => (Health::Warn, "lapsed"),
        (false, None) => (Health::Idle, "free"),
    };
    let cells = html! {
        td { (state(health, word)) }
        th.long scope="row" { (lease.key) }
        td title=[owner] { (value_or(owner.and_then(|owner| common.name_of(owner)), "unknown")) }
        td.number { (lease.lease.epoch()) }
        td { (times.maybe(lease.acquired_at, "unknown")) }
        td { (times.maybe(until, "its process ends")) }
    };
    Row::of(format!("lease:{}", lease.key), &cells)
}

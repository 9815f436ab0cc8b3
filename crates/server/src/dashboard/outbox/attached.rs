//! Tables that were there before, which relays serve beside the outbox.

use super::overview::{count, unknown};
use crate::dashboard::instant::Times;
use crate::dashboard::part::empty_row;
use crate::dashboard::region::{Audience, Page, Region, Row};
use maud::{Markup, html};
use tidemill_domain::outbox::Count;
use tidemill_store::outbox::AttachedStanding;

/// What the columns are called, and whether they are of numbers.
pub(super) const COLUMNS: &[(&str, bool)] =
    &[("Table", false), ("To be sent", true), ("Oldest", false), ("Being sent", true), ("Failed", true)];

pub(super) fn region(tables: &[AttachedStanding], times: &Times) -> Region {
    let rows = tables.iter().map(|table| Row::new(name(table), row(table, times))).collect();
    let without = empty_row(COLUMNS.len(), &html! { "No table is attached." });
    Region::table_body("outbox-attached", Audience::On(&[Page::Outbox]), rows, without, html! {})
}

fn name(table: &AttachedStanding) -> String {
    format!("attached:{}", table.name)
}

fn row(table: &AttachedStanding, times: &Times) -> Markup {
    html! {
        tr data-live=(name(table)) {
            th.long scope="row" { (table.name) }
            @match table.counts {
                Some(counts) => {
                    td.number { (count(counts.pending)) }
                    td {
                        @match (counts.oldest, counts.pending) {
                            (Some(oldest), _) => (times.length(oldest)),
                            (None, Count::Exactly(0)) => span.soft { "none" },
                            (None, _) => (unknown()),
                        }
                    }
                    td.number { (count(counts.sending)) }
                    td.number { (count(counts.failed)) }
                }
                None => td colspan="4" { (unknown()) span.soft { ": it is gone, locked, or not for us to see" } }
            }
        }
    }
}

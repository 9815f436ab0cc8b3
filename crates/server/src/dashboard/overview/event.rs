//! Recent events: the newest entries of the audit log.

use crate::dashboard::instant::Times;
use crate::dashboard::part::command;
use crate::dashboard::region::{Audience, Page, Region, Row};
use maud::{Markup, html};
use tidemill_domain::audit::AuditRecord;

pub(crate) const COLUMNS: &[&str] = &["Time", "Action", "Object", "Change", "Reason", "Actor"];

pub(crate) fn region(events: &[AuditRecord], times: &Times) -> Region {
    let rows = events.iter().map(|event| Row::new(name(event), row(event, times)));
    let empty = html! { "No events yet. Try " (command("tidemill demo")) };
    Region::rows("events", Audience::On(&[Page::Overview]), COLUMNS, rows, &empty, None)
}

pub(crate) fn name(event: &AuditRecord) -> String {
    format!("event:{}", event.id)
}

pub(crate) fn row(event: &AuditRecord, times: &Times) -> Markup {
    let entry = &event.entry;
    let state = |state: &Option<String>| state.as_deref().filter(|text| !text.is_empty()).map(str::to_owned);
    html! {
        tr data-live=(name(event)) {
            td { (times.at(event.at)) }
            th scope="row" { (entry.action) }
            td.long { (entry.object) }
            td {
                @match (state(&entry.from), state(&entry.to)) {
                    (Some(from), Some(to)) => { (from) " → " (to) }
                    (None, Some(to)) => { "→ " (to) }
                    (Some(from), None) => { (from) " →" }
                    (None, None) => {}
                }
            }
            td.long { (entry.reason.as_deref().unwrap_or_default()) }
            td { (entry.actor.name) " " span.soft { "(" (entry.actor.role) ")" } }
        }
    }
}

//! Processes, one row each.

use crate::dashboard::instant::Times;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{Health, empty_row, state};
use crate::dashboard::region::{Audience, Page, Region, Row};
use maud::{Markup, html};
use tidemill_domain::process::{ProcessId, ProcessState};
use tidemill_store::process::ProcessRecord;

const SHOWN: usize = 50;

/// What the table's columns are called.
pub(crate) const COLUMNS: &[(&str, bool)] = &[
    ("State", false),
    ("Name", false),
    ("Host", false),
    ("Number", true),
    ("Version", false),
    ("Started", false),
    ("Last heartbeat", false),
];

/// The table's body; `ours` is the process that serves the page.
pub(crate) fn region(common: &PageSnapshot, ours: ProcessId, times: &Times) -> Region {
    let all = &common.processes;
    let shown = all.rows.iter().take(SHOWN);
    let rows = shown.map(|process| Row::new(name(process), row(process, ours, times))).collect();
    let rest = all.count(|_| true);
    let below = html! {
        @if all.is_cut || all.rows.len() > SHOWN {
            tr { td.soft colspan=(COLUMNS.len()) { "The first " (SHOWN) " of " (rest) "." } }
        }
    };
    let without = empty_row(COLUMNS.len(), &html! { "No process has registered yet." });
    Region::table_body("processes", Audience::On(&[Page::Overview, Page::Settings]), rows, without, below)
}

fn name(process: &ProcessRecord) -> String {
    format!("process:{}", process.id)
}

/// A row, on the page and in its patch.
pub(crate) fn row(process: &ProcessRecord, ours: ProcessId, times: &Times) -> Markup {
    let health = match process.state {
        ProcessState::Live { .. } if process.state.is_live(times.now()) => Health::Ok,
        ProcessState::Live { .. } => Health::Warn,
        ProcessState::Stopped { .. } => Health::Idle,
        ProcessState::Dead { .. } => Health::Bad,
    };
    html! {
        tr data-live=(name(process)) {
            td { (state(health, process.state.word(times.now()))) }
            th scope="row" title=(process.id) {
                (process.identity.name)
                @if process.id == ours { " " span.soft { "(this server)" } }
            }
            td { (process.identity.host) }
            td.number { (process.identity.pid) }
            td { (process.identity.version) }
            td { (times.at(process.started_at)) }
            td { (times.at(process.heartbeat_at)) }
        }
    }
}

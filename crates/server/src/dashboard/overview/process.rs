//! Processes, one row each.

use crate::dashboard::instant::Times;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{Health, state};
use crate::dashboard::region::{Audience, Page, Region, Row};
use maud::html;
use tidemill_domain::process::{ProcessId, ProcessState};
use tidemill_store::process::ProcessRecord;

const SHOWN: usize = 50;

pub(crate) const COLUMNS: &[&str] =
    &["State", "Name", "Host", "#PID", "Version", "Started", "Last heartbeat"];

/// The body of the table; `ours` is the process that serves the page.
pub(crate) fn region(common: &PageSnapshot, ours: ProcessId, times: &Times) -> Region {
    let all = &common.processes;
    let rows = all.rows.iter().take(SHOWN).map(|process| row(process, ours, times));
    let is_cut = all.is_cut || all.rows.len() > SHOWN;
    let note = is_cut.then(|| html! { "The first " (SHOWN) " of " (all.count(|_| true)) "." });
    let audience = Audience::On(&[Page::Overview, Page::Settings]);
    Region::rows("processes", audience, COLUMNS, rows, &html! { "No processes yet." }, note)
}

fn row(process: &ProcessRecord, ours: ProcessId, times: &Times) -> Row {
    let health = match process.state {
        ProcessState::Live { .. } if process.state.is_live(times.now()) => Health::Ok,
        ProcessState::Live { .. } => Health::Warn,
        ProcessState::Stopped { .. } => Health::Idle,
        ProcessState::Dead { .. } => Health::Bad,
    };
    let cells = html! {
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
    };
    Row::of(format!("process:{}", process.id), &cells)
}

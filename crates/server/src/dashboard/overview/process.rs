//! Processes, their leases, and the database that they share.

use crate::dashboard::part::{Health, command, count_text, milliseconds, state as state_word, value_or};
use crate::dashboard::{Audience, Page, PageSnapshot, Region, Row, Times};
use crate::state::State;
use maud::{Markup, html};
use tidemill_domain::lease::Lease;
use tidemill_domain::process::{ProcessId, ProcessState};
use tidemill_store::lease::LeaseRecord;
use tidemill_store::migration::{MigrationState, MigrationStatus};
use tidemill_store::process::ProcessRecord;

/// Maximum rows of each table.
const SHOWN: usize = 50;

pub(crate) const COLUMNS: &[&str] =
    &["State", "Name", "Host", "#PID", "Version", "Started", "Last heartbeat"];
pub(super) const LEASE_COLUMNS: &[&str] = &["State", "Lease", "Owner", "#Epoch", "Held since", "Until"];

/// The body of the table; `ours` is the process that serves the page.
pub(crate) fn region(common: &PageSnapshot, ours: ProcessId, times: &Times) -> Region {
    let all = &common.processes;
    let rows = all.rows.iter().take(SHOWN).map(|process| row(process, ours, times));
    let is_cut = all.is_cut || all.rows.len() > SHOWN;
    let note = is_cut.then(|| html! { "The first " (SHOWN) " of " (count_text(all.count(|_| true))) "." });
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
        td { (state_word(health, process.state.word(times.now()))) }
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

/// The leases of processes, without free ones.
pub(super) fn leases(common: &PageSnapshot, times: &Times) -> Region {
    let rows = common.leases.rows.iter().filter_map(|lease| lease_row(lease, common, times));
    let rows: Vec<Row> = rows.take(SHOWN).collect();
    let count = common.leases.count(|lease| matches!(lease.lease, Lease::Held { .. }));
    let note = (!rows.is_empty()).then(|| html! { (rows.len()) " of " (count_text(count)) " are shown." });
    let empty = html! { "No leases. To see some, run " (command("tidemill demo")) };
    Region::rows("leases", Audience::On(&[Page::Overview]), LEASE_COLUMNS, rows, &empty, note)
}

fn lease_row(lease: &LeaseRecord, common: &PageSnapshot, times: &Times) -> Option<Row> {
    let Lease::Held { fence, until } = lease.lease else { return None };
    let (health, word) = if lease.is_live { (Health::Ok, "held") } else { (Health::Warn, "lapsed") };
    let cells = html! {
        td { (state_word(health, word)) }
        th.long scope="row" { (lease.key) }
        td title=(fence.owner) { (value_or(common.name_of(fence.owner), "unknown")) }
        td.number { (lease.lease.epoch()) }
        td { (times.maybe(lease.acquired_at, "unknown")) }
        td { (times.maybe(until, "its process ends")) }
    };
    Some(Row::of(format!("lease:{}", lease.key), &cells))
}

/// The database: kind, place, latency, and the state of its schema.
pub(super) fn database(state: &State, common: &PageSnapshot, migrations: &[MigrationStatus]) -> Region {
    let store = state.store();
    let markup = html! {
        div.body data-live="database" {
            dl {
                dt { "Kind" } dd { (store.dialect()) }
                dt { "Place" } dd { code { (store.place()) } }
                dt { "Latency" } dd { (milliseconds(common.latency)) }
                dt { "Migrations" } dd { (schema(migrations)) }
            }
        }
    };
    Region::whole("database", Audience::On(&[Page::Overview]), markup)
}

fn schema(migrations: &[MigrationStatus]) -> Markup {
    let count = |state| migrations.iter().filter(|line| line.state == state).count();
    let (applied, pending) = (count(MigrationState::Applied), count(MigrationState::Pending));
    let (health, text) = match migrations.len() - applied - pending {
        _ if pending > 0 => (Health::Bad, format!("{pending} pending")),
        0 => (Health::Ok, format!("{applied} of {applied} applied")),
        odd => (Health::Warn, format!("{odd} newer than this program or changed")),
    };
    let last = migrations.iter().rfind(|line| line.state != MigrationState::Pending);
    html! {
        (state_word(health, &text))
        @if let Some(last) = last {
            span.soft { ", latest " (last.version) " (" (last.name) ")" }
        }
    }
}

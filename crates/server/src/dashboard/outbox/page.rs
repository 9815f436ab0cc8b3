//! The outbox page and its live regions.

use super::overview::{OutboxOverview, count, oldest, rounded, unknown};
use super::slot;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::instant::Times;
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{Health, command, empty_row, number, panel, state as state_word, wide_table};
use crate::dashboard::region::{Audience, Page, Region, Row};
use crate::problem::Problem;
use crate::state::State;
use axum::response::Html;
use maud::{Markup, html};
use tidemill_domain::outbox::Count;
use tidemill_domain::outbox::failed_event::StateWord;
use tidemill_store::outbox::{AttachedStats, Backlog, RelayDetail};

const FAILED_COLUMNS: &[(&str, bool)] =
    &[("State", false), ("Events", true), ("Oldest", false), ("Meaning", false)];

/// The live regions. The page is made of the same regions.
#[derive(Debug)]
pub(crate) struct Regions {
    head: Region,
    failed: Region,
    relays: Region,
    slots: Region,
    attached: Region,
}

impl Regions {
    pub(crate) fn new(state: &State, overview: &OutboxOverview, times: &Times) -> Self {
        let here = Audience::On(&[Page::Outbox]);
        let head = html! { div.body data-live="outbox-head" { (overview.markup(times)) } };
        Self {
            head: Region::whole("outbox-head", here, head),
            failed: failed(state, overview, times),
            relays: relay_region(&overview.relays, times),
            slots: slot::region(overview, times),
            attached: table_region(&overview.attached, times),
        }
    }

    pub(crate) fn into_vec(self) -> Vec<Region> {
        vec![self.head, self.failed, self.relays, self.slots, self.attached]
    }
}

fn failed(state: &State, overview: &OutboxOverview, times: &Times) -> Region {
    let row = |word: StateWord, health: Health, means: &str| {
        let backlog @ Backlog { rows, .. } = overview.failed.of(word);
        let health = if rows.least() == 0 { Health::Idle } else { health };
        let address = state.path(&format!("/outbox/failed?state={word}"));
        html! {
            tr {
                th scope="row" { a href=(address) { (state_word(health, word.as_str())) } }
                td.number { (count(rows)) }
                td { @if word == StateWord::Skipped { span.soft { "none" } } @else { (oldest(Some(backlog), times)) } }
                td.long { (means) }
            }
        }
    };
    let markup = html! {
        tbody data-live="outbox-failed" {
            (row(StateWord::Parked, Health::Bad, "Not retried any more. Replay or skip it."))
            (row(StateWord::Waiting, Health::Warn, "Refused by the sink. Retried automatically."))
            (row(StateWord::Held, Health::Warn, "Waits for an earlier event of its aggregate."))
            (row(StateWord::Skipped, Health::Idle, "Never published, by order of an operator."))
        }
    };
    Region::whole("outbox-failed", Audience::On(&[Page::Outbox]), markup)
}

pub(crate) async fn page(visit: PageContext) -> Result<Html<String>, Problem> {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let overview = OutboxOverview::read(&mut tx).await?;
    let regions = Regions::new(&visit.state, &overview, &visit.times(common.now));
    let content = content(&visit, &regions);
    let frame =
        Frame { visit: &visit, common: &common, section: Section::Outbox, title: None, page: Page::Outbox };
    Ok(frame.render(&content))
}

fn content(visit: &PageContext, regions: &Regions) -> Markup {
    let nothing = html! {};
    let all = html! { a href=(visit.state.path("/outbox/failed")) { "Show all" } };
    html! {
        h1 { "Outbox" }
        (panel("status", "Status", &html! { (command("tidemill outbox stats")) }, &regions.head.markup()))
        (panel("failed", "Failed events", &all,
            &wide_table("Failed events", FAILED_COLUMNS, &regions.failed.markup())))
        (panel("relays", "Relays", &nothing, &wide_table("Relays", RELAY_COLUMNS, &regions.relays.markup())))
        (panel("slots", "Slots", &html! { (command("tidemill outbox stats --slots")) }, &regions.slots.markup()))
        (panel("attached", "Attached tables", &nothing, &wide_table("Attached tables", TABLE_COLUMNS, &regions.attached.markup())))
    }
}

const RELAY_COLUMNS: &[(&str, bool)] = &[
    ("State", false),
    ("Relay", false),
    ("Host", false),
    ("Sink", false),
    ("Instance", false),
    ("Slots", true),
    ("Published", true),
    ("Per second", true),
    ("Joined", false),
    ("Lease", false),
];

fn relay_region(relays: &[RelayDetail], times: &Times) -> Region {
    let rows = relays.iter().map(|relay| Row::new(relay_name(relay), relay_row(relay, times))).collect();
    let text = html! { "No relay is running. Start one: " (command("tidemill relay")) };
    let without = empty_row(RELAY_COLUMNS.len(), &text);
    Region::table_body("outbox-relays", Audience::On(&[Page::Outbox]), rows, without, html! {})
}

fn relay_name(relay: &RelayDetail) -> String {
    format!("relay:{}", relay.relay.id)
}

fn relay_row(detail: &RelayDetail, times: &Times) -> Markup {
    let relay = &detail.relay;
    html! {
        tr data-live=(relay_name(detail)) {
            td { (state_word(Health::Ok, "live")) }
            th.long scope="row" title=(relay.id) { (relay.name) }
            td { (relay.host) " " span.soft { "(" (relay.pid) ")" } }
            td { @for part in detail.sink.split_inclusive(',') { (part) wbr; } }
            td {
                @match relay.instance {
                    Some(instance) => (instance),
                    None => span.soft { "even" },
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
            td { "expires in " (times.length(detail.until)) }
        }
    }
}

const TABLE_COLUMNS: &[(&str, bool)] =
    &[("Table", false), ("Pending", true), ("Oldest", false), ("Sending", true), ("Failed", true)];

fn table_region(tables: &[AttachedStats], times: &Times) -> Region {
    let rows = tables.iter().map(|table| Row::new(table_name(table), table_row(table, times))).collect();
    let without = empty_row(TABLE_COLUMNS.len(), &html! { "No table is attached." });
    Region::table_body("outbox-attached", Audience::On(&[Page::Outbox]), rows, without, html! {})
}

fn table_name(table: &AttachedStats) -> String {
    format!("attached:{}", table.name)
}

fn table_row(table: &AttachedStats, times: &Times) -> Markup {
    html! {
        tr data-live=(table_name(table)) {
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
                None => td colspan="4" { (unknown()) span.soft { ": the table was dropped, is locked, or cannot be read" } }
            }
        }
    }
}

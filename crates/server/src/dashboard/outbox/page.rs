//! The outbox page and its live regions.

use super::overview::{OutboxOverview, count, oldest, rounded, unknown};
use super::slot;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::instant::Times;
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{
    Health, command, number, panel, plain_panel, state as state_word, table, value_or,
};
use crate::dashboard::region::{Audience, Page, Region, Row, show};
use crate::problem::Problem;
use crate::state::State;
use axum::response::Html;
use maud::html;
use tidemill_domain::outbox::failed_event::StateWord;
use tidemill_store::outbox::{AttachedStats, Backlog, RelayDetail};

const FAILED_COLUMNS: &[&str] = &["State", "#Events", "Oldest", "Meaning"];
const RELAY_COLUMNS: &[&str] =
    &["State", "Relay", "Host", "Sink", "Instance", "#Slots", "#Published", "#Per second", "Joined", "Lease"];
const TABLE_COLUMNS: &[&str] = &["Table", "#Pending", "Oldest", "#Sending", "#Failed"];

const HERE: Audience = Audience::On(&[Page::Outbox]);

/// The live regions. The page is made of the same.
pub(crate) fn regions(state: &State, overview: &OutboxOverview, times: &Times) -> Vec<Region> {
    let head = html! { div.body data-live="outbox-head" { (overview.markup(times)) } };
    let relays = overview.relays.iter().map(|relay| relay_row(relay, times));
    let no_relay = html! { "No relay is running. Start one: " (command("tidemill relay")) };
    let tables = overview.attached.iter().map(|table| table_row(table, times));
    let no_table = html! { "No table is attached." };
    vec![
        Region::whole("outbox-head", HERE, head),
        failed(state, overview, times),
        Region::rows("outbox-relays", HERE, RELAY_COLUMNS, relays, &no_relay, None),
        slot::region(overview, times),
        Region::rows("outbox-attached", HERE, TABLE_COLUMNS, tables, &no_table, None),
    ]
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
    Region::whole("outbox-failed", HERE, markup)
}

pub(crate) async fn page(visit: PageContext) -> Result<Html<String>, Problem> {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let overview = OutboxOverview::read(&mut tx).await?;
    let regions = regions(&visit.state, &overview, &visit.times(common.now));
    let live_table =
        |caption: &str, columns: &[&str], name: &str| table(caption, columns, &show(&regions, name));
    let failed = live_table("Failed events", FAILED_COLUMNS, "outbox-failed");
    let all = html! { a href=(visit.state.path("/outbox/failed")) { "Show all" } };
    let content = html! {
        h1 { "Outbox" }
        (panel("status", "Status", &command("tidemill outbox stats"), &show(&regions, "outbox-head")))
        (panel("failed", "Failed events", &all, &failed))
        (plain_panel("relays", "Relays", &live_table("Relays", RELAY_COLUMNS, "outbox-relays")))
        (panel("slots", "Slots", &command("tidemill outbox stats --slots"), &show(&regions, "outbox-slots")))
        (plain_panel("attached", "Attached tables", &live_table("Attached tables", TABLE_COLUMNS, "outbox-attached")))
    };
    Ok(Frame::new(&visit, &common, Section::Outbox).live(Page::Outbox).render(&content))
}

fn relay_row(detail: &RelayDetail, times: &Times) -> Row {
    let relay = &detail.relay;
    let cells = html! {
        td { (state_word(Health::Ok, "live")) }
        th.long scope="row" title=(relay.id) { (relay.name) }
        td { (relay.host) " " span.soft { "(" (relay.pid) ")" } }
        td { @for part in detail.sink.split_inclusive(',') { (part) wbr; } }
        td { (value_or(relay.instance, "even")) }
        td.number { (relay.slots) }
        td.number { (number(detail.tally.published)) }
        td.number { (value_or(detail.published_per_second().map(rounded), "unknown")) }
        td { (times.at(relay.joined_at)) }
        td { "expires in " (times.length(detail.until)) }
    };
    Row::of(format!("relay:{}", relay.id), &cells)
}

fn table_row(table: &AttachedStats, times: &Times) -> Row {
    let cells = html! {
        th.long scope="row" { (table.name) }
        @match table.counts {
            Some(counts) => {
                td.number { (count(counts.pending)) }
                td { (oldest(Some(Backlog { rows: counts.pending, oldest: counts.oldest }), times)) }
                td.number { (count(counts.sending)) }
                td.number { (count(counts.failed)) }
            }
            None => td colspan="4" { (unknown()) span.soft { ": the table was dropped, is locked, or cannot be read" } }
        }
    };
    Row::of(format!("attached:{}", table.name), &cells)
}

//! The outbox page and its live regions. Unknown numbers are shown as unknown.

use super::slot;
use crate::dashboard::part::{
    Health, command, count_text, number, panel, plain_panel, state as state_word, table, value_or,
};
use crate::dashboard::region::show;
use crate::dashboard::{
    Audience, Frame, Page, PageContext, PageResult, PageSnapshot, Region, Row, Section, Times,
};
use crate::state::State;
use maud::{Markup, html};
use tidemill_domain::outbox::failed_event::StateWord;
use tidemill_domain::outbox::{Count, LiveRelay, RelayId, missing_shares};
use tidemill_store::outbox::{AttachedStats, Backlog, FailedEventCounts, RelayDetail, SlotLag};
use tidemill_store::{StoreError, Tx};

/// Counts stop here: an open page counts every second.
pub(crate) const COUNT_MAX: u32 = 1_000;

const FAILED_COLUMNS: &[&str] = &["State", "#Events", "Oldest", "Meaning"];
const RELAY_COLUMNS: &[&str] =
    &["State", "Relay", "Host", "Sink", "Instance", "#Slots", "#Published", "#Per second", "Joined", "Lease"];
const TABLE_COLUMNS: &[&str] = &["Table", "#Pending", "Oldest", "#Sending", "#Failed"];

const HERE: Audience = Audience::On(&[Page::Outbox]);

#[derive(Clone, Debug)]
pub(crate) struct OutboxOverview {
    /// One for each slot; none if unknown.
    pub(super) lag: Option<Vec<SlotLag>>,
    pub(super) failed: FailedEventCounts,
    pub(super) relays: Vec<RelayDetail>,
    pub(super) attached: Vec<AttachedStats>,
    missing: Vec<u32>,
}

impl OutboxOverview {
    pub(crate) async fn read(tx: &mut Tx) -> Result<Self, StoreError> {
        let relays = tx.outbox().relays().await?;
        let live: Vec<LiveRelay> = relays.iter().map(|detail| detail.relay.clone()).collect();
        Ok(Self {
            lag: tx.outbox().lag(COUNT_MAX).await?,
            failed: tx.outbox().failed_event_counts(COUNT_MAX).await?,
            attached: tx.outbox().attached_stats(COUNT_MAX).await?,
            missing: missing_shares(&live),
            relays,
        })
    }

    /// None if the relay is not alive.
    pub(super) fn relay(&self, id: RelayId) -> Option<&LiveRelay> {
        self.relays.iter().map(|detail| &detail.relay).find(|relay| relay.id == id)
    }

    fn unpublished(&self) -> Option<Backlog> {
        Some(self.lag.as_deref().map(Backlog::of)?.plus(self.failed.open()))
    }

    /// Number of slots without a live relay; none if unknown.
    fn unowned(&self) -> Option<usize> {
        let has_owner = |slot: &&SlotLag| slot.owner.is_some_and(|owner| self.relay(owner).is_some());
        self.lag.as_ref().map(|slots| slots.len() - slots.iter().filter(has_owner).count())
    }

    fn published_per_second(&self) -> Option<f64> {
        let rates: Vec<f64> = self.relays.iter().filter_map(RelayDetail::published_per_second).collect();
        (!rates.is_empty()).then(|| rates.iter().sum())
    }

    pub(super) fn markup(&self, times: &Times) -> Markup {
        let unpublished = self.unpublished();
        let has_work = unpublished.is_none_or(|backlog| backlog.rows.least() > 0);
        html! {
            dl {
                dt { "Unpublished" }
                dd { (unpublished.map_or_else(unknown, |backlog| events(backlog.rows))) }
                dt { "Oldest" } dd { (oldest(unpublished, times)) }
                dt { "Published" }
                dd {
                    (value_or(self.published_per_second().map(|rate| format!("{rate:.1} events per second, since each relay joined")), "unknown"))
                }
                dt { "Live relays" }
                dd {
                    @if self.relays.is_empty() && has_work {
                        (state_word(Health::Bad, "none")) span.soft { ", so nothing is published" }
                    } @else { (self.relays.len()) }
                }
                dt { "Slots with an owner" }
                dd {
                    @match self.unowned() {
                        None => (unknown()),
                        Some(0) => "256 of 256",
                        Some(free) => { (256_usize.saturating_sub(free)) " of 256; " (state_word(Health::Warn, "without owner")) " " (free) }
                    }
                }
                @if !self.missing.is_empty() {
                    dt { "Instances without a relay" }
                    dd { (state_word(Health::Bad, &self.missing.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))) }
                }
            }
            @if self.lag.is_none() {
                p { "The positions of the slots are unknown: the database was restored to another server, and no relay has run since." }
            }
        }
    }
}

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
    let row = |(word, means): (StateWord, &str)| {
        let backlog @ Backlog { rows, .. } = overview.failed.of(word);
        let health = if rows.least() == 0 { Health::Idle } else { health(word) };
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
    let states = [
        (StateWord::Parked, "Not retried any more. Replay or skip it."),
        (StateWord::Waiting, "Refused by the sink. Retried automatically."),
        (StateWord::Held, "Waits for an earlier event of its aggregate."),
        (StateWord::Skipped, "Never published, by order of an operator."),
    ];
    let markup = html! { tbody data-live="outbox-failed" { @for state in states { (row(state)) } } };
    Region::whole("outbox-failed", HERE, markup)
}

pub(super) const fn health(word: StateWord) -> Health {
    match word {
        StateWord::Parked => Health::Bad,
        StateWord::Waiting | StateWord::Held => Health::Warn,
        StateWord::Skipped => Health::Idle,
    }
}

pub(crate) async fn page(visit: PageContext) -> PageResult {
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
        td.number { (value_or(detail.published_per_second().map(|rate| format!("{rate:.1}")), "unknown")) }
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

pub(super) fn unknown() -> Markup {
    html! { span.soft { "unknown" } }
}

pub(super) fn count(count: Count) -> Markup {
    value_or((count != Count::AtLeast(0)).then(|| count_text(count)), "unknown")
}

fn events(count: Count) -> Markup {
    match count {
        Count::AtLeast(0) => unknown(),
        Count::Exactly(1) => html! { "1 event" },
        count => html! { (count_text(count)) " events" },
    }
}

/// Age of the oldest event.
pub(crate) fn oldest(backlog: Option<Backlog>, times: &Times) -> Markup {
    match backlog {
        Some(Backlog { rows: Count::Exactly(0), .. }) => html! { span.soft { "none" } },
        Some(Backlog { oldest: Some(oldest), .. }) => times.length(oldest),
        _ => unknown(),
    }
}

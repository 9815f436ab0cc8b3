//! The events that were not taken, by page; some or all of them can be replayed or skipped.

use super::filter::FailedEventQuery;
use super::row::{COLUMNS, row};
use crate::api::QueryString;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::outbox::overview::count;
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{command, empty_row, panel, refused, table};
use crate::dashboard::region::{Audience, Page, Region};
use crate::problem::Problem;
use axum::response::Html;
use maud::{Markup, html};
use tidemill_domain::access::Permission;
use tidemill_domain::outbox::Count;
use tidemill_domain::outbox::failed_event::StateWord;
use tidemill_store::outbox::FailedEventCounts;
use tidemill_store::outbox::failed_event::FailedEventRecord;
use tidemill_store::{StoreError, Tx};

const PAGE_ROWS: u32 = 50;
/// How far is counted for the numbers of states.
const STATES_COUNT_MAX: u32 = 1_000;
/// How far is counted what a filter lets through.
pub(super) const COUNT_MAX: u32 = 10_000;

/// The numbers of the states, which change by themselves.
pub(crate) async fn count_regions(tx: &mut Tx) -> Result<Vec<Region>, StoreError> {
    let failed = tx.outbox().failed_event_counts(STATES_COUNT_MAX).await?;
    Ok(StateWord::ALL.into_iter().map(|word| count_region(&failed, word)).collect())
}

fn count_region(failed: &FailedEventCounts, word: StateWord) -> Region {
    let name = format!("failed:{word}");
    let markup = html! { b data-live=(name) { (count(failed.of(word).rows)) } };
    Region::whole(&name, Audience::On(&[Page::FailedEvents]), markup)
}

pub(crate) async fn page(
    visit: PageContext,
    QueryString(wanted): QueryString<FailedEventQuery>,
) -> Result<Html<String>, Problem> {
    let filter = wanted.filter()?;
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    // One more than is shown tells whether there is a next page.
    let mut records = tx.outbox().failed_events(&filter, wanted.after(), PAGE_ROWS + 1).await?;
    let matching = tx.outbox().count_failed_events(&filter, COUNT_MAX).await?;
    let failed = tx.outbox().failed_event_counts(STATES_COUNT_MAX).await?;
    let has_more = records.len() > PAGE_ROWS as usize;
    records.truncate(PAGE_ROWS as usize);
    let next =
        records.last().filter(|_| has_more).map(|record| wanted.query(&format!("after={}", record.id)));
    let times = visit.times(common.now);
    let buttons = visit.buttons(Permission::Operate);
    let rows = html! {
        tbody {
            @if records.is_empty() { (empty_row(COLUMNS.len(), &without(&wanted))) }
            @for record in &records { (row(&visit.state, record, &times, buttons)) }
        }
    };
    let address = visit.state.path("/outbox/failed");
    let nothing = html! {};
    let aside = html! { span.soft { (counted(matching)) } };
    let content = html! {
        h1 { "Failed events" }
        (done(&wanted))
        (chips(&visit, &failed, &wanted))
        (panel("filter", "Only", &nothing, &filter_form(&address, &wanted)))
        (panel("events", "Events", &aside, &html! {
            form method="get" action={ (address) "/replay" } {
                (wanted.hidden())
                (table("Failed events", COLUMNS, &rows))
                (acts(&visit, &wanted, &records, matching))
            }
            div.row.body {
                @if !wanted.is_first() { a.button href={ (address) (wanted.query("")) } { "First" } }
                @if let Some(next) = next { a.button href={ (address) (next) } { "Next" } }
            }
            p.body.soft {
                "Order is kept for each aggregate: later events of it wait behind a failed one, and a replayed event overtakes none. "
                "At the command line: " (command(&format!("tidemill outbox failed{}", wanted.flags())))
            }
        }))
    };
    let title = Some("Failed events");
    let frame =
        Frame { visit: &visit, common: &common, section: Section::Outbox, title, page: Page::FailedEvents };
    Ok(frame.render(&content))
}

fn without(wanted: &FailedEventQuery) -> Markup {
    html! {
        @if wanted.is_narrow() || !wanted.is_first() {
            "No event is like this."
        } @else {
            "No event is " (wanted.state_word()) "."
        }
    }
}

/// In words, as far as was counted.
pub(super) fn counted(count: Count) -> String {
    match count {
        Count::Exactly(1) => "1 matches.".to_owned(),
        Count::Exactly(count) => format!("{count} match."),
        Count::AtLeast(least) => format!("More than {least} match."),
    }
}

/// What was just done. Only numbers are taken from the address.
fn done(wanted: &FailedEventQuery) -> Markup {
    let count: Option<u64> = wanted.count.parse().ok();
    let what = match wanted.done.as_str() {
        "replay" => "tried again at once, each when its turn within its aggregate comes",
        "skip" => "never published; those behind them go on",
        _ => return html! {},
    };
    html! {
        @if let Some(count) = count { p.banner.ok role="status" { b { (count) } " events are " (what) "." } }
    }
}

fn chips(visit: &PageContext, failed: &FailedEventCounts, wanted: &FailedEventQuery) -> Markup {
    let address = |word: &str| visit.state.path(&format!("/outbox/failed?state={word}"));
    html! {
        nav.chips aria-label="States" {
            @for word in [StateWord::Parked, StateWord::Waiting, StateWord::Held, StateWord::Skipped] {
                a href=(address(word.as_str())) aria-current=[(wanted.state_word() == word.as_str()).then_some("true")] {
                    (word) " " (count_region(failed, word).markup())
                }
            }
            a href=(address("open")) aria-current=[(wanted.state_word() == "open").then_some("true")] { "all but skipped" }
        }
    }
}

fn filter_form(address: &str, wanted: &FailedEventQuery) -> Markup {
    html! {
        form.body method="get" action=(address) {
            input type="hidden" name="state" value=(wanted.state_word());
            div.fields {
                label { "Topic" input name="topic" value=(wanted.topic) autocomplete="off"; }
                label { "Type of event" input name="event_type" value=(wanted.event_type) autocomplete="off"; }
                label { "Type of aggregate" input name="aggregate_type" value=(wanted.aggregate_type) autocomplete="off"; }
                label { "Id of aggregate" input name="aggregate_id" value=(wanted.aggregate_id) autocomplete="off"; }
                label { "Text in the error" input name="error" value=(wanted.error) autocomplete="off"; }
                label { "Slot" input name="slot" value=(wanted.slot) inputmode="numeric" autocomplete="off"; }
            }
            div.row { button.do { "Show" } " " a href=(address) { "Everything that is parked" } }
        }
    }
}

/// What can be done with those that are picked, and with all that match.
fn acts(
    visit: &PageContext,
    wanted: &FailedEventQuery,
    records: &[FailedEventRecord],
    matching: Count,
) -> Markup {
    let address = visit.state.path("/outbox/failed");
    let all = |verb: &str| format!("{address}/{verb}{}", wanted.query("all=1"));
    let whole = match matching {
        Count::Exactly(count) => count.to_string(),
        Count::AtLeast(least) => format!("{least}+"),
    };
    let (replay, skip) = (format!("Replay all {whole} matching…"), format!("Skip all {whole} matching…"));
    let refusal = visit.refusal(Permission::Operate);
    html! {
        @if !records.is_empty() {
            div.row.body {
                @match &refusal {
                    Some(reason) => { (refused("Replay selected…", reason)) }
                    None => {
                        button { "Replay selected…" }
                        button formaction={ (address) "/skip" } { "Skip selected…" }
                        @if !wanted.is_narrow() {
                            (refused(&replay, "To act on all, first say which: topic, type, aggregate, error or slot."))
                        } @else {
                            a.button href=(all("replay")) { (replay) }
                            a.button href=(all("skip")) { (skip) }
                        }
                    }
                }
            }
        }
    }
}

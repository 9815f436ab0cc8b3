//! The list of failed events. Selected or all matching events can be replayed or skipped.

use super::filter::FailedEventQuery;
use super::one::verb;
use crate::api::QueryString;
use crate::dashboard::outbox::page::{count, health};
use crate::dashboard::part::{
    brief, command, count_text, list_table, panel, plain_panel, plural, state as state_word, unless_refused,
};
use crate::dashboard::sheet::ask_button;
use crate::dashboard::{
    Audience, Buttons, Frame, Page, PageContext, PageResult, PageSnapshot, Region, Rows, Section, Times,
};
use crate::state::State;
use maud::{Markup, html};
use tidemill_domain::access::Permission;
use tidemill_domain::action::Action;
use tidemill_domain::outbox::Count;
use tidemill_domain::outbox::failed_event::{StateWord, operate};
use tidemill_store::outbox::FailedEventCounts;
use tidemill_store::outbox::failed_event::FailedEventRecord;
use tidemill_store::{StoreError, Tx};

const PAGE_ROWS: u32 = 50;
const STATES_COUNT_MAX: u32 = 1_000;
/// Where the count of matching events stops.
pub(super) const COUNT_MAX: u32 = 10_000;

const COLUMNS: &[&str] = &["Select", "State", "Event", "Aggregate", "Topic", "Error", "Failed", "Action"];

/// The counts of states, which are live.
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
    QueryString(query): QueryString<FailedEventQuery>,
) -> PageResult {
    let filter = query.filter()?;
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let records = tx.outbox().failed_events(&filter, query.after(), PAGE_ROWS + 1).await?;
    let records = Rows::new(records, PAGE_ROWS);
    let matching = tx.outbox().count_failed_events(&filter, COUNT_MAX).await?;
    let failed = tx.outbox().failed_event_counts(STATES_COUNT_MAX).await?;
    let next = records.last_of_more().map(|record| query.query(&format!("after={}", record.id)));
    let times = visit.times(common.now);
    let refusal = visit.refusal(Permission::Operate);
    let buttons = Buttons::unless(refusal.as_deref());
    let empty = match query.is_narrow() || !query.is_first() {
        true => "No events match.".to_owned(),
        false => format!("No {} events.", query.state_word()),
    };
    let rows = records.rows.iter().map(|record| row(&visit.state, record, &times, buttons));
    let address = visit.state.path("/outbox/failed");
    let aside = html! { span.soft { (counted(matching)) } };
    let content = html! {
        h1 { "Failed events" }
        (done(&query))
        (chips(&visit, &failed, &query))
        (plain_panel("filter", "Filter", &filter_form(&address, &query)))
        (panel("events", "Events", &aside, &html! {
            form method="get" action={ (address) "/replay" } {
                (query.hidden())
                (list_table("Failed events", COLUMNS, rows, &html! { (empty) }))
                @if !records.rows.is_empty() { (acts(&address, &query, matching, refusal.as_deref())) }
            }
            div.row.body {
                @if !query.is_first() { a.button href={ (address) (query.query("")) } { "First" } }
                @if let Some(next) = next { a.button href={ (address) (next) } { "Next" } }
            }
            p.body.soft {
                "Order is kept for each aggregate: later events wait for a failed one, and a replayed event keeps its place. "
                "At the command line: " (command(&format!("tidemill outbox failed{}", query.flags())))
            }
        }))
    };
    let frame = Frame::new(&visit, &common, Section::Outbox).titled("Failed events").live(Page::FailedEvents);
    Ok(frame.render(&content))
}

fn counted(count: Count) -> String {
    match count {
        Count::Exactly(1) => "1 matches.".to_owned(),
        Count::Exactly(count) => format!("{count} match."),
        Count::AtLeast(least) => format!("More than {least} match."),
    }
}

/// Confirms the last action. The address only supplies known words and numbers.
fn done(query: &FailedEventQuery) -> Markup {
    let count: Option<u64> = query.count.parse().ok();
    let what = match query.done.as_str() {
        "replay" => "retried now, in order within each aggregate",
        "skip" => "skipped and will never be published",
        _ => return html! {},
    };
    html! {
        @if let Some(count) = count {
            p.banner.ok role="status" { (plural(count, "event is", "events are")) " " (what) "." }
        }
    }
}

fn chips(visit: &PageContext, failed: &FailedEventCounts, query: &FailedEventQuery) -> Markup {
    let address = |word: &str| visit.state.path(&format!("/outbox/failed?state={word}"));
    html! {
        nav.chips aria-label="States" {
            @for word in [StateWord::Parked, StateWord::Waiting, StateWord::Held, StateWord::Skipped] {
                a href=(address(word.as_str())) aria-current=[(query.state_word() == word.as_str()).then_some("true")] {
                    (word) " " (count_region(failed, word).markup())
                }
            }
            a href=(address("open")) aria-current=[(query.state_word() == "open").then_some("true")] { "all but skipped" }
        }
    }
}

fn filter_form(address: &str, query: &FailedEventQuery) -> Markup {
    html! {
        form.body method="get" action=(address) {
            input type="hidden" name="state" value=(query.state_word());
            div.fields {
                label { "Topic" input name="topic" value=(query.topic) autocomplete="off"; }
                label { "Event type" input name="event_type" value=(query.event_type) autocomplete="off"; }
                label { "Aggregate type" input name="aggregate_type" value=(query.aggregate_type) autocomplete="off"; }
                label { "Aggregate id" input name="aggregate_id" value=(query.aggregate_id) autocomplete="off"; }
                label { "Error contains" input name="error" value=(query.error) autocomplete="off"; }
                label { "Slot" input name="slot" value=(query.slot) inputmode="numeric" autocomplete="off"; }
            }
            div.row { button.do { "Apply" } " " a href=(address) { "All parked events" } }
        }
    }
}

/// Buttons for the selected events and for all matching events.
fn acts(address: &str, query: &FailedEventQuery, matching: Count, refusal: Option<&str>) -> Markup {
    let all = |verb: &str| format!("{address}/{verb}{}", query.query("all=1"));
    let whole = count_text(matching);
    let (replay, skip) = (format!("Replay all {whole} matching…"), format!("Skip all {whole} matching…"));
    let is_wide = (!query.is_narrow())
        .then_some("To change all events, first filter them by topic, type, aggregate, error or slot.");
    let all = html! {
        a.button href=(all("replay")) { (replay) }
        a.button href=(all("skip")) { (skip) }
    };
    let buttons = html! {
        button { "Replay selected…" }
        button formaction={ (address) "/skip" } { "Skip selected…" }
        (unless_refused(is_wide, &replay, &all))
    };
    html! { div.row.body { (unless_refused(refusal, "Replay selected…", &buttons)) } }
}

pub(super) fn state_of(record: &FailedEventRecord) -> Markup {
    let word = record.failed_event.state.word();
    state_word(health(word), word.as_str())
}

fn row(state: &State, record: &FailedEventRecord, times: &Times, buttons: Buttons) -> Markup {
    let id = record.id;
    html! {
        tr {
            td {
                label.pick {
                    input type="checkbox" name="id" value=(id) disabled[buttons == Buttons::Off];
                    span.unseen { "Select event " (id) }
                }
            }
            td {
                (state_of(record))
                @if let Some(behind) = record.behind {
                    br; span.soft { "waits for " a href=(state.path(&format!("/outbox/failed/{behind}"))) { (behind) } }
                }
            }
            th scope="row" {
                a href=(state.path(&format!("/outbox/failed/{id}"))) { (id) }
                br; span.soft { (record.event_type) }
            }
            td.long { (record.aggregate.kind) " " (record.aggregate.id) }
            td.long { (record.topic.as_deref().unwrap_or("unknown")) }
            td.long {
                (brief(record.error.as_deref().unwrap_or("No error recorded.")))
                br; span.soft { (plural(record.failed_event.attempts, "attempt", "attempts")) }
                @if let Some(next) = record.failed_event.state.next_attempt_at() {
                    span.soft { ", next " (times.at(next)) }
                }
            }
            td { (times.at(record.since)) }
            td { div.acts { (actions(state, record, times, buttons)) } }
        }
    }
}

/// Buttons; a disabled one has the reason as its title.
pub(super) fn actions(state: &State, record: &FailedEventRecord, times: &Times, buttons: Buttons) -> Markup {
    html! {
        @for action in [Action::EventReplay, Action::EventSkip] {
            @let (id, word) = (record.id, action.label());
            @match operate(record.facts(), &verb(action), times.now()) {
                Err(refusal) => button type="button" disabled title=(refusal) { (word) "…" },
                Ok(_) => (ask_button(buttons, &state.path(&format!("/outbox/failed/{id}/{}", action.verb())),
                    &format!("{word}…"), &format!("{word} event {id}…"))),
            }
        }
    }
}

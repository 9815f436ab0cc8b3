//! The page of the outbox, and its parts that change by themselves.

use super::overview::{OutboxOverview, count, oldest};
use super::{attached, relay, slot};
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::instant::Times;
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{Health, command, panel, state as state_word, wide_table};
use crate::dashboard::region::{Audience, Page, Region};
use crate::problem::Problem;
use crate::state::State;
use axum::response::Html;
use maud::{Markup, html};
use tidemill_domain::outbox::failed_event::StateWord;
use tidemill_store::outbox::Backlog;

const FAILED_COLUMNS: &[(&str, bool)] =
    &[("State", false), ("Events", true), ("Oldest", false), ("What it means", false)];

/// The parts that change by themselves. The page is put together from the very same.
#[derive(Debug)]
pub(crate) struct Regions {
    head: Region,
    failed: Region,
    relays: Region,
    slots: Region,
    attached: Region,
}

impl Regions {
    pub(crate) fn new(state: &State, standing: &OutboxOverview, times: &Times) -> Self {
        let here = Audience::On(&[Page::Outbox]);
        let head = html! { div.body data-live="outbox-head" { (standing.markup(times)) } };
        Self {
            head: Region::whole("outbox-head", here, head),
            failed: failed(state, standing, times),
            relays: relay::region(&standing.relays, times),
            slots: slot::region(standing, times),
            attached: attached::region(&standing.attached, times),
        }
    }

    /// As a list, for those who compare and send.
    pub(crate) fn into_vec(self) -> Vec<Region> {
        vec![self.head, self.failed, self.relays, self.slots, self.attached]
    }
}

fn failed(state: &State, standing: &OutboxOverview, times: &Times) -> Region {
    let row = |word: StateWord, health: Health, means: &str| {
        let backlog @ Backlog { rows, .. } = standing.failed.of(word);
        let health = if rows.least() == 0 { Health::Idle } else { health };
        let address = state.path(&format!("/outbox/failed?state={word}"));
        html! {
            tr {
                th scope="row" { a href=(address) { (state_word(health, word.as_str())) } }
                td.number { (count(rows)) }
                td { @if word == StateWord::Skipped { span.soft { "nobody waits" } } @else { (oldest(Some(backlog), times)) } }
                td.long { (means) }
            }
        }
    };
    let markup = html! {
        tbody data-live="outbox-failed" {
            (row(StateWord::Parked, Health::Bad, "Nobody tries any more; replay it, or skip it."))
            (row(StateWord::Waiting, Health::Warn, "Was refused, and is tried again by itself."))
            (row(StateWord::Held, Health::Warn, "Waits behind an earlier event of its aggregate."))
            (row(StateWord::Skipped, Health::Idle, "Never published, by the word of an operator."))
        }
    };
    Region::whole("outbox-failed", Audience::On(&[Page::Outbox]), markup)
}

pub(crate) async fn page(visit: PageContext) -> Result<Html<String>, Problem> {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let standing = OutboxOverview::read(&mut tx).await?;
    let regions = Regions::new(&visit.state, &standing, &visit.times(common.now));
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
        (panel("standing", "How it stands", &html! { (command("tidemill outbox stats")) }, &regions.head.markup()))
        (panel("failed", "Failed events", &all,
            &wide_table("Failed events", FAILED_COLUMNS, &regions.failed.markup())))
        (panel("relays", "Relays", &nothing, &wide_table("Relays", relay::COLUMNS, &regions.relays.markup())))
        (panel("slots", "Slots", &html! { (command("tidemill outbox stats --slots")) }, &regions.slots.markup()))
        (panel("attached", "Attached tables", &nothing, &wide_table("Attached tables", attached::COLUMNS, &regions.attached.markup())))
    }
}

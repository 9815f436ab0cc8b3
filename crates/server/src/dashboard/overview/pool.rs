//! Pools: how full each is, who waits, how full the busiest was, and what has just been decided about them.

use crate::dashboard::instant::Times;
use crate::dashboard::part::{command, empty_row, number};
use crate::dashboard::pool::address::Range;
use crate::dashboard::pool::bar::{bar, standing};
use crate::dashboard::pool::graph::{self, Past};
use crate::dashboard::region::{Audience, Page, Region, Row};
use crate::state::State;
use maud::{Markup, html};
use tidemill_domain::pool::PoolName;
use tidemill_domain::time::Timestamp;
use tidemill_store::pool::{PoolLevel, PoolStory};
use tidemill_store::{StoreError, Tx};

/// Pools that are shown, by name.
pub(crate) const SHOWN: u32 = 50;

const TOLD: u32 = 10;

/// What the columns of the pools are called.
pub(crate) const COLUMNS: &[(&str, bool)] = &[
    ("State", false),
    ("Pool", false),
    ("In use / limit", false),
    ("Of", true),
    ("Share", true),
    ("Holders", true),
    ("Waiting", true),
];

/// What the columns of the events are called.
pub(crate) const EVENT_COLUMNS: &[&str] = &["When", "Pool", "What"];

/// What happened lately, the newest first.
pub(crate) async fn stories(tx: &mut Tx) -> Result<Vec<PoolStory>, StoreError> {
    tx.pools().events(None, TOLD).await
}

/// The body of the table of pools.
pub(crate) fn region(state: &State, pools: &[PoolLevel]) -> Region {
    let rows = pools.iter().map(|pool| Row::new(name(pool), row(state, pool))).collect();
    let text = html! { "There are no pools yet. Make one: " (command("tidemill pool create NAME --max 40")) };
    let without = empty_row(COLUMNS.len(), &text);
    Region::table_body("pools", Audience::On(&[Page::Overview]), rows, without, html! {})
}

/// The body of the table of events.
pub(crate) fn event_region(stories: &[PoolStory], times: &Times) -> Region {
    let row = |story: &PoolStory| {
        let ticket = story.ticket.map(|ticket| ticket.to_string()).unwrap_or_default();
        let name = format!("pool-event:{}/{}/{ticket}/{}", story.pool, story.at, story.text.len());
        let markup = html! {
            tr data-live=(name) {
                td { (times.at(story.at)) }
                td { (story.pool) }
                td.long { (story.text) }
            }
        };
        Row::new(name.clone(), markup)
    };
    let without = empty_row(EVENT_COLUMNS.len(), &html! { "Nothing has been decided that is worth a word." });
    let rows = stories.iter().map(row).collect();
    Region::table_body("pool-events", Audience::On(&[Page::Overview]), rows, without, html! {})
}

fn name(pool: &PoolLevel) -> String {
    format!("pool:{}", pool.settings.name)
}

fn row(state: &State, pool: &PoolLevel) -> Markup {
    let (level, settings) = (pool.level, &pool.settings);
    html! {
        tr data-live=(name(pool)) {
            td { (standing(settings, level, pool.suspect, pool.waiting)) }
            th scope="row" {
                a href=(state.path(&format!("/pools/{}", settings.name))) { (settings.name) }
                @if let Some(id) = settings.external_id { " " span.soft { "(" (id) ")" } }
            }
            td.still { (bar(level, None)) " " (number(level.usage)) " / " (number(level.limit)) }
            td.number { (number(level.max_units.into())) }
            td.number { (format!("{:.0} %", level.percent())) }
            td.number { (number(pool.active)) }
            td.number { (number(pool.waiting)) }
        }
    }
}

/// How full the pool is and was of which the greatest share is in use, if there is one.
#[derive(Clone, Debug)]
pub(crate) struct Busiest {
    name: PoolName,
    past: Past,
}

impl Busiest {
    pub(crate) async fn read(
        tx: &mut Tx,
        pools: &[PoolLevel],
        now: Timestamp,
    ) -> Result<Option<Self>, StoreError> {
        let Some(pool) = busiest(pools) else { return Ok(None) };
        let name = pool.settings.name.clone();
        Ok(Some(Self { past: Past::read(tx, &name, Range::Day, now).await?, name }))
    }
}

/// By the share that is in use, then by who waits; the first of equals.
fn busiest(pools: &[PoolLevel]) -> Option<&PoolLevel> {
    let by_load = |one: &&PoolLevel, other: &&PoolLevel| {
        one.level.percent().total_cmp(&other.level.percent()).then(one.waiting.cmp(&other.waiting))
    };
    pools.iter().rev().max_by(by_load)
}

/// The graph of a day.
pub(crate) fn graph_region(state: &State, busiest: Option<&Busiest>, times: &Times) -> Region {
    let markup = html! {
        div data-live="pool-graph" {
            @if let Some(Busiest { name, past }) = busiest {
                h3 { "The last 24 h of " a href=(state.path(&format!("/pools/{name}"))) { (name) } ", the busiest" }
                div.body { (graph::figure(past, Range::Day, times)) }
            }
        }
    };
    Region::whole("pool-graph", Audience::On(&[Page::Overview]), markup)
}

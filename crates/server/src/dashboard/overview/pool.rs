//! Pools: how full each is, who waits, and what has just been decided about them.

use crate::dashboard::instant::Times;
use crate::dashboard::part::{Health, empty_row, state};
use crate::dashboard::region::{Audience, Page, Region, Row};
use maud::{Markup, html};
use tidemill_store::pool::{PoolLevel, PoolStory};
use tidemill_store::{StoreError, Tx};

/// Pools that are shown, by name.
pub(crate) const SHOWN: u32 = 50;

/// Sentences that are shown.
const TOLD: u32 = 10;

/// What the columns of the pools are called.
pub(crate) const COLUMNS: &[&str] = &["State", "Pool", "In use / limit", "Of", "Share", "Active", "Waiting"];

/// What the columns of the events are called.
pub(crate) const EVENT_COLUMNS: &[&str] = &["When", "Pool", "What"];

/// What happened lately, the newest first.
pub(crate) async fn stories(tx: &mut Tx) -> Result<Vec<PoolStory>, StoreError> {
    tx.pool_events(None, TOLD).await
}

/// The body of the table of pools.
pub(crate) fn region(pools: &[PoolLevel]) -> Region {
    let rows = pools.iter().map(|pool| Row::new(name(pool), row(pool))).collect();
    let without = empty_row(COLUMNS.len(), &html! { "There are no pools yet." });
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

fn row(pool: &PoolLevel) -> Markup {
    let (level, settings) = (pool.level, &pool.settings);
    let over = format!("over by {}", level.over_by());
    let (health, word) = match () {
        () if level.over_by() > 0 => (Health::Bad, over.as_str()),
        () if settings.paused.is_some() => (Health::Idle, "paused"),
        () if pool.suspect > 0 => (Health::Warn, "leases in doubt"),
        () if pool.waiting > 0 => (Health::Warn, "requests wait"),
        () => (Health::Ok, "open"),
    };
    let share = format!("{:.0} %", level.percent());
    let told = format!("{} of {} units in use, {} may be", level.usage, level.max_units, level.limit);
    html! {
        tr data-live=(name(pool)) {
            td { (state(health, word)) }
            th scope="row" {
                (settings.name)
                @if let Some(id) = settings.external_id { " " span.soft { "(" (id) ")" } }
            }
            td { (level.usage) " / " (level.limit) }
            td { (level.max_units) }
            td {
                // The word beside it says the same, for those who do not see the bar.
                meter min="0" max=(level.max_units.max(1)) high=(level.limit) value=(level.usage) title=(told) { (share) }
                " " (share)
            }
            td { (pool.active) }
            td { (pool.waiting) }
        }
    }
}

//! Pools on the overview: their state, the usage of the busiest one, and recent decisions.

use crate::dashboard::pool::address::Range;
use crate::dashboard::pool::graph::{self, Past};
use crate::dashboard::pool::list::{first_cells, name, no_pools};
use crate::dashboard::{Audience, Page, Region, Row, Times};
use crate::state::State;
use maud::html;
use tidemill_domain::pool::PoolName;
use tidemill_domain::time::Timestamp;
use tidemill_store::pool::{PoolEventSummary, PoolLevel};
use tidemill_store::{StoreError, Tx};

/// Maximum number of pools, by name.
pub(crate) const SHOWN: u32 = 50;

pub(crate) const COLUMNS: &[&str] = &["State", "Pool", "In use", "#Capacity", "#Holders", "#Waiting"];

pub(crate) const EVENT_COLUMNS: &[&str] = &["When", "Pool", "Decision"];

pub(crate) fn region(state: &State, pools: &[PoolLevel]) -> Region {
    let rows = pools.iter().map(|pool| Row::of(name(pool), &first_cells(state, pool)));
    Region::rows("pools", Audience::On(&[Page::Overview]), COLUMNS, rows, &no_pools(state), None)
}

pub(crate) fn event_region(events: &[PoolEventSummary], times: &Times) -> Region {
    let row = |event: &PoolEventSummary| {
        let ticket = event.ticket.map(|ticket| ticket.to_string()).unwrap_or_default();
        let name = format!("pool-event:{}/{}/{ticket}/{}", event.pool, event.at, event.text.len());
        let cells = html! {
            td { (times.at(event.at)) }
            td { (event.pool) }
            td.long { (event.text) }
        };
        Row::of(name, &cells)
    };
    let (here, empty) = (Audience::On(&[Page::Overview]), html! { "No recent decisions." });
    Region::rows("pool-events", here, EVENT_COLUMNS, events.iter().map(row), &empty, None)
}

/// The pool with the highest share of units in use, then with the most waiting requests; the first of equals.
pub(super) async fn busiest(
    tx: &mut Tx,
    pools: &[PoolLevel],
    now: Timestamp,
) -> Result<Option<(PoolName, Past)>, StoreError> {
    let by_load = |one: &&PoolLevel, other: &&PoolLevel| {
        one.level.percent().total_cmp(&other.level.percent()).then(one.waiting.cmp(&other.waiting))
    };
    let Some(pool) = pools.iter().rev().max_by(by_load) else { return Ok(None) };
    let name = pool.settings.name.clone();
    let past = Past::read(tx, &name, Range::Day, now).await?;
    Ok(Some((name, past)))
}

pub(crate) fn graph_region(state: &State, busiest: Option<&(PoolName, Past)>, times: &Times) -> Region {
    let markup = html! {
        div data-live="pool-graph" {
            @if let Some((name, past)) = busiest {
                h3 { "Busiest pool in the last 24 h: " a href=(state.path(&format!("/pools/{name}"))) { (name) } }
                div.body { (graph::figure(past, times)) }
            }
        }
    };
    Region::whole("pool-graph", Audience::On(&[Page::Overview]), markup)
}

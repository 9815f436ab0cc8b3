//! The list of pools: the state of each, a bar with its units in use, and the form for a new one.

use super::create;
use super::order::{self, PoolNotice};
use crate::api::QueryString;
use crate::dashboard::form::RefusedForm;
use crate::dashboard::part::{Health, command, number, panel, plain_panel, state as state_word, table};
use crate::dashboard::{
    Buttons, Frame, Page, PageContext, PageResult, PageSnapshot, Region, Row, Section, Times,
};
use crate::state::State;
use maud::{Markup, html};
use tidemill_domain::access::Permission;
use tidemill_domain::pool::command::Level;
use tidemill_domain::pool::{Breaker, Settings};
use tidemill_store::pool::PoolLevel;

/// Maximum number of pools on the page, by name.
pub(crate) const SHOWN: u32 = 200;

const COLUMNS: &[&str] =
    &["State", "Pool", "In use", "#Capacity", "#Holders", "#Waiting", "Oldest wait", "Policy", "Action"];

/// What all rows need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowContext<'a> {
    pub(crate) state: &'a State,
    pub(crate) times: &'a Times,
    pub(crate) buttons: Buttons,
}

pub(crate) async fn page(visit: PageContext, QueryString(notice): QueryString<PoolNotice>) -> PageResult {
    show(&visit, &notice, None).await
}

/// The page; `refused` is a new pool that was refused.
pub(super) async fn show(
    visit: &PageContext,
    notice: &PoolNotice,
    refused: Option<&RefusedForm>,
) -> PageResult {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let pools = tx.pools().levels(SHOWN + 1).await?;
    let refusal = visit.refusal(Permission::Operate);
    let (times, buttons) = (visit.times(common.now), Buttons::unless(refusal.as_deref()));
    let body = region(&RowContext { state: &visit.state, times: &times, buttons }, &pools);
    let aside = html! {
        a href="#create" { "New pool" }
        @if let Some(reason) = &refusal { span.soft { "You cannot pause or resume pools: " (reason) } }
    };
    let content = html! {
        h1 { "Pools" }
        (order::done(visit, notice, pools.iter().map(|pool| &pool.settings), "/pools"))
        (order::form(visit, "/pools"))
        (panel("pools", "Pools", &aside, &html! {
            (table("Pools", COLUMNS, &body.markup()))
            p.body.soft {
                "The bar shows units in use; the percentage is of the limit. At the command line: "
                (command("tidemill pool list")) " " (command("tidemill pool pause NAME --reason WHY"))
            }
        }))
        (plain_panel("create", "New pool", &create::form(visit, refused)))
    };
    Ok(Frame::new(visit, &common, Section::Pools).live(Page::Pools(buttons)).render(&content))
}

pub(crate) fn region(context: &RowContext<'_>, pools: &[PoolLevel]) -> Region {
    let rows = pools.iter().take(SHOWN as usize).map(|pool| Row::of(name(pool), &cells(context, pool)));
    let note =
        (pools.len() > SHOWN as usize).then(|| html! { "The first " (SHOWN) " pools by name are shown." });
    Region::rows_at(&Page::Pools(context.buttons), "pools", COLUMNS, rows, &no_pools(context.state), note)
}

pub(crate) fn no_pools(state: &State) -> Markup {
    html! {
        "No pools yet. Create one: " a href=(state.path("/pools#create")) { "New pool" } " or "
        (command("tidemill pool create NAME --max 40"))
    }
}

pub(crate) fn name(pool: &PoolLevel) -> String {
    format!("pool:{}", pool.settings.name)
}

/// The first cells of a row, here and on the overview: state, name, bar, capacity, holders and waiting requests.
pub(crate) fn first_cells(state: &State, pool: &PoolLevel) -> Markup {
    let (level, settings) = (pool.level, &pool.settings);
    html! {
        td { (pool_state(settings, &pool.breaker, level, pool.suspect, pool.waiting)) }
        th.long scope="row" {
            a href=(state.path(&format!("/pools/{}", settings.name))) { (settings.name) }
            @if let Some(id) = settings.external_id { " " span.soft { "(" (id) ")" } }
        }
        td.still {
            (bar(level, None)) " " (number(level.usage)) " of " (number(level.limit))
            @if level.limit > 0 { (format!(" ({:.0} %)", level.percent_of_limit())) }
        }
        td.number { (number(level.max_units.into())) }
        td.number { (number(pool.active)) }
        td.number { (number(pool.waiting)) }
    }
}

fn cells(context: &RowContext<'_>, pool: &PoolLevel) -> Markup {
    let times = context.times;
    html! {
        (first_cells(context.state, pool))
        td {
            (times.maybe_length((pool.waiting > 0).then(|| times.now().minus(pool.oldest_wait)), "none"))
        }
        td { (pool.settings.policy) }
        td { (order::button(context.state, context.buttons, &pool.settings)) }
    }
}

/// The bar as wide as its container. `peak` marks the highest usage.
pub(crate) fn bar(level: Level, peak: Option<u64>) -> Markup {
    let whole = u64::from(level.max_units).max(level.usage).max(peak.unwrap_or(0)).max(1);
    let part = |units: u64| percent(units, whole);
    let within = level.usage.min(level.limit);
    html! {
        svg.level viewBox="0 0 100 10" preserveAspectRatio="none" role="img" {
            title {
                (level.usage) " of " (level.max_units) " units in use, limit " (level.limit)
                @if let Some(peak) = peak { ", peak " (peak) }
            }
            rect.all width="100" height="10" {}
            rect.used width=(part(within)) height="10" {}
            @if level.over_by() > 0 {
                rect.over x=(part(level.limit)) width=(part(level.over_by())) height="10" {}
            }
            @if level.limit < whole {
                line.limit x1=(part(level.limit)) x2=(part(level.limit)) y1="0" y2="10" {}
            }
            @if let Some(peak) = peak {
                line.peak x1=(part(peak)) x2=(part(peak)) y1="0" y2="10" {}
            }
        }
    }
}

/// With two digits, which is finer than any screen.
fn percent(units: u64, whole: u64) -> String {
    let hundredths = u128::from(units) * 10_000 / u128::from(whole.max(1));
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

pub(crate) fn pool_state(
    settings: &Settings,
    breaker: &Breaker,
    level: Level,
    suspect: u64,
    waiting: u64,
) -> Markup {
    let over = format!("over by {}", level.over_by());
    let (health, word) = match () {
        () if settings.paused.is_some() && level.over_by() == 0 => (Health::Idle, "paused"),
        () if breaker.is_open() => (Health::Bad, "breaker open"),
        () if level.over_by() > 0 => (Health::Bad, over.as_str()),
        () if suspect > 0 => (Health::Warn, "suspect leases"),
        () if waiting > 0 => (Health::Warn, "requests waiting"),
        () => (Health::Ok, "open"),
    };
    html! {
        (state_word(health, word))
        @if level.over_by() > 0 && settings.paused.is_some() { br; (state_word(Health::Idle, "paused")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(usage: u64, limit: u64, max_units: u32, expected: &[&str]) {
        let markup = bar(Level { usage, limit, max_units }, None).into_string();
        for text in expected {
            assert!(markup.contains(text), "{text} is not in {markup}");
        }
    }

    #[test]
    fn the_bar_has_what_is_in_use_and_where_the_limit_is() {
        check(16, 19, 20, &["used\" width=\"80.00\"", "x1=\"95.00\"", "16 of 20 units in use, limit 19"]);
        check(0, 0, 0, &["used\" width=\"0.00\"", "limit"]);
        check(19, 19, 20, &["used\" width=\"95.00\""]);
    }

    #[test]
    fn what_is_in_use_beyond_the_limit_is_not_cut_off() {
        check(32, 19, 20, &["used\" width=\"59.37\"", "over\" x=\"59.37\" width=\"40.62\""]);
    }
}

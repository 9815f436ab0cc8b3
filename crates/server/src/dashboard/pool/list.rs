//! The list of pools.

use super::bar::{bar, pool_state};
use super::order::{self, PoolNotice};
use crate::api::QueryString;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::instant::Times;
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{command, empty_row, number, panel, wide_table};
use crate::dashboard::region::{Audience, Buttons, Page, Region, Row};
use crate::problem::Problem;
use crate::state::State;
use axum::response::Html;
use maud::{Markup, html};
use tidemill_domain::access::Permission;
use tidemill_store::pool::PoolLevel;

/// Maximum number of pools on the page, by name.
pub(crate) const SHOWN: u32 = 200;

/// The columns, and whether they hold numbers.
const COLUMNS: &[(&str, bool)] = &[
    ("State", false),
    ("Pool", false),
    ("In use / limit", false),
    ("Capacity", true),
    ("Waiting", true),
    ("Oldest wait", false),
    ("Policy", false),
    ("Action", false),
];

/// What all rows need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowContext<'a> {
    pub(crate) state: &'a State,
    pub(crate) times: &'a Times,
    pub(crate) buttons: Buttons,
}

pub(crate) async fn page(
    visit: PageContext,
    QueryString(notice): QueryString<PoolNotice>,
) -> Result<Html<String>, Problem> {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let pools = tx.pools().levels(SHOWN + 1).await?;
    let (times, buttons) = (visit.times(common.now), visit.buttons(Permission::Operate));
    let body = region(&RowContext { state: &visit.state, times: &times, buttons }, &pools);
    let refusal = visit.refusal(Permission::Operate);
    let aside = html! {
        @if let Some(reason) = &refusal { span.soft { "You cannot pause or resume pools: " (reason) } }
    };
    let content = html! {
        h1 { "Pools" }
        (order::done(&visit, &notice, pools.iter().map(|pool| &pool.settings), "/pools"))
        (order::form(&visit, "/pools"))
        (panel("pools", "Pools", &aside, &html! {
            (wide_table("Pools", COLUMNS, &body.markup()))
            p.body.soft {
                "The bar shows units in use. At the command line: "
                (command("tidemill pool list")) " " (command("tidemill pool pause NAME --reason WHY"))
            }
        }))
    };
    let page = Page::Pools(buttons);
    let frame = Frame { visit: &visit, common: &common, section: Section::Pools, title: None, page };
    Ok(frame.render(&content))
}

pub(crate) fn region(context: &RowContext<'_>, pools: &[PoolLevel]) -> Region {
    let page = Page::Pools(context.buttons);
    let shown = pools.iter().take(SHOWN as usize);
    let rows = shown.map(|pool| Row::new(name(pool), row(context, pool))).collect();
    let below = html! {
        @if pools.len() > SHOWN as usize {
            tr { td.soft colspan=(COLUMNS.len()) { "The first " (SHOWN) " pools by name are shown." } }
        }
    };
    let name = format!("pools@{}", page.word());
    Region::table_body(&name, Audience::At(page), rows, empty_row(COLUMNS.len(), &no_pools()), below)
}

pub(crate) fn no_pools() -> Markup {
    html! { "No pools yet. Create one: " (command("tidemill pool create NAME --max 40")) }
}

pub(crate) fn name(pool: &PoolLevel) -> String {
    format!("pool:{}", pool.settings.name)
}

/// The first cells of a row, here and on the overview: state, name, bar and capacity.
pub(crate) fn first_cells(state: &State, pool: &PoolLevel) -> Markup {
    let (level, settings) = (pool.level, &pool.settings);
    html! {
        td { (pool_state(settings, level, pool.suspect, pool.waiting)) }
        th.long scope="row" {
            a href=(state.path(&format!("/pools/{}", settings.name))) { (settings.name) }
            @if let Some(id) = settings.external_id { " " span.soft { "(" (id) ")" } }
        }
        td.still { (bar(level, None)) " " (number(level.usage)) " / " (number(level.limit)) }
        td.number { (number(level.max_units.into())) }
    }
}

fn row(context: &RowContext<'_>, pool: &PoolLevel) -> Markup {
    let times = context.times;
    html! {
        tr data-live=(name(pool)) {
            (first_cells(context.state, pool))
            td.number { (number(pool.waiting)) }
            td {
                @if pool.waiting > 0 {
                    (times.length(times.now().minus(pool.oldest_wait)))
                } @else { span.soft { "none" } }
            }
            td { (pool.settings.policy) }
            td { (order::button(context.state, context.buttons, &pool.settings)) }
        }
    }
}

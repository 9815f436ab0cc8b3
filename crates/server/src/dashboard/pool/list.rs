//! The list of pools.

use super::bar::{bar, pool_state};
use super::order::{self, PoolNotice};
use crate::api::QueryString;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::instant::Times;
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{command, number, panel, table};
use crate::dashboard::region::{Buttons, Page, Region, Row};
use crate::problem::Problem;
use crate::state::State;
use axum::response::Html;
use maud::{Markup, html};
use tidemill_domain::access::Permission;
use tidemill_store::pool::PoolLevel;

/// Maximum number of pools on the page, by name.
pub(crate) const SHOWN: u32 = 200;

const COLUMNS: &[&str] =
    &["State", "Pool", "In use / limit", "#Capacity", "#Waiting", "Oldest wait", "Policy", "Action"];

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
            (table("Pools", COLUMNS, &body.markup()))
            p.body.soft {
                "The bar shows units in use. At the command line: "
                (command("tidemill pool list")) " " (command("tidemill pool pause NAME --reason WHY"))
            }
        }))
    };
    Ok(Frame::new(&visit, &common, Section::Pools).live(Page::Pools(buttons)).render(&content))
}

pub(crate) fn region(context: &RowContext<'_>, pools: &[PoolLevel]) -> Region {
    let rows = pools.iter().take(SHOWN as usize).map(|pool| Row::of(name(pool), &cells(context, pool)));
    let note =
        (pools.len() > SHOWN as usize).then(|| html! { "The first " (SHOWN) " pools by name are shown." });
    Region::rows_at(&Page::Pools(context.buttons), "pools", COLUMNS, rows, &no_pools(), note)
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

fn cells(context: &RowContext<'_>, pool: &PoolLevel) -> Markup {
    let times = context.times;
    html! {
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

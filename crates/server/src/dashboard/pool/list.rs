//! All pools: how full each is, who waits, and the button that pauses it.

use super::bar::{bar, standing};
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

/// Pools that are shown, by name.
pub(crate) const SHOWN: u32 = 200;

/// What the columns are called, and whether they are of numbers.
const COLUMNS: &[(&str, bool)] = &[
    ("State", false),
    ("Pool", false),
    ("In use / limit", false),
    ("Of", true),
    ("Waiting", true),
    ("Oldest wait", false),
    ("Policy", false),
    ("Action", false),
];

/// What rows have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    pub(crate) state: &'a State,
    pub(crate) times: &'a Times,
    pub(crate) buttons: Buttons,
}

pub(crate) async fn page(
    visit: PageContext,
    QueryString(told): QueryString<PoolNotice>,
) -> Result<Html<String>, Problem> {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let pools = tx.pools().levels(SHOWN + 1).await?;
    let (times, buttons) = (visit.times(common.now), visit.buttons(Permission::Operate));
    let look = Look { state: &visit.state, times: &times, buttons };
    let body = region(&look, &pools);
    let refusal = visit.refusal(Permission::Operate);
    let aside = html! {
        @if let Some(reason) = &refusal { span.soft { "Pools cannot be paused or resumed here: " (reason) } }
    };
    let content = html! {
        h1 { "Pools" }
        (order::done(&visit, &told, pools.iter().map(|pool| &pool.settings), "/pools"))
        (order::form(&visit, "/pools"))
        (panel("pools", "Pools", &aside, &html! {
            (wide_table("Pools", COLUMNS, &body.markup()))
            p.body.soft {
                "The bar has only what is in use; who waits is counted beside it. At the command line: "
                (command("tidemill pool list")) " " (command("tidemill pool pause NAME --reason WHY"))
            }
        }))
    };
    let page = Page::Pools(buttons);
    let frame = Frame { visit: &visit, common: &common, section: Section::Pools, title: None, page };
    Ok(frame.render(&content))
}

pub(crate) fn region(look: &Look<'_>, pools: &[PoolLevel]) -> Region {
    let page = Page::Pools(look.buttons);
    let shown = pools.iter().take(SHOWN as usize);
    let rows = shown.map(|pool| Row::new(name(pool), row(look, pool))).collect();
    let text = html! { "There are no pools yet. Make one: " (command("tidemill pool create NAME --max 40")) };
    let below = html! {
        @if pools.len() > SHOWN as usize {
            tr { td.soft colspan=(COLUMNS.len()) { "The first " (SHOWN) ", by name; there are more." } }
        }
    };
    let name = format!("pools@{}", page.word());
    Region::table_body(&name, Audience::At(page), rows, empty_row(COLUMNS.len(), &text), below)
}

fn name(pool: &PoolLevel) -> String {
    format!("pool:{}", pool.settings.name)
}

fn row(look: &Look<'_>, pool: &PoolLevel) -> Markup {
    let (level, settings) = (pool.level, &pool.settings);
    html! {
        tr data-live=(name(pool)) {
            td { (standing(settings, level, pool.suspect, pool.waiting)) }
            th.long scope="row" {
                a href=(look.state.path(&format!("/pools/{}", settings.name))) { (settings.name) }
                @if let Some(id) = settings.external_id { " " span.soft { "(" (id) ")" } }
            }
            td.still { (bar(level, None)) " " (number(level.usage)) " / " (number(level.limit)) }
            td.number { (number(level.max_units.into())) }
            td.number { (number(pool.waiting)) }
            td {
                @if pool.waiting > 0 {
                    (look.times.length(look.times.now().minus(pool.oldest_wait)))
                } @else { span.soft { "none" } }
            }
            td { (settings.policy) }
            td { (order::button(look.state, look.buttons, settings)) }
        }
    }
}

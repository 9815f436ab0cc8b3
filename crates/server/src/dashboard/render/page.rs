//! The list of renders. It is live without a filter or with a status only; search results are not.

use super::board::{Board, PAGE_ROWS, RenderSummary, regions};
use super::filter::RenderQuery;
use super::row::{Ahead, COLUMNS, RowContext, row};
use crate::api::QueryString;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{empty_row, pager, panel, table};
use crate::dashboard::region::{Buttons, Page, show};
use crate::problem::Problem;
use axum::response::Html;
use maud::{Markup, html};
use std::collections::HashMap;
use tidemill_domain::access::Permission;
use tidemill_domain::render::{RenderId, Status};
use tidemill_store::render::list::SEARCHED_MAX;
use tidemill_store::render::{RenderRecord, RenderSearch};
use tidemill_store::{StoreError, Tx};

/// Search results show their place in the queue if it is one of the first.
const PLACED_MAX: u32 = 200;

pub(crate) async fn page(
    visit: PageContext,
    QueryString(query): QueryString<RenderQuery>,
) -> Result<Html<String>, Problem> {
    let status = query.status()?;
    let refusal = visit.refusal(Permission::Operate);
    let buttons = Buttons::unless(refusal.as_deref());
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let summary = RenderSummary::read(&mut tx).await?;
    let times = visit.times(common.now);
    let context = summary.context(&visit.state, &times, buttons, &visit.address);
    let (live, content) = if query.is_plain() {
        let board = Board::read(&mut tx, status).await?;
        let regions = regions(&context, &summary, &board);
        let content = Content {
            chips: show(&regions, "chips"),
            banner: show(&regions, "banner"),
            rows: html! { @for part in ["at-work", "waiting", "ended"] { (show(&regions, part)) } },
            below: pages(&visit, &query, board.next().map(RenderRecord::id), &html! {}),
        };
        (Page::Renders(status, buttons), content)
    } else {
        let results = SearchResults::read(&mut tx, &query).await?;
        let content = Content {
            chips: html! { nav.chips aria-label="Statuses" { (summary.chips(&visit.state, &query, status)) } },
            banner: summary.banner(&visit.state),
            rows: results.rows(&context),
            below: results.below(&visit, &query),
        };
        (Page::Other, content)
    };
    let markup = html! {
        h1 { "Renders" }
        (tabs(&visit, "/render"))
        (content.banner)
        (content.chips)
        section.panel aria-label="Filter" { (filter_form(&visit, &query)) }
        (panel("renders", "Renders", &off(refusal.as_deref()), &html! {
            (table("Renders", COLUMNS, &content.rows))
            (content.below)
        }))
    };
    Ok(Frame::new(&visit, &common, Section::Render).live(live).render(&markup))
}

/// The parts that differ between the live list and search results.
struct Content {
    chips: Markup,
    banner: Markup,
    rows: Markup,
    below: Markup,
}

/// Why the buttons are disabled. The buttons refer to it by its id.
pub(crate) fn off(refusal: Option<&str>) -> Markup {
    html! {
        @if let Some(reason) = refusal {
            span.soft #buttons-off { "Buttons are disabled. " (reason) }
        }
    }
}

pub(crate) fn tabs(visit: &PageContext, here: &str) -> Markup {
    html! {
        nav.chips aria-label="Pages about renders" {
            @for (path, word) in [("/render", "Renders"), ("/render/workers", "Workers"), ("/render/profiles", "Profiles"), ("/render/mappings", "Mappings")] {
                a href=(visit.state.path(path)) aria-current=[(path == here).then_some("page")] { (word) }
            }
        }
    }
}

fn filter_form(visit: &PageContext, query: &RenderQuery) -> Markup {
    let address = visit.state.path("/render");
    html! {
        form.body method="get" action=(address) {
            // The chips above choose the status.
            @if !query.status.trim().is_empty() { input type="hidden" name="status" value=(query.status); }
            div.fields {
                label { "Composition" input name="composition" value=(query.composition) autocomplete="off"; }
                label {
                    "Text"
                    input name="text" value=(query.text) placeholder="in the composition, cue or error" autocomplete="off";
                }
                label { "Broadcast date" input name="date" type="date" value=(query.date); }
                div.row { button.do { "Show" } " " a href=(address) { "Clear" } }
            }
        }
    }
}

/// Links to the newest page and to the page before this render.
fn pages(visit: &PageContext, query: &RenderQuery, before: Option<RenderId>, note: &Markup) -> Markup {
    let address = |more: &str| format!("{}{}", visit.state.path("/render"), query.query(&query.status, more));
    let newest = (!query.is_first()).then(|| address(""));
    pager(newest, before.map(|id| address(&format!("before={id}"))), note)
}

struct SearchResults {
    at_work: Vec<RenderRecord>,
    others: RenderSearch,
    has_more: bool,
    /// How many renders are ahead of each one in the queue.
    ahead: HashMap<RenderId, u64>,
}

impl SearchResults {
    async fn read(tx: &mut Tx, query: &RenderQuery) -> Result<Self, Problem> {
        let filter = query.filter()?;
        let mut others = tx.renders().search(&filter, query.text(), query.before(), PAGE_ROWS + 1).await?;
        let shown = usize::try_from(PAGE_ROWS).unwrap_or(usize::MAX);
        let has_more = others.records.len() > shown;
        others.records.truncate(shown);
        let mut at_work = Vec::new();
        if filter.status.is_none() {
            // Active renders are at the top of the first page and nowhere else.
            if query.is_first() {
                at_work = tx.renders().at_work(PLACED_MAX).await?;
                at_work.retain(|record| query.meets(record, &filter));
            }
            let is_above = |record: &RenderRecord| at_work.iter().any(|other| other.id() == record.id());
            others.records.retain(|record| !is_above(record));
        }
        let ahead = if others.records.iter().any(|record| record.render.status == Status::Pending) {
            ahead(tx).await?
        } else {
            HashMap::new()
        };
        Ok(Self { at_work, others, has_more, ahead })
    }

    fn rows(&self, context: &RowContext<'_>) -> Markup {
        let records = || self.at_work.iter().chain(&self.others.records);
        let rows = records().map(|record| {
            let ahead = self.ahead.get(&record.id());
            row(
                context,
                record,
                ahead.map_or(Ahead::MoreThan(PLACED_MAX.into()), |ahead| Ahead::Exactly(*ahead)),
            )
        });
        html! {
            tbody {
                @if records().next().is_none() {
                    (empty_row(COLUMNS.len(), &html! { "No renders match." }))
                }
                @for row in rows { (maud::PreEscaped(row.html)) }
            }
        }
    }

    fn below(&self, visit: &PageContext, query: &RenderQuery) -> Markup {
        let last = self.others.records.last().filter(|_| self.has_more).map(RenderRecord::id);
        // A search stops after some renders, so there can be older matches without a full page.
        let before = last.or(self.others.searched_to);
        let note = html! {
            @if last.is_none() && self.others.searched_to.is_some() {
                span.soft { "Searched " (SEARCHED_MAX) " renders. There are older ones." }
            }
            span.soft { "Search results do not update themselves." }
        };
        pages(visit, query, before, &note)
    }
}

async fn ahead(tx: &mut Tx) -> Result<HashMap<RenderId, u64>, StoreError> {
    let now = tx.now().await?;
    let (mut ahead, mut before) = (HashMap::new(), 0);
    for record in tx.renders().waiting(PLACED_MAX).await? {
        ahead.insert(record.id(), before);
        before += u64::from(record.render.run_after <= now);
    }
    Ok(ahead)
}

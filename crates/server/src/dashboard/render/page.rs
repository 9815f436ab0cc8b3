//! The page of the renders. Without conditions, or with a status only, it changes by itself; what is searched for is shown
//! as it was when somebody asked.

use super::board::{Board, PAGE_ROWS, Regions, Whole};
use super::filter::RenderQuery;
use super::row::{Ahead, COLUMNS, Look, row};
use crate::api::QueryString;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{empty_row, panel, table};
use crate::dashboard::region::{Buttons, Page};
use crate::problem::Problem;
use axum::response::Html;
use maud::{Markup, html};
use std::collections::HashMap;
use tidemill_domain::access::Permission;
use tidemill_domain::render::{RenderId, Status};
use tidemill_store::render::list::SEARCHED_MAX;
use tidemill_store::render::{FoundRenders, RenderRecord};
use tidemill_store::{StoreError, Tx};

/// So far the place in the queue of what was found is looked for.
const PLACED_MAX: u32 = 200;

pub(crate) async fn page(
    visit: PageContext,
    QueryString(wanted): QueryString<RenderQuery>,
) -> Result<Html<String>, Problem> {
    let status = wanted.status()?;
    let refusal = visit.refusal(Permission::Operate);
    let buttons = Buttons::unless(refusal.as_deref());
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let whole = Whole::read(&mut tx).await?;
    let times = visit.times(common.now);
    let look = whole.look(&visit.state, &times, buttons, &visit.address);
    let (live, content) = if wanted.is_plain() {
        let board = Board::read(&mut tx, status).await?;
        let regions = Regions::new(&look, &whole, &board);
        let rows = html! { @for body in &regions.bodies { (body.markup()) } };
        let older = board.next().map(|last| wanted.query(&wanted.status, &format!("before={}", last.id())));
        let content = Content {
            chips: regions.chips.markup(),
            banner: regions.banner.markup(),
            rows,
            below: pages(&visit, &wanted, older.as_deref(), &html! {}),
        };
        (Page::Renders(status, buttons), content)
    } else {
        let found = RenderLists::read(&mut tx, &wanted).await?;
        let content = Content {
            chips: html! { nav.chips aria-label="Statuses" { (whole.chips(&visit.state, &wanted, status)) } },
            banner: whole.banner(&visit.state),
            rows: found.rows(&look),
            below: found.below(&visit, &wanted),
        };
        (Page::Other, content)
    };
    let markup = html! {
        h1 { "Render" }
        (tabs(&visit, "/render"))
        (content.banner)
        (content.chips)
        section.panel aria-label="Filter" { (filter_form(&visit, &wanted)) }
        (panel("renders", "Renders", &off(refusal.as_deref()), &html! {
            (table("Renders", COLUMNS, &content.rows))
            (content.below)
        }))
    };
    let frame = Frame { visit: &visit, common: &common, section: Section::Render, title: None, page: live };
    Ok(frame.render(&markup))
}

/// What differs between a page that changes by itself and one that does not.
struct Content {
    chips: Markup,
    banner: Markup,
    rows: Markup,
    below: Markup,
}

/// Why the buttons are off, where they are; the buttons refer to it.
pub(crate) fn off(refusal: Option<&str>) -> Markup {
    html! {
        @if let Some(reason) = refusal {
            span.soft #buttons-off { "Buttons are off. " (reason) }
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

fn filter_form(visit: &PageContext, wanted: &RenderQuery) -> Markup {
    let address = visit.state.path("/render");
    html! {
        form.body method="get" action=(address) {
            // The status is chosen above.
            @if !wanted.status.trim().is_empty() { input type="hidden" name="status" value=(wanted.status); }
            div.fields {
                label { "Composition" input name="composition" value=(wanted.composition) autocomplete="off"; }
                label {
                    "Text"
                    input name="text" value=(wanted.text) placeholder="in the composition, cue or error" autocomplete="off";
                }
                label { "Day of the broadcast" input name="date" type="date" value=(wanted.date); }
                div.row { button.do { "Show" } " " a href=(address) { "Everything" } }
            }
        }
    }
}

fn pages(visit: &PageContext, wanted: &RenderQuery, older: Option<&str>, note: &Markup) -> Markup {
    let address = visit.state.path("/render");
    html! {
        div.row.body {
            @if !wanted.is_first() { a.button href={ (address) (wanted.query(&wanted.status, "")) } { "Newest" } }
            @if let Some(older) = older { a.button href={ (address) (older) } { "Older" } }
            (note)
        }
    }
}

struct RenderLists {
    at_work: Vec<RenderRecord>,
    others: FoundRenders,
    has_more: bool,
    /// How many are before each of the first that wait.
    ahead: HashMap<RenderId, u64>,
}

impl RenderLists {
    async fn read(tx: &mut Tx, wanted: &RenderQuery) -> Result<Self, Problem> {
        let filter = wanted.filter()?;
        let mut others = tx.renders().search(&filter, wanted.text(), wanted.before(), PAGE_ROWS + 1).await?;
        let shown = usize::try_from(PAGE_ROWS).unwrap_or(usize::MAX);
        let has_more = others.records.len() > shown;
        others.records.truncate(shown);
        let mut at_work = Vec::new();
        if filter.status.is_none() {
            // What is at work is on top of the first page, and nowhere else.
            if wanted.is_first() {
                at_work = tx.renders().at_work(PLACED_MAX).await?;
                at_work.retain(|record| wanted.meets(record, &filter));
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

    fn rows(&self, look: &Look<'_>) -> Markup {
        let records = || self.at_work.iter().chain(&self.others.records);
        let rows = records().map(|record| {
            let ahead = self.ahead.get(&record.id());
            row(
                look,
                record,
                ahead.map_or(Ahead::MoreThan(PLACED_MAX.into()), |ahead| Ahead::Exactly(*ahead)),
            )
        });
        html! {
            tbody {
                @if records().next().is_none() {
                    (empty_row(COLUMNS.len(), &html! { "No render is like this." }))
                }
                @for row in rows { (maud::PreEscaped(row.html)) }
            }
        }
    }

    fn below(&self, visit: &PageContext, wanted: &RenderQuery) -> Markup {
        let last = self.others.records.last().filter(|_| self.has_more).map(RenderRecord::id);
        // Where nothing more was found, older ones may not have been looked at.
        let before = last.or(self.others.searched_to);
        let older = before.map(|id| wanted.query(&wanted.status, &format!("before={id}")));
        let note = html! {
            @if last.is_none() && self.others.searched_to.is_some() {
                span.soft { (SEARCHED_MAX) " renders were looked at; there are older ones." }
            }
            span.soft { "What was searched for does not change by itself." }
        };
        pages(visit, wanted, older.as_deref(), &note)
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

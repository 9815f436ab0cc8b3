//! Live regions: the parts of pages that update themselves. One function renders a region for the page and for its live
//! patch. Both carry the region's name in `data-live`, so that the script finds what to replace.

use crate::dashboard::execution::ExecutionsView;
use crate::dashboard::job::JobsView;
use crate::dashboard::part::empty_row;
use crate::dashboard::pool::PoolPage;
use maud::{Markup, PreEscaped, html};
use tidemill_domain::job::ExecutionId;
use tidemill_domain::render::{RenderId, Status};

/// A page with its own live updates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Page {
    Overview,
    Jobs(JobsView),
    /// Executions: of all jobs, or of one.
    Executions(ExecutionsView),
    Execution(ExecutionId),
    Pools(Buttons),
    Pool(PoolPage, Buttons),
    Outbox,
    FailedEvents,
    Alerts,
    /// All renders, or those in one status.
    Renders(Option<Status>, Buttons),
    Render(RenderId, Buttons),
    RenderBatch(RenderId, Buttons),
    RenderWorkers,
    Settings,
    /// Any other page: only the frame is live.
    Other,
}

tidemill_domain::words! {
    /// Whether the buttons of a page are enabled. A live patch goes to many visitors, so there is one for each case.
    #[derive(PartialOrd, Ord)]
    pub enum Buttons {
        On = "on",
        Off = "off",
    }
}

impl Buttons {
    pub(crate) const fn unless(refusal: Option<&str>) -> Self {
        if refusal.is_none() { Self::On } else { Self::Off }
    }
}

impl Page {
    /// The page in addresses.
    pub fn word(&self) -> String {
        match self {
            Self::Overview => "overview".to_owned(),
            Self::Jobs(view) => format!("jobs:{}", view.word()),
            Self::Executions(view) => format!("executions:{}", view.word()),
            Self::Execution(id) => format!("execution:{id}"),
            Self::Pools(buttons) => format!("pools:{}", buttons.as_str()),
            Self::Pool(page, buttons) => format!("pool:{page}:{}", buttons.as_str()),
            Self::Outbox => "outbox".to_owned(),
            Self::FailedEvents => "failed".to_owned(),
            Self::Alerts => "alerts".to_owned(),
            Self::Renders(status, buttons) => {
                format!("renders:{}:{}", status.map_or("all", Status::as_str), buttons.as_str())
            }
            Self::Render(id, buttons) => format!("render:{id}:{}", buttons.as_str()),
            Self::RenderBatch(id, buttons) => format!("render-batch:{id}:{}", buttons.as_str()),
            Self::RenderWorkers => "render-workers".to_owned(),
            Self::Settings => "settings".to_owned(),
            Self::Other => "other".to_owned(),
        }
    }

    /// The page of a [`word`](Self::word); `Other` if it is unknown.
    pub fn of_word(word: &str) -> Self {
        match word.split_once(':').unwrap_or((word, "")) {
            ("overview", "") => Self::Overview,
            ("alerts", "") => Self::Alerts,
            ("outbox", "") => Self::Outbox,
            ("failed", "") => Self::FailedEvents,
            ("render-workers", "") => Self::RenderWorkers,
            ("settings", "") => Self::Settings,
            ("executions", view) => ExecutionsView::of_word(view).map_or(Self::Other, Self::Executions),
            ("jobs", view) => Self::Jobs(JobsView::of_word(view)),
            ("execution", id) => id.parse().map_or(Self::Other, |id| Self::Execution(ExecutionId::new(id))),
            _ => Self::with_buttons(word).unwrap_or(Self::Other),
        }
    }

    fn with_buttons(word: &str) -> Option<Self> {
        let (rest, buttons) = word.rsplit_once(':')?;
        let buttons = buttons.parse().ok()?;
        match rest.split_once(':').unwrap_or((rest, "")) {
            ("pools", "") => Some(Self::Pools(buttons)),
            ("pool", of) => Some(Self::Pool(PoolPage::of_word(of)?, buttons)),
            ("renders", "all") => Some(Self::Renders(None, buttons)),
            ("renders", status) => Some(Self::Renders(Some(status.parse().ok()?), buttons)),
            ("render", id) => Some(Self::Render(RenderId::new(id.parse().ok()?), buttons)),
            ("render-batch", id) => Some(Self::RenderBatch(RenderId::new(id.parse().ok()?), buttons)),
            _ => None,
        }
    }

    /// Whether its regions are rendered only while a visitor has the page open.
    pub fn is_particular(&self) -> bool {
        !matches!(self, Self::Overview | Self::Alerts | Self::Settings | Self::Other)
    }
}

/// Which pages have a region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Audience {
    Everywhere,
    On(&'static [Page]),
    /// Only this page. Another page may have a region of the same name.
    At(Page),
}

impl Audience {
    pub fn includes(&self, page: &Page) -> bool {
        match self {
            Self::Everywhere => true,
            Self::On(pages) => pages.contains(page),
            Self::At(one) => one == page,
        }
    }
}

/// A rendered region. A region with rows changes row by row: each row is a region too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    pub name: String,
    pub audience: Audience,
    /// The HTML before the rows, or all of it.
    pub opening: String,
    pub rows: Vec<Row>,
    pub closing: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    pub name: String,
    pub html: String,
}

impl Region {
    /// A region that changes as a whole.
    pub(crate) fn whole(name: &str, audience: Audience, markup: Markup) -> Self {
        let (opening, closing) = (markup.into_string(), String::new());
        Self { name: name.to_owned(), audience, opening, rows: Vec::new(), closing }
    }

    /// A region that only `page` has; `markup` gets the name for its `data-live`.
    pub(crate) fn at(page: &Page, what: &str, markup: impl FnOnce(&str) -> Markup) -> Self {
        let name = format!("{what}@{}", page.word());
        let markup = markup(&name);
        Self::whole(&name, Audience::At(page.clone()), markup)
    }

    /// The body of a live table: `empty` is the text without rows, `notes` are the texts below the last row.
    pub(crate) fn rows(
        name: &str,
        audience: Audience,
        columns: &[&str],
        rows: impl IntoIterator<Item = Row>,
        empty: &Markup,
        notes: impl IntoIterator<Item = Markup>,
    ) -> Self {
        let rows: Vec<Row> = rows.into_iter().collect();
        let tag = html! { tbody data-live=(name) {} }.into_string();
        let (opening, closing) = tag.split_at(tag.len() - "</tbody>".len());
        let stand_in = html! { @if rows.is_empty() { (empty_row(columns.len(), empty)) } }.into_string();
        let below = html! { @for note in notes { tr { td.soft colspan=(columns.len()) { (note) } } } };
        Self {
            name: name.to_owned(),
            audience,
            opening: format!("{opening}{stand_in}"),
            rows,
            closing: format!("{}{closing}", below.into_string()),
        }
    }

    /// [`rows`](Self::rows) of a table that only `page` has.
    pub(crate) fn rows_at(
        page: &Page,
        what: &str,
        columns: &[&str],
        rows: impl IntoIterator<Item = Row>,
        empty: &Markup,
        note: Option<Markup>,
    ) -> Self {
        let name = format!("{what}@{}", page.word());
        Self::rows(&name, Audience::At(page.clone()), columns, rows, empty, note)
    }

    /// Unique among the regions of all pages.
    pub fn key(&self) -> String {
        match &self.audience {
            Audience::Everywhere | Audience::On(_) => self.name.clone(),
            Audience::At(page) => format!("{} {}", page.word(), self.name),
        }
    }

    pub fn html(&self) -> String {
        let rows = self.rows.iter().map(|row| row.html.as_str());
        std::iter::once(&*self.opening).chain(rows).chain([&*self.closing]).collect()
    }

    pub(crate) fn markup(&self) -> Markup {
        PreEscaped(self.html())
    }
}

/// The region `what` of a page, as its `data-live` names it without the page; nothing if the page has no such region.
pub(crate) fn show(regions: &[Region], what: &str) -> Markup {
    let is_it = |region: &&Region| region.name.split('@').next() == Some(what);
    html! { @if let Some(region) = regions.iter().find(is_it) { (region.markup()) } }
}

impl Row {
    /// A row; `markup` carries the name as `data-live`.
    pub(crate) fn new(name: String, markup: Markup) -> Self {
        Self { name, html: markup.into_string() }
    }

    pub(crate) fn of(name: String, cells: &Markup) -> Self {
        let markup = html! { tr data-live=(name) { (cells) } };
        Self::new(name, markup)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_of_a_page_leads_back_to_it_and_any_other_to_none() {
        let of_pools = ["ADW:holders:1h", "a-b.c_9:queue:6h", "0:history:24h", "p:settings:24h"];
        let of_pools = of_pools.map(|text| PoolPage::of_word(text).unwrap());
        let simple = [
            Page::Overview,
            Page::Alerts,
            Page::Outbox,
            Page::FailedEvents,
            Page::RenderWorkers,
            Page::Execution(ExecutionId::new(8812)),
            Page::Executions(ExecutionsView::new("load", "FAILED", Some(3), Some(99))),
            Page::Settings,
            Page::Other,
        ];
        let all = simple.into_iter().chain(Buttons::ALL.into_iter().flat_map(|buttons| {
            let of_status = Status::ALL.map(|status| Page::Renders(Some(status), buttons));
            let others = [Page::Renders(None, buttons), Page::Render(RenderId::new(4711), buttons)];
            let pools = of_pools.clone().map(|page| Page::Pool(page, buttons));
            others.into_iter().chain(of_status).chain(pools).chain([Page::Pools(buttons)])
        }));
        for page in all {
            assert_eq!(Page::of_word(&page.word()), page);
        }
        for word in [
            "",
            "render",
            "render:x:on",
            "render:1:maybe",
            "renders:done:on",
            "renders:all",
            "a:b:c:d",
            "pools",
            "pools:maybe",
            "pool:ADW:on",
            "pool:a b:queue:1h:on",
            "pool:ADW:queue:9h:on",
            "executions:FAILED",
        ] {
            assert_eq!(Page::of_word(word), Page::Other, "{word:?}");
        }
    }
}

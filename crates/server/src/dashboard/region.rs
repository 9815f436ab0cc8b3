//! Regions: the parts of pages that change by themselves. The page and the live patch are rendered by the same
//! function, and both carry `data-live` with the region's name, by which the script finds what to replace.

use crate::dashboard::execution::ExecutionsView;
use crate::dashboard::job::JobsView;
use crate::dashboard::pool::PoolPage;
use maud::{Markup, PreEscaped, html};
use tidemill_domain::job::ExecutionId;
use tidemill_domain::render::{RenderId, Status};

/// A page, as far as live updates care.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Page {
    Overview,
    /// The jobs, as somebody wants to see them.
    Jobs(JobsView),
    /// Executions: of all jobs, or of one.
    Executions(ExecutionsView),
    Execution(ExecutionId),
    Pools(Buttons),
    Pool(PoolPage, Buttons),
    Outbox,
    /// Events that were not taken.
    FailedEvents,
    Alerts,
    /// The renders: all, or those of one status.
    Renders(Option<Status>, Buttons),
    Render(RenderId, Buttons),
    RenderWorkers,
    Settings,
    /// Any other: only what is around every page changes by itself.
    Other,
}

tidemill_domain::words! {
    /// Whether the buttons of a page can be used: what is sent to many is sent to those who may and to those who may not.
    #[derive(PartialOrd, Ord)]
    pub enum Buttons {
        On = "on",
        Off = "off",
    }
}

impl Buttons {
    /// On, unless there is a reason against it.
    pub(crate) const fn unless(refusal: Option<&str>) -> Self {
        if refusal.is_none() { Self::On } else { Self::Off }
    }
}

impl Page {
    /// The word in addresses.
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
            Self::RenderWorkers => "render-workers".to_owned(),
            Self::Settings => "settings".to_owned(),
            Self::Other => "other".to_owned(),
        }
    }

    /// The page of a word; what is not known has nothing of its own.
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
            ("pool", of) => Some(Self::Pool(of.parse().ok()?, buttons)),
            ("renders", "all") => Some(Self::Renders(None, buttons)),
            ("renders", status) => Some(Self::Renders(Some(status.parse().ok()?), buttons)),
            ("render", id) => Some(Self::Render(RenderId::new(id.parse().ok()?), buttons)),
            _ => None,
        }
    }

    /// Whether it is about something that most others are not about: then it is looked at only for those who are there.
    pub fn is_particular(&self) -> bool {
        !matches!(self, Self::Overview | Self::Alerts | Self::Settings | Self::Other)
    }
}

/// Which pages have a region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Audience {
    Everywhere,
    On(&'static [Page]),
    /// This one alone. Another page may have a region of the same name.
    At(Page),
}

impl Audience {
    /// Whether a page is among them.
    pub fn includes(&self, page: &Page) -> bool {
        match self {
            Self::Everywhere => true,
            Self::On(pages) => pages.contains(page),
            Self::At(one) => one == page,
        }
    }
}

/// A region as rendered. One with rows can change row by row: each row is a region too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    pub name: String,
    pub audience: Audience,
    /// What is before the rows, or all of it when there are none.
    pub opening: String,
    /// The rows by their names.
    pub rows: Vec<Row>,
    /// What is after the rows.
    pub closing: String,
}

/// A row of a region.
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

    /// A table's body. `without` stands in when there are no rows, `below` after the last.
    pub(crate) fn table_body(
        name: &str,
        audience: Audience,
        rows: Vec<Row>,
        without: Markup,
        below: Markup,
    ) -> Self {
        let tag = html! { tbody data-live=(name) {} }.into_string();
        let (opening, closing) = tag.split_at(tag.len() - "</tbody>".len());
        let stand_in = if rows.is_empty() { without.into_string() } else { String::new() };
        Self {
            name: name.to_owned(),
            audience,
            opening: format!("{opening}{stand_in}"),
            rows,
            closing: format!("{}{closing}", below.into_string()),
        }
    }

    /// What tells it from all others, those of the same name on other pages included.
    pub fn key(&self) -> String {
        match &self.audience {
            Audience::Everywhere | Audience::On(_) => self.name.clone(),
            Audience::At(page) => format!("{} {}", page.word(), self.name),
        }
    }

    /// All of it, as a page has it.
    pub fn html(&self) -> String {
        let rows: usize = self.rows.iter().map(|row| row.html.len()).sum();
        let mut html = String::with_capacity(self.opening.len() + rows + self.closing.len());
        html.push_str(&self.opening);
        for row in &self.rows {
            html.push_str(&row.html);
        }
        html.push_str(&self.closing);
        html
    }

    /// All of it, to be put into a page.
    pub(crate) fn markup(&self) -> Markup {
        PreEscaped(self.html())
    }
}

impl Row {
    /// A row; `markup` carries the name as `data-live`.
    pub(crate) fn new(name: String, markup: Markup) -> Self {
        Self { name, html: markup.into_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_of_a_page_leads_back_to_it_and_any_other_to_none() {
        let of_pools = ["ADW:holders:1h", "a-b.c_9:queue:6h", "0:history:24h", "p:settings:24h"];
        let of_pools = of_pools.map(|text| text.parse::<PoolPage>().unwrap());
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

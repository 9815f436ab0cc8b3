//! Regions: the parts of pages that change by themselves. The page and the live patch are rendered by the same
//! function, and both carry `data-live` with the region's name, by which the script finds what to replace.

use maud::{Markup, PreEscaped, html};

/// A page, as far as live updates care.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Page {
    /// The overview.
    Overview,
    /// The alerts.
    Alerts,
    /// Any other: only what is around every page changes by itself.
    Other,
}

impl Page {
    const ALL: [Self; 3] = [Self::Overview, Self::Alerts, Self::Other];

    /// The word in addresses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Overview => "overview",
            Self::Alerts => "alerts",
            Self::Other => "other",
        }
    }

    /// The page of a word; what is not known has nothing of its own.
    pub fn of_word(word: &str) -> Self {
        Self::ALL.into_iter().find(|page| page.as_str() == word).unwrap_or(Self::Other)
    }
}

/// Which pages have a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Audience {
    /// All.
    Everywhere,
    /// These.
    On(&'static [Page]),
}

impl Audience {
    /// Whether a page is among them.
    pub fn includes(self, page: Page) -> bool {
        match self {
            Self::Everywhere => true,
            Self::On(pages) => pages.contains(&page),
        }
    }
}

/// A region as rendered. One with rows can change row by row: each row is a region too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    /// Its name.
    pub name: String,
    /// Which pages have it.
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
    /// Its name.
    pub name: String,
    /// Its text.
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

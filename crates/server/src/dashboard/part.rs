//! The small parts that pages are made of.

use crate::problem::Problem;
use maud::{Markup, html};
use std::fmt::Write as _;

pub(crate) use tidemill_domain::words::{number, plural};

const BRIEF_CHARS_MAX: usize = 200;

/// The health of something. Pages show it by word, shape and colour, so that no reader depends on one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Health {
    Ok,
    Warn,
    Bad,
    Busy,
    /// Neither good nor bad: ended, off or unknown.
    Idle,
}

impl Health {
    /// The CSS class of the colour.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Bad => "bad",
            Self::Busy => "busy",
            Self::Idle => "idle",
        }
    }

    const fn shape(self) -> &'static str {
        match self {
            Self::Ok => "●",
            Self::Warn => "▲",
            Self::Bad => "✖",
            Self::Busy => "▶",
            Self::Idle => "○",
        }
    }
}

pub(crate) fn state(health: Health, word: &str) -> Markup {
    html! { span.state.(health.class()) { span aria-hidden="true" { (health.shape()) } " " (word) } }
}

/// A command to copy. The button appears with the script.
pub(crate) fn command(text: &str) -> Markup {
    html! {
        span.copy {
            code { (text) }
            " "
            button type="button" data-copy data-script hidden { "Copy" }
        }
    }
}

/// A number in large letters that links to its details.
pub(crate) fn tile(link: &str, value: &Markup, health: Health, label: &str) -> Markup {
    html! {
        div.tile {
            a href=(link) {
                b { (value) }
                (state(health, label))
            }
        }
    }
}

/// How many there are. Counting stops at a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Count {
    Exactly(u64),
    AtLeast(u64),
}

impl Count {
    /// Counting stopped at `most`.
    pub(crate) const fn up_to(most: u64, count: u64) -> Self {
        if count >= most { Self::AtLeast(count) } else { Self::Exactly(count) }
    }

    /// Of a list; `is_cut` when there are more rows than were read.
    pub(crate) fn of_rows(found: usize, is_cut: bool) -> Self {
        let found = u64::try_from(found).unwrap_or(u64::MAX);
        if is_cut { Self::AtLeast(found) } else { Self::Exactly(found) }
    }

    pub(crate) const fn is_zero(self) -> bool {
        matches!(self, Self::Exactly(0))
    }

    /// With its noun, such as `1 render` or `200+ renders`.
    pub(crate) fn of(self, one: &str, many: &str) -> String {
        format!("{self} {}", if self == Self::Exactly(1) { one } else { many })
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exactly(count) => write!(f, "{count}"),
            Self::AtLeast(count) => write!(f, "{count}+"),
        }
    }
}

/// A table that scrolls within itself when the window is narrow. A column of numbers has `#` before its name.
pub(crate) fn table(caption: &str, columns: &[&str], tbody: &Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table {
                caption.unseen { (caption) }
                thead { tr { @for column in columns {
                    th scope="col" class=[column.starts_with('#').then_some("number")] { (column.trim_start_matches('#')) }
                } } }
                (tbody)
            }
        }
    }
}

/// [`table`] with rows that do not change by themselves; `empty` is the text when there are none.
pub(crate) fn list_table(
    caption: &str,
    columns: &[&str],
    rows: impl IntoIterator<Item = Markup>,
    empty: &Markup,
) -> Markup {
    let mut rows = rows.into_iter().peekable();
    let tbody = html! {
        tbody {
            @if rows.peek().is_none() { (empty_row(columns.len(), empty)) }
            @for row in rows { (row) }
        }
    };
    table(caption, columns, &tbody)
}

/// The row of an empty table.
pub(crate) fn empty_row(columns: usize, text: &Markup) -> Markup {
    html! { tr { td.empty colspan=(columns) { (text) } } }
}

/// A part of a page that needs no text beside its heading.
pub(crate) fn plain_panel(id: &str, heading: &str, content: &Markup) -> Markup {
    panel(id, heading, &html! {}, content)
}

/// A part of a page; `aside` is beside the heading.
pub(crate) fn panel(id: &str, heading: &str, aside: &Markup, content: &Markup) -> Markup {
    html! {
        section.panel id=(id) aria-labelledby={ (id) "-heading" } {
            header { h2 id={ (id) "-heading" } { (heading) } (aside) }
            (content)
        }
    }
}

/// Why the server refused a form, in the words of the API.
pub(crate) fn refusal_banner(problem: &Problem) -> Markup {
    html! {
        div.banner.bad role="alert" {
            p { b { (problem.detail()) "." } }
            p { "What to do: " (problem.remedy()) ". " span.soft { "(" (problem.code()) ")" } }
        }
    }
}

/// A disabled button and the reason.
pub(crate) fn refused(action: &str, reason: &str) -> Markup {
    html! {
        button type="button" disabled { (action) }
        " "
        span.soft { (reason) }
    }
}

/// A value, or a grey word when there is none.
pub(crate) fn value_or(value: Option<impl std::fmt::Display>, without: &str) -> Markup {
    match value {
        Some(value) => html! { (value.to_string()) },
        None => html! { span.soft { (without) } },
    }
}

/// The button that sends a form, disabled if there is a refusal.
pub(crate) fn submit_button(label: &str, refusal: Option<&str>) -> Markup {
    html! {
        @match refusal {
            Some(reason) => (refused(label, reason)),
            None => button.do { (label) },
        }
    }
}

/// Links to the newest and to the next older page of a list, with `more` after them.
pub(crate) fn pager(newest: Option<String>, older: Option<String>, more: &Markup) -> Markup {
    html! {
        div.row.body {
            @if let Some(address) = newest { a.button href=(address) { "Newest" } }
            @if let Some(address) = older { a.button href=(address) { "Older" } }
            (more)
        }
    }
}

/// A text field without surrounding spaces; none if it is empty.
pub(crate) fn given(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty())
}

/// The first line that is not blank.
pub(crate) fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("")
}

/// The start of the first line, for a cell of a table.
pub(crate) fn brief(text: &str) -> String {
    let mut letters = first_line(text).chars();
    let start: String = letters.by_ref().take(BRIEF_CHARS_MAX).collect();
    if letters.next().is_some() { format!("{start}…") } else { start }
}

/// A query string of the fields that are not empty, with `more` at its end.
pub(crate) fn query<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>, more: &str) -> String {
    let given = fields.into_iter().filter_map(|(name, value)| Some((name, given(value)?)));
    let mut parts: Vec<String> = given.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    parts.extend(Some(more.to_owned()).filter(|more| !more.is_empty()));
    if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) }
}

/// A percent-encoded value for a query string.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            other => {
                let _infallible = write!(out, "%{other:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_first_that_is_not_blank() {
        assert_eq!(first_line("\n  no such row \nat line 7"), "no such row");
        assert_eq!(first_line(" \n\t\n"), "");
    }

    #[test]
    fn a_cell_has_the_first_line_of_an_error_and_not_all_of_it() {
        assert_eq!(brief("\n  \nit broke\nat line 7"), "it broke");
        assert_eq!(brief(&"가".repeat(500)).chars().count(), BRIEF_CHARS_MAX + 1);
        assert_eq!(brief(""), "");
    }
}

//! The small parts that pages are made of.

use crate::problem::Problem;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::time::Duration;
use tidemill_domain::outbox::Count;

pub(crate) use tidemill_domain::duration::span;
pub(crate) use tidemill_domain::words::{number, plural};

const BRIEF_CHARS_MAX: usize = 200;

tidemill_domain::words! {
    /// The health of something, by the class of its colour. Pages show it by word, shape and colour, so that no reader depends
    /// on one of them.
    pub(crate) enum Health {
        Ok = "ok",
        Warn = "warn",
        Bad = "bad",
        Busy = "busy",
        /// Neither good nor bad: ended, off or unknown.
        Idle = "idle",
    }
}

impl Health {
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
    html! { span.state.(health) { span aria-hidden="true" { (health.shape()) } " " (word) } }
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

/// A count that stopped at `most`.
pub(crate) const fn count_up_to(most: u64, count: u64) -> Count {
    if count >= most { Count::AtLeast(count) } else { Count::Exactly(count) }
}

/// Such as `1000+`.
pub(crate) fn count_text(count: Count) -> String {
    match count {
        Count::AtLeast(least) if least > 0 => format!("{least}+"),
        count => count.to_string(),
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

/// A control, or a disabled button if there is a refusal.
pub(crate) fn unless_refused(refusal: Option<&str>, action: &str, control: &Markup) -> Markup {
    html! {
        @match refusal {
            Some(reason) => (refused(action, reason)),
            None => (control),
        }
    }
}

/// A value, or a grey word when there is none.
pub(crate) fn value_or(value: Option<impl std::fmt::Display>, without: &str) -> Markup {
    or_soft(value.map(|value| html! { (value.to_string()) }), without)
}

/// [`value_or`] of a value that is already markup.
pub(crate) fn or_soft(value: Option<Markup>, without: &str) -> Markup {
    value.unwrap_or_else(|| html! { span.soft { (without) } })
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

/// With a capital first letter.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
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
    const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(text, ENCODED).to_string()
}

/// A file to save instead of a page.
pub(crate) fn attachment(name: &str, kind: &'static str, text: String) -> Response {
    let name = format!("attachment; filename=\"{name}\"");
    ([(header::CONTENT_TYPE, kind.to_owned()), (header::CONTENT_DISPOSITION, name)], text).into_response()
}

/// A duration in two units at most.
pub(crate) fn took(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0 => milliseconds(length),
        1..60 => format!("{seconds}.{} s", length.subsec_millis() / 100),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        3600..172_800 => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {:02} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

pub(crate) fn milliseconds(time: Duration) -> String {
    match time.as_millis() {
        0 => "under 1 ms".to_owned(),
        time => format!("{time} ms"),
    }
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

    #[test]
    fn a_length_is_told_in_two_units_at_most() {
        for (millis, text) in [
            (0, "under 1 ms"),
            (840, "840 ms"),
            (12_345, "12.3 s"),
            (61_000, "1 min 01 s"),
            (7_384_000, "2 h 03 min"),
            (266_400_000, "3 d 02 h"),
        ] {
            assert_eq!(took(Duration::from_millis(millis)), text);
        }
    }
}

//! Tables for people. On a terminal they fit its width: less important columns are left out, and long cells are shortened.

use super::{cell, count, field_and_part};
use crate::report::printable;
use crate::system;
use serde_json::Value;
use std::io::{IsTerminal, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use tidemill_domain::time::{Clock, Timestamp};
use tidemill_engine::SystemClock;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

const GAP: usize = 2;

/// Optional columns are left out only if the others do not fit with their cells shortened to this width.
const LONG: usize = 32;

/// Cells are not shortened below this width.
const SHORTEST: usize = 8;

/// The flag `--wide`, for the whole process like the choice of colours.
static IS_WIDE: AtomicBool = AtomicBool::new(false);

pub(crate) fn show_wide(is_wide: bool) {
    IS_WIDE.store(is_wide, Ordering::Relaxed);
}

/// The terminal that a table has to fit. Without one, and with `--wide`, tables are complete and their times absolute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Screen {
    pub(super) width: usize,
    pub(super) now: Timestamp,
}

impl Screen {
    pub(super) fn current() -> Option<Self> {
        let given = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let of_terminal = || stdout().is_terminal().then(system::columns)?;
        let width = given.or_else(of_terminal).filter(|width| *width > 0)?;
        (!IS_WIDE.load(Ordering::Relaxed)).then(|| Self { width, now: SystemClock::new().now() })
    }
}

#[derive(Clone, Debug)]
pub(super) struct Column {
    head: String,
    cells: Vec<String>,
    content: usize,
    /// Optional columns are left out, those with the highest number first. 0: always shown.
    optional: usize,
    /// An id is of no use if a part of it is missing.
    is_id: bool,
}

impl Column {
    /// A `name` that ends in `?` is optional, and one that ends in `??` is less important still. `last.status` is a part of
    /// the field `last`.
    pub(super) fn new<'a>(
        name: &str,
        values: impl Iterator<Item = &'a Value>,
        screen: Option<Screen>,
    ) -> Self {
        let (optional, name) = (name.matches('?').count(), name.trim_end_matches('?'));
        let (field, part) = field_and_part(name);
        let now = screen.filter(|_| is_time(part.unwrap_or(field))).map(|screen| screen.now);
        let text = |value: &Value| {
            let value = part.map_or(value, |part| &value[part]);
            let relative =
                now.and_then(|now| Some(value.as_str()?.parse::<Timestamp>().ok()?.relative_to(now)));
            let text = relative.or_else(|| count(value)).unwrap_or_else(|| cell(value));
            printable(&text).replace('\n', " ")
        };
        let cells: Vec<String> = values.map(text).collect();
        Self {
            head: name.to_uppercase().replace(['_', '.'], " "),
            content: cells.iter().map(|cell| cell.width()).max().unwrap_or(0),
            cells,
            optional,
            is_id: name == "id",
        }
    }

    fn width(&self, longest: usize) -> usize {
        self.head.width().max(if self.is_id { self.content } else { self.content.min(longest) })
    }
}

fn is_time(name: &str) -> bool {
    matches!(name, "at" | "since" | "until") || name.ends_with("_at") || name.ends_with("_until")
}

/// Leaves out optional columns, the least important first and of these the last, then shortens the longest cells.
pub(super) fn fit(mut columns: Vec<Column>, width: usize) -> Vec<Column> {
    let needed = |columns: &[Column], longest: usize| -> usize {
        columns.iter().map(|column| column.width(longest) + GAP).sum::<usize>().saturating_sub(GAP)
    };
    while needed(&columns, LONG) > width
        && let Some(most) = columns.iter().map(|column| column.optional).max().filter(|most| *most > 0)
        && let Some(last) = columns.iter().rposition(|column| column.optional == most)
    {
        columns.remove(last);
    }
    if needed(&columns, usize::MAX) > width {
        let longest = (SHORTEST..=width).rev().find(|longest| needed(&columns, *longest) <= width);
        let longest = longest.unwrap_or(SHORTEST);
        for column in columns.iter_mut().filter(|column| !column.is_id) {
            column.content = column.content.min(longest);
            for cell in &mut column.cells {
                *cell = shortened(cell, longest);
            }
        }
    }
    columns
}

/// The beginning and the end of a text that is too long, with `…` between them.
fn shortened(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let within = |most: usize| {
        let mut used = 0;
        move |letter: &char| {
            used += letter.width().unwrap_or(0);
            used <= most
        }
    };
    let start: String = text.chars().take_while(within(width / 2)).collect();
    let end: Vec<char> = text.chars().rev().take_while(within((width - 1) / 2)).collect();
    format!("{start}…{}", end.iter().rev().collect::<String>())
}

/// The lines of a table, with the cells of a column below each other.
pub(super) fn lines(columns: &[Column]) -> Vec<String> {
    let rows = columns.iter().map(|column| column.cells.len()).max().unwrap_or(0);
    let widths: Vec<usize> = columns.iter().map(|column| column.width(usize::MAX)).collect();
    let line = |texts: &mut dyn Iterator<Item = &str>| {
        let padded = texts.zip(&widths).map(|(text, width)| {
            let blanks = (width + GAP).saturating_sub(text.width());
            format!("{text}{:blanks$}", "")
        });
        padded.collect::<String>().trim_end().to_owned()
    };
    let mut lines = vec![line(&mut columns.iter().map(|column| column.head.as_str()))];
    lines.extend((0..rows).map(|row| line(&mut columns.iter().map(|column| column.cells[row].as_str()))));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: &str = "2026-11-15T12:00:00Z";

    fn table(width: usize, columns: &[(&str, Value)]) -> Vec<String> {
        let screen = Some(Screen { width, now: NOW.parse().unwrap() });
        let columns = columns.iter().map(|(name, value)| Column::new(name, [value].into_iter(), screen));
        lines(&fit(columns.collect(), width))
    }

    #[test]
    fn what_fits_is_complete() {
        let columns = [("name", json!("ADW")), ("state?", json!("open")), ("waiting", json!(3))];
        assert_eq!(table(20, &columns), ["NAME  STATE  WAITING", "ADW   open   3"]);
    }

    #[test]
    fn the_least_important_columns_are_left_out_first_and_then_cells_are_shortened() {
        let columns = [
            ("id", json!("0193b1b0-0000")),
            ("x??", json!(1)),
            ("host?", json!("a")),
            ("pid?", json!(1)),
            ("reason", json!("abcdefghijklmnop")),
        ];
        assert_eq!(table(45, &columns)[0], "ID             X  HOST  PID  REASON");
        assert_eq!(table(42, &columns)[0], "ID             HOST  PID  REASON");
        assert_eq!(table(41, &columns)[0], "ID             HOST  REASON");
        assert_eq!(table(31, &columns)[0], "ID             REASON");
        assert_eq!(table(25, &columns)[1], "0193b1b0-0000  abcde…mnop");
        assert_eq!(table(1, &columns)[1], "0193b1b0-0000  abcd…nop");
    }

    #[test]
    fn letters_of_two_columns_count_twice() {
        assert_eq!(shortened("정산배치작업", 12), "정산배치작업");
        assert_eq!(shortened("정산배치작업", 11), "정산…작업");
        assert_eq!(table(99, &[("name", json!("정산")), ("n", json!(1))]), ["NAME  N", "정산  1"]);
    }

    #[test]
    fn only_times_of_time_columns_are_relative() {
        let at = json!("2026-11-15T11:57:00.000000Z");
        let columns = [
            ("created_at", at.clone()),
            ("until", json!("2026-11-15T14:00:00Z")),
            ("text", at),
            ("at", Value::Null),
        ];
        assert_eq!(table(99, &columns)[1], "3 min ago   in 2 h  2026-11-15T11:57:00.000000Z  -");
    }
}

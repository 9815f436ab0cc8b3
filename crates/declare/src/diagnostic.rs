//! Problems of a job file: where, what, why, and a fix.

use crate::Source;
use crate::model::Place;
use serde_json::{Value, json};
use std::fmt;
use std::path::{Path, PathBuf};
use tidemill_domain::nearest::nearest;

pub(crate) const PROBLEMS_MAX: usize = 100;

const EXCERPT_CHARS_MAX: usize = 100;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    pub path: PathBuf,
    /// None if the problem is about the whole file.
    pub place: Option<Place>,
    pub what: String,
    /// The reason, or what is allowed.
    pub why: Option<String>,
    pub fix: String,
    /// The source, and how many characters to mark.
    shown: Option<(Source, usize)>,
}

/// What is wrong with a template or an expression.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct BadText {
    /// The problem and a fix.
    pub message: String,
    /// Offset in bytes.
    pub offset: usize,
}

impl BadText {
    pub(crate) fn new(message: impl Into<String>, offset: usize) -> Self {
        Self { message: message.into(), offset }
    }
}

impl Diagnostic {
    pub(crate) fn of_file(path: &Path, what: impl Into<String>, fix: impl Into<String>) -> Self {
        let (what, fix) = (what.into(), fix.into());
        Self { path: path.to_owned(), place: None, what, why: None, fix, shown: None }
    }

    /// `chars` is the number of characters to mark.
    pub(crate) fn at(
        source: &Source,
        place: Place,
        chars: usize,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        let shown = Some((source.clone(), chars));
        Self { place: Some(place), shown, ..Self::of_file(source.path(), what, fix) }
    }

    #[must_use]
    pub(crate) fn because(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }

    /// `FILE:LINE:COLUMN: WHAT`, which editors and terminals turn into a link.
    pub fn headline(&self) -> String {
        match self.place {
            Some(Place { line, column }) => {
                format!("{}:{line}:{column}: {}", self.path.display(), self.what)
            }
            None => format!("{}: {}", self.path.display(), self.what),
        }
    }

    /// The marked line, and the reason.
    pub fn details(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let (Some(Place { line, column }), Some((source, chars))) = (self.place, &self.shown)
            && let Some(text) = source.line(line)
        {
            let (shown, before, width) = around(text, column, *chars);
            let margin = line.to_string();
            let blank = " ".repeat(margin.len());
            lines.push(format!("{margin} | {shown}").trim_end().to_owned());
            lines.push(format!("{blank} | {}{}", " ".repeat(before), "^".repeat(width)));
        }
        lines.extend(self.why.clone());
        lines
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.headline())?;
        for line in self.details() {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "  fix: {}", self.fix)
    }
}

/// The part of a line around `column`, and the terminal columns before the mark and of the mark. Control characters are
/// replaced by spaces.
fn around(line: &str, column: usize, chars: usize) -> (String, usize, usize) {
    let line: Vec<char> = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let at = column.saturating_sub(1).min(line.len());
    let first = if line.len() <= EXCERPT_CHARS_MAX { 0 } else { at.saturating_sub(EXCERPT_CHARS_MAX / 2) };
    let last = line.len().min(first + EXCERPT_CHARS_MAX);
    let mut end = at.saturating_add(chars.max(1)).min(last).max(at);
    while end > at + 1 && line[end - 1] == ' ' {
        end -= 1;
    }
    let (head, tail) = (if first > 0 { "…" } else { "" }, if last < line.len() { "…" } else { "" });
    let shown = format!("{head}{}{tail}", line[first..last].iter().collect::<String>());
    let width = |range: &[char]| range.iter().map(|c| columns(*c)).sum::<usize>();
    (shown, usize::from(first > 0) + width(&line[first..at]), width(&line[at..end]).max(1))
}

/// Terminal columns of a character: two for East Asian scripts and emoji.
fn columns(c: char) -> usize {
    let is_wide = matches!(u32::from(c),
        0x1100..=0x115F | 0x2E80..=0xA4CF | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF | 0xFE30..=0xFE6F
        | 0xFF00..=0xFF60 | 0xFFE0..=0xFFE6 | 0x1F300..=0x1FAFF | 0x20000..=0x3FFFD);
    if is_wide { 2 } else { 1 }
}

/// Never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostics {
    problems: Vec<Diagnostic>,
    left_out: usize,
}

tidemill_domain::getters!(Diagnostics {
    &problems: [Diagnostic],
    /// Number of problems that are not shown.
    left_out: usize,
});

impl Diagnostics {
    /// Sorted by place; none if there are no problems.
    pub(crate) fn of(mut problems: Vec<Diagnostic>) -> Option<Self> {
        problems.sort_by(|a, b| (&a.path, a.place).cmp(&(&b.path, b.place)));
        problems.dedup();
        let left_out = problems.len().saturating_sub(PROBLEMS_MAX);
        problems.truncate(PROBLEMS_MAX);
        (!problems.is_empty()).then_some(Self { problems, left_out })
    }

    pub(crate) fn one(problem: Diagnostic) -> Self {
        Self { problems: vec![problem], left_out: 0 }
    }

    pub fn json(&self) -> Value {
        let json = |problem: &Diagnostic| {
            json!({
                "file": problem.path.display().to_string(),
                "line": problem.place.map(|place| place.line),
                "column": problem.place.map(|place| place.column),
                "what": problem.what,
                "why": problem.why,
                "fix": problem.fix,
            })
        };
        self.problems.iter().map(json).collect()
    }

    /// The problems of several files; none if there are none.
    pub fn join(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        let (mut problems, mut left_out) = (Vec::new(), 0);
        for one in all {
            left_out += one.left_out;
            problems.extend(one.problems);
        }
        let joined = Self::of(problems)?;
        Some(Self { left_out: joined.left_out + left_out, ..joined })
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            problem.fmt(f)?;
        }
        if self.left_out > 0 {
            writeln!(f, "\nand {} more", self.left_out)?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// Suggests the nearest known word, or what `otherwise` returns.
pub(crate) fn did_you_mean<'w>(
    word: &str,
    known: impl IntoIterator<Item = &'w str>,
    otherwise: impl FnOnce() -> String,
) -> String {
    nearest(word, known).map_or_else(otherwise, |near| format!("did you mean {near}?"))
}

pub(crate) fn excerpt(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, line: usize, column: usize, chars: usize) -> Diagnostic {
        Diagnostic::at(&Source::new("a.yaml", text), Place { line, column }, chars, "what", "do this")
    }

    #[test]
    fn the_mark_stands_below_what_is_meant() {
        let told = at("a: 1\n한글: bcd", 2, 5, 3).because("why");

        assert_eq!(
            told.to_string(),
            "a.yaml:2:5: what\n  2 | 한글: bcd\n    |       ^^^\n  why\n  fix: do this\n"
        );
    }

    #[test]
    fn a_long_line_is_cut_around_the_place_and_control_characters_are_not_shown() {
        let told = at(&format!("{}\u{1b}!{}", "x".repeat(500), "y".repeat(500)), 1, 502, 1).details();

        assert!(told.iter().all(|line| line.chars().count() < 120), "{told:?}");
        let mark = told[1].chars().position(|c| c == '^').unwrap();
        assert_eq!(told[0].chars().nth(mark), Some('!'));
        assert!(!told[0].contains('\u{1b}'));
    }

    #[test]
    fn a_place_beyond_the_text_is_told_without_a_panic() {
        assert_eq!(at("a", 9, 9, 9).details(), Vec::<String>::new());
        assert_eq!(at("a", 1, 9, 9).details()[1], "  |  ^");
        assert_eq!(at("a", 1, 0, 0).details()[1], "  | ^");
    }

    #[test]
    fn problems_are_told_in_order_once_each_and_not_without_end() {
        let all = (0..300).rev().flat_map(|line| [at("", line, 1, 1), at("", line, 1, 1)]).collect();

        let told = Diagnostics::of(all).unwrap();

        assert_eq!((told.problems().len(), told.left_out()), (PROBLEMS_MAX, 200));
        assert_eq!(told.problems()[0].place.unwrap().line, 0);
        assert!(told.to_string().ends_with("\nand 200 more\n"));
        assert!(Diagnostics::of(Vec::new()).is_none());
    }
}

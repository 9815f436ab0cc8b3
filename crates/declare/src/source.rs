//! The text of a job file: its lines for messages, and the places of characters.

use crate::model::Place;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::str::Chars;
use std::sync::Arc;

/// A file and its text. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    path: Arc<Path>,
    text: Arc<str>,
    lines: Arc<[usize]>,
}

tidemill_domain::getters!(Source { &path: Path, &text: str });

impl Source {
    /// Strips a byte order mark.
    pub(crate) fn new(path: impl Into<PathBuf>, text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(breaks).collect();
        Self { path: path.into().into(), text: text.into(), lines }
    }

    pub(crate) fn line(&self, number: usize) -> Option<&str> {
        self.rest_from(number)?.lines().next()
    }

    fn rest_from(&self, number: usize) -> Option<&str> {
        self.text.get(*self.lines.get(number.checked_sub(1)?)?..)
    }

    /// The place of the byte `offset` of the scalar at `place`. If that is unknown, as after an escape, `place` itself.
    pub(crate) fn inside(&self, place: Place, value: &str, offset: usize) -> Place {
        let Some(before) = value.get(..offset) else { return place };
        self.follow(place, before).unwrap_or(place)
    }

    fn follow(&self, place: Place, before: &str) -> Option<Place> {
        let mut chars = self.rest_from(place.line)?.chars();
        if let Some(passed) = place.column.checked_sub(2) {
            chars.nth(passed)?;
        }
        let mut walk = Walk { chars: chars.peekable(), place };
        // A block begins at the first character of its first line, and its lines are indented like this one.
        let indent = place.column.saturating_sub(1);
        let opener = walk.peek()?;
        if matches!(opener, '\'' | '"') {
            walk.step();
        }
        for expected in before.chars() {
            match walk.peek()? {
                '\n' if expected == '\n' => {
                    walk.step();
                    while walk.place.column <= indent && walk.peek() == Some(' ') {
                        walk.step();
                    }
                }
                // A line break that was folded into a blank.
                '\n' if expected == ' ' => {
                    walk.step();
                    while walk.peek() == Some(' ') {
                        walk.step();
                    }
                }
                '\'' if opener == '\'' && expected == '\'' => {
                    walk.step();
                    walk.step();
                }
                '\\' if opener == '"' && matches!(expected, '"' | '\\') => {
                    walk.step();
                    walk.step();
                }
                found if found == expected => walk.step(),
                _ => return None,
            }
        }
        Some(walk.place)
    }
}

struct Walk<'a> {
    chars: Peekable<Chars<'a>>,
    place: Place,
}

impl Walk<'_> {
    fn peek(&mut self) -> Option<char> {
        self.chars.peek().copied()
    }

    fn step(&mut self) {
        match self.chars.next() {
            Some('\n') => self.place = Place { line: self.place.line + 1, column: 1 },
            Some(_) => self.place.column += 1,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, start: (usize, usize), value: &str, mark: &str, expected: (usize, usize)) {
        let source = Source::new("x", text);
        let offset = value.find(mark).unwrap();

        let found = source.inside(Place { line: start.0, column: start.1 }, value, offset);

        assert_eq!((found.line, found.column), expected, "{text:?}");
    }

    #[test]
    fn a_character_of_a_value_is_found_however_the_value_is_written() {
        check("a: row.x + !", (1, 4), "row.x + !", "!", (1, 12));
        check("a: '가 !'", (1, 4), "가 !", "!", (1, 7));
        check("a: 'it''s !'", (1, 4), "it's !", "!", (1, 11));
        check("a: \"b \\\"c\\\" !\"", (1, 4), "b \"c\" !", "!", (1, 13));
        check("a: |\n  one\n    two\n  !", (2, 3), "one\n  two\n!", "!", (4, 3));
        check("a: |\n  one\n    two\n  !", (2, 3), "one\n  two\n!", "two", (3, 5));
        check("a: >\n  one\n  !", (2, 3), "one !", "!", (3, 3));
        check("a: one\n  !", (1, 4), "one !", "!", (2, 3));
    }

    #[test]
    fn what_cannot_be_followed_is_told_by_its_beginning() {
        check("a: \"\\u0041 !\"", (1, 4), "A !", "!", (1, 4));
        check("a: b", (1, 4), "something else!", "!", (1, 4));
        check("a: b", (7, 4), "b!", "!", (7, 4));
        assert_eq!(Source::new("x", "a").inside(Place { line: 1, column: 1 }, "가", 1).column, 1);
    }

    proptest! {
        #[test]
        fn nothing_is_too_strange_for_an_answer(
            text in "[a'\"|>\\\\ \n가]{0,30}",
            value in "[a'\"|> \n가]{0,10}",
            (line, column, offset) in (0_usize..5, 0_usize..20, 0_usize..12),
        ) {
            Source::new("x", &text).inside(Place { line, column }, &value, offset);
        }
    }
}

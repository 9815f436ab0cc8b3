//! What must hold for every text. Also used by the fuzz target `hint`, which includes this file.

use super::{Degree, Hint, Level, rewrite};
use std::num::NonZeroU32;

/// Reads any bytes as a hint and rewrites it. Panics where a promise is broken.
pub(crate) fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(hint) = Hint::parse(&text) else {
        assert!(text.len() > super::HINT_BYTES_MAX, "refused although it is short enough");
        return;
    };
    check_spans(&hint);
    for granted in [1, 2, 3, 8, 1000, u32::MAX] {
        check_rewriting(&hint, NonZeroU32::new(granted).unwrap_or(NonZeroU32::MIN));
    }
}

fn check_spans(hint: &Hint) {
    let mut at = 0;
    for comment in hint.comments() {
        assert!(at <= comment.span.start && comment.span.end <= hint.text().len());
        at = comment.span.start;
        for directive in &comment.directives {
            assert!(at <= directive.span.start && directive.span.end <= comment.span.end);
            at = directive.span.end;
        }
    }
    at = 0;
    for clause in hint.clauses() {
        assert!(at <= clause.span.start && clause.span.start < clause.span.end);
        at = clause.span.end;
    }
    assert!(at <= hint.text().len());
    let (least, most) = (NonZeroU32::MIN, NonZeroU32::MAX);
    assert!(hint.clause_degree().upper_bound(most, least) <= hint.degree().upper_bound(most, least));
    let counts = hint.directives().any(|directive| directive.level == Level::Statement);
    assert!(!counts || hint.degree().upper_bound(most, most) == hint.degree().upper_bound(most, least));
    assert!(hint.degree().upper_bound(least, least) <= hint.degree().upper_bound(most, least));
}

fn check_rewriting(hint: &Hint, granted: NonZeroU32) {
    let Ok(rewritten) = rewrite(hint, granted) else { return };
    let read = Hint::parse(&rewritten).expect("what is rewritten is not too long");
    let asked = |hint: &Hint| hint.degree().upper_bound(NonZeroU32::MAX, NonZeroU32::MIN);
    assert!(asked(&read) <= granted, "{rewritten:?} asks for more than {granted}");
    if asked(hint) <= granted {
        assert_eq!(rewritten, hint.text(), "changed without need");
    }
    assert_eq!(outside_of_directives(&read), outside_of_directives(hint), "something else was changed");
    assert_eq!(clauses(&read), clauses(hint), "a clause was changed");
    assert_eq!(rewrite(&read, granted).as_ref(), Ok(&rewritten), "a second time something changes");
}

/// Their text is outside of directives, except for hints within them.
fn clauses(hint: &Hint) -> Vec<Degree> {
    hint.clauses().iter().map(|clause| clause.degree).collect()
}

/// The text without its parallel directives.
fn outside_of_directives(hint: &Hint) -> Vec<&str> {
    let mut at = 0;
    let mut pieces = Vec::new();
    for directive in hint.directives() {
        pieces.push(&hint.text()[at..directive.span.start]);
        at = directive.span.end;
    }
    pieces.push(&hint.text()[at..]);
    pieces
}

//! Whether a place in an SQL text is within quotes or a comment.
//!
//! It affects messages only: values are always bound.

/// Where no value can be bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Inside {
    /// `'...'` or `$tag$...$tag$`.
    Literal,
    /// `"..."` or `` `...` ``.
    Identifier,
    /// `-- ...` or `/* ... */`.
    Comment,
}

impl Inside {
    pub(super) fn refusal(self, name: &str) -> String {
        match self {
            Self::Literal => format!(
                "${{{name}}} stands within quotes, where it would be text; leave the quotes out: the value is bound"
            ),
            Self::Identifier => format!(
                "${{{name}}} stands within a quoted name; values are bound, so names of tables and columns cannot be parameters"
            ),
            Self::Comment => format!("${{{name}}} stands within a comment; take it out"),
        }
    }
}

const QUOTES: [(&str, &str, Inside); 5] = [
    ("'", "'", Inside::Literal),
    ("\"", "\"", Inside::Identifier),
    ("`", "`", Inside::Identifier),
    ("--", "\n", Inside::Comment),
    ("/*", "*/", Inside::Comment),
];

pub(super) fn inside(text: &str, offset: usize) -> Option<Inside> {
    let mut at = 0;
    while at < offset {
        let rest = &text[at..];
        let quote = QUOTES.into_iter().find(|(open, ..)| rest.starts_with(open));
        let quote = quote.or_else(|| dollar_tag(rest).map(|tag| (tag, tag, Inside::Literal)));
        let Some((open, close, place)) = quote else {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        };
        // A doubled quote ends one literal and begins the next, which has the same effect.
        let end = rest[open.len()..].find(close).map_or(rest.len(), |found| open.len() + found + close.len());
        if at + end > offset {
            return Some(place);
        }
        at += end;
    }
    None
}

/// Where `:column` stands, with its colon: not in quotes or comments, not in `x::type` or `x[i:j]`.
pub(super) fn columns(text: &str) -> Vec<(usize, usize)> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (start, _) in text.match_indices(':') {
        let (before, name) = (&text[..start], &text[start + 1..]);
        let length = name.find(|c: char| !is_part(c)).unwrap_or(name.len());
        let begins = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let is_free = !before.ends_with(|c: char| is_part(c) || matches!(c, ':' | ']' | ')' | '"'));
        if begins && is_free && inside(text, start).is_none() {
            found.push((start, start + 1 + length));
        }
    }
    found
}

/// PostgreSQL's `$$` or `$tag$`.
fn dollar_tag(rest: &str) -> Option<&str> {
    let inner = rest.strip_prefix('$')?;
    let length = inner.find('$')?;
    let is_tag = inner[..length].chars().all(|c| c.is_alphanumeric() || c == '_')
        && !inner.starts_with(|c: char| c.is_ascii_digit());
    is_tag.then(|| &rest[..length + 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<Inside>) {
        assert_eq!(inside(text, text.find("${x}").unwrap()), expected, "{text}");
    }

    #[test]
    fn quotes_and_comments_are_known() {
        check("select ${x}", None);
        check("select '${x}'", Some(Inside::Literal));
        check("select 'it''s ${x}'", Some(Inside::Literal));
        check("select 'it''s', ${x}", None);
        check("select '', ${x}", None);
        check("select \"${x}\"", Some(Inside::Identifier));
        check("select `a ${x}`", Some(Inside::Identifier));
        check("select 1 -- ${x}", Some(Inside::Comment));
        check("select 1 -- it's\n, ${x}", None);
        check("select /* 'a */ ${x}", None);
        check("select /* ${x} */ 1", Some(Inside::Comment));
        check("select $$ ${x} $$", Some(Inside::Literal));
        check("select $a$ ' ${x} $a$", Some(Inside::Literal));
        check("select $a$ ' $a$, ${x}", None);
        check("select '한글', ${x}", None);
    }
}

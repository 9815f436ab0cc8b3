//! Words that the databases spell differently. They are replaced at compile time.

/// A word in braces, for PostgreSQL and for SQLite. A `?` matches the rest of the word, as in `{in $1}`.
const WORDS: [(&str, &str, &str); 19] = [
    // SQLite has one writer at a time, so no statement locks rows.
    ("for ?", "for ?", ""),
    // SQLite has no statistics, so some statements name the index they need.
    ("indexed by ?", "", "indexed by ?"),
    // A list: see `list`.
    ("in ?", "= any(?)", "in (select value from json_each(?))"),
    ("each ?", "select unnest(?)", "select value from json_each(?)"),
    ("::?", "::?", ""),
    ("is", "is not distinct from", "is"),
    ("is not", "is distinct from", "is not"),
    // After a boolean: SQLite's partial indexes need the comparison.
    ("= 1", "", "= 1"),
    // By bytes, as SQLite compares texts anyway.
    ("collate C", "collate \"C\"", ""),
    ("greatest", "greatest", "max"),
    ("least", "least", "min"),
    // A duration. SQLite stores instants as microseconds.
    ("micros ?", "interval '? microseconds'", "?"),
    // The difference of two instants.
    ("as micros ?", "extract(epoch from ?) * 1000000", "?"),
    // A column of type `date`. SQLite stores its text.
    ("date ?", "to_char(?, 'YYYY-MM-DD')", "?"),
    // In `order by`: SQLite's index is on this expression.
    ("nulls last ?", "? asc nulls last", "? is null, ?"),
    ("position", "strpos", "instr"),
    // The transaction of an event. SQLite has one writer at a time, so the event's id serves.
    ("xid", "xid", "id"),
    // The timeline of a PostgreSQL server.
    ("timeline", "substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)", "''"),
    ("now", "clock_timestamp()", "cast(round(unixepoch('subsec') * 1000) as integer) * 1000"),
];

/// The text of a statement for one database, as a constant.
macro_rules! in_dialect {
    ($is_postgres:literal, $text:expr) => {{
        const TEXT: &str = $text;
        const LENGTH: usize = $crate::statement::dialect::translate::<0>(TEXT, $is_postgres).1;
        const BYTES: [u8; LENGTH] = $crate::statement::dialect::translate::<LENGTH>(TEXT, $is_postgres).0;
        const TRANSLATED: &str = match std::str::from_utf8(&BYTES) {
            Ok(text) => text,
            Err(_) => panic!("a statement is not UTF-8"),
        };
        TRANSLATED
    }};
}
pub(crate) use in_dialect;

/// Replaces the words of `text`. Returns as many bytes as fit, and how many there are. An unknown word is a compile
/// error.
pub(crate) const fn translate<const ROOM: usize>(text: &str, is_postgres: bool) -> ([u8; ROOM], usize) {
    let text = text.as_bytes();
    let mut output = Output { bytes: [0; ROOM], length: 0 };
    let mut at = 0;
    while at < text.len() {
        // `{}` and `{"…` are JSON, `{1,18}` is a part of a regular expression.
        if text[at] != b'{' || matches!(text[at + 1], b'}' | b'"' | b'0'..=b'9') {
            output.push(text[at]);
            at += 1;
            continue;
        }
        let (_, inside) = text.split_at(at + 1);
        let mut end = 0;
        while inside[end] != b'}' {
            end += 1;
        }
        let (word, _) = inside.split_at(end);
        let mut known = 0;
        let rest = loop {
            assert!(known < WORDS.len(), "a word in braces is not in the list");
            if let Some(rest) = rest(word, WORDS[known].0.as_bytes()) {
                break rest;
            }
            known += 1;
        };
        let meaning = if is_postgres { WORDS[known].1 } else { WORDS[known].2 };
        output.push_meaning(meaning.as_bytes(), rest);
        at += end + 2;
    }
    (output.bytes, output.length)
}

struct Output<const ROOM: usize> {
    bytes: [u8; ROOM],
    length: usize,
}

impl<const ROOM: usize> Output<ROOM> {
    const fn push(&mut self, byte: u8) {
        if self.length < ROOM {
            self.bytes[self.length] = byte;
        }
        self.length += 1;
    }

    const fn push_meaning(&mut self, meaning: &[u8], rest: &[u8]) {
        let mut at = 0;
        while at < meaning.len() {
            if meaning[at] == b'?' {
                let mut of_rest = 0;
                while of_rest < rest.len() {
                    self.push(rest[of_rest]);
                    of_rest += 1;
                }
            } else {
                self.push(meaning[at]);
            }
            at += 1;
        }
    }
}

/// The text that `?` matches; `None` if it is another word.
const fn rest<'w>(word: &'w [u8], known: &[u8]) -> Option<&'w [u8]> {
    let mut at = 0;
    while at < known.len() {
        if known[at] == b'?' {
            return Some(word.split_at(at).1);
        }
        if at >= word.len() || word[at] != known[at] {
            return None;
        }
        at += 1;
    }
    if word.len() == known.len() { Some(&[]) } else { None }
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_in_braces_are_spelled_for_each_database() {
        macro_rules! text {
            ($is_postgres:literal) => {
                in_dialect!(
                    $is_postgres,
                    "select '{}' from t {indexed by t_a} where a {in $1} and b{::text} {is} $2 {for update of t}"
                )
            };
        }

        assert_eq!(
            text!(true),
            "select '{}' from t  where a = any($1) and b::text is not distinct from $2 for update of t"
        );
        assert_eq!(
            text!(false),
            "select '{}' from t indexed by t_a where a in (select value from json_each($1)) and b is $2 "
        );
    }
}

//! Words that the databases spell differently. They are replaced at compile time.

/// A word in braces, for PostgreSQL and for SQLite. A `?` matches the rest of the word, as in `{in $1}`.
const WORDS: [(&str, &str, &str); 22] = [
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
    // A number of microseconds since 1970, as an instant.
    ("instant ?", "timestamptz 'epoch' + ? * interval '1 microsecond'", "?"),
    // Hexadecimal digits, as bytes.
    ("bytes ?", "decode(?, 'hex')", "unhex(?)"),
    // The next id of a sequence. In SQLite it was drawn before: see `job_draw_id`.
    ("next ?", "nextval('?')", "(select max(id) from ?)"),
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

/// Replaces the words of `text`, and counts the bytes beyond the room too. An unknown word is a compile error.
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
        at += end + 2;
        if let Some(rows) = rest(word, b"rows ?") {
            output.push_rows(rows, is_postgres);
            continue;
        }
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

    const fn push_all(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            self.push(bytes[at]);
            at += 1;
        }
    }

    const fn push_meaning(&mut self, meaning: &[u8], rest: &[u8]) {
        let mut at = 0;
        while at < meaning.len() {
            if meaning[at] == b'?' {
                self.push_all(rest);
            } else {
                self.push(meaning[at]);
            }
            at += 1;
        }
    }

    /// The rows of [`rows`](super::rows) as a table: `{rows beat $1: id uuid, epoch bigint}` is the table `beat` with
    /// two columns. On PostgreSQL not `json_to_recordset`, whose number of rows the planner does not know.
    const fn push_rows(&mut self, rows: &[u8], is_postgres: bool) {
        let (name, rows) = split(rows, b' ');
        let (parameter, mut columns) = split(rows, b':');
        if is_postgres {
            self.push_meaning(b"(unnest(?::text[]) as list (row) ", parameter);
            self.push_meaning(b"cross join lateral json_to_record(list.row::json) as ? (", name);
            self.push_all(columns);
            self.push_all(b"))");
            return;
        }
        self.push_all(b"(select");
        while !columns.is_empty() {
            let (column, others) = split(columns, b',');
            let (column, _) = split(column.trim_ascii_start(), b' ');
            self.push_meaning(b" value ->> '?' as ?", column);
            if !others.is_empty() {
                self.push(b',');
            }
            columns = others;
        }
        self.push_meaning(b" from json_each(?)) as ", parameter);
        self.push_all(name);
    }
}

/// The text before and after the first `sign`; all and nothing if there is none.
const fn split(text: &[u8], sign: u8) -> (&[u8], &[u8]) {
    let mut at = 0;
    while at < text.len() {
        if text[at] == sign {
            return (text.split_at(at).0, text.split_at(at + 1).1);
        }
        at += 1;
    }
    (text, &[])
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
            (rows $is_postgres:literal) => {
                in_dialect!($is_postgres, "select id from {rows beat $1: id uuid, at bigint} where id = $2")
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
        assert_eq!(
            text!(rows true),
            "select id from (unnest($1::text[]) as list (row) cross join lateral json_to_record(list.row::json) \
             as beat ( id uuid, at bigint)) where id = $2"
        );
        assert_eq!(
            text!(rows false),
            "select id from (select value ->> 'id' as id, value ->> 'at' as at from json_each($1)) as beat where id = $2"
        );
    }
}

//! A query of the job's author: a text, and the values that are bound to its places.

use tidemill_domain::item::Value;

/// A query and its values.
///
/// The text is the author's own and never made of values. Places are written as the database has them: `$1`,
/// `$2` on PostgreSQL, `?` on SQLite and MySQL. On PostgreSQL a value takes the type of its place, so that
/// `day = $1` takes a text such as `2026-11-15`; where the place says none, cast it: `$1::date`.
///
/// ```
/// # use tidemill_store::item::SqlQuery;
/// let query = SqlQuery::new("select id, amount from payment where day = $1").bind("2026-11-15");
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct SqlQuery {
    text: String,
    values: Vec<Value>,
}

impl SqlQuery {
    /// A query without values.
    pub fn new(text: impl Into<String>) -> Self {
        let mut text = text.into();
        // It becomes part of larger statements, in which its own end must not be theirs.
        let kept = text.trim_end_matches(|c: char| c == ';' || c.is_whitespace()).len();
        text.truncate(kept);
        Self { text, values: Vec::new() }
    }

    /// Binds the next value.
    #[must_use]
    pub fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    /// Its text, without a semicolon at the end.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn values(&self) -> &[Value] {
        &self.values
    }

    /// A query that counts its rows. The query stands on lines of its own, so that a comment at its end stays
    /// its own.
    pub(crate) fn counting(&self) -> String {
        format!("select count(*)\nfrom (\n{}\n) as counted", self.text)
    }

    /// Whether the words `order by` stand in it.
    pub(crate) fn is_ordered(&self) -> bool {
        let text = self.text.to_ascii_lowercase();
        let words: Vec<&str> = text
            .split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|word| !word.is_empty())
            .collect();
        words.windows(2).any(|pair| pair == ["order", "by"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_query_is_not_that_of_the_statement_around_it() {
        assert_eq!(SqlQuery::new("select 1 ;\n; ").text(), "select 1");
        assert!(SqlQuery::new("select 1 -- one").counting().contains("-- one\n)"));
    }

    #[test]
    fn an_order_is_found_by_its_words() {
        for text in
            ["select a from t order by a", "select a from t ORDER\n  BY a", "select a from t\torder by(a)"]
        {
            assert!(SqlQuery::new(text).is_ordered(), "{text}");
        }
        for text in [
            "select a from t",
            "select order_by from t",
            "select a from border by",
            "select order, by from t",
        ] {
            assert_eq!(SqlQuery::new(text).is_ordered(), text.contains("order, by"), "{text}");
        }
    }
}

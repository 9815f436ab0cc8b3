//! A query or another statement of the job's author: its text and the bound values.

use crate::item::failure::fatal;
use tidemill_domain::item::{ErrorKind, ItemError, Value};

/// A query and its values.
///
/// Write placeholders as the database does: `$1`, `$2` on PostgreSQL, `?` on SQLite and MySQL. On PostgreSQL a value
/// takes the type of its placeholder, so that `day = $1` accepts a text such as `2026-11-15`; if the type is unknown,
/// cast it: `$1::date`.
///
/// ```
/// # use tidemill_store::item::SqlQuery;
/// let query = SqlQuery::new("select id, amount from payment where day = $1").bind("2026-11-15");
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct SqlQuery {
    text: String,
    values: Vec<Value>,
    must_change: bool,
}

/// Bound values: a tuple such as `(7, "paid")`, or `()` for none.
pub trait Values {
    /// In the order of the placeholders.
    fn into_values(self) -> Vec<Value>;
}

impl Values for Vec<Value> {
    fn into_values(self) -> Vec<Value> {
        self
    }
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => {$(
        impl<$($name: Into<Value>),*> Values for ($($name,)*) {
            #[expect(non_snake_case, reason = "a value has the name of its type")]
            fn into_values(self) -> Vec<Value> {
                let ($($name,)*) = self;
                vec![$($name.into()),*]
            }
        }
    )*};
}
tuples! { (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H) }

impl Values for () {
    fn into_values(self) -> Vec<Value> {
        Vec::new()
    }
}

/// Which rows of a query are fetched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rows {
    All,
    /// The others are neither decoded nor kept.
    First,
}

impl SqlQuery {
    /// Without values.
    pub fn new(text: impl Into<String>) -> Self {
        let mut text = text.into();
        // It becomes a part of larger statements, so its semicolon must go.
        let kept = text.trim_end_matches(|c: char| c == ';' || c.is_whitespace()).len();
        text.truncate(kept);
        Self { text, values: Vec::new(), must_change: false }
    }

    pub(crate) fn with(text: &str, values: impl Values) -> Self {
        Self { values: values.into_values(), ..Self::new(text) }
    }

    #[must_use]
    pub fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    /// As a statement that is run for its effect: an error if it changes no row.
    #[must_use]
    pub fn must_change(mut self) -> Self {
        self.must_change = true;
        self
    }

    pub(crate) fn check_changed(&self, rows: u64) -> Result<u64, ItemError> {
        if rows == 0 && self.must_change {
            return Err(ItemError::new(ErrorKind::WRITE, "it changed no row"));
        }
        Ok(rows)
    }

    /// Whether the text has a word of a clause that returns nulls for columns that have none.
    pub(crate) fn may_make_nulls(&self) -> bool {
        const WORDS: [&str; 11] = [
            "left",
            "right",
            "full",
            "outer",
            "natural",
            "rollup",
            "cube",
            "sets",
            "union",
            "except",
            "intersect",
        ];
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        self.text.split(|c| !is_part(c)).any(|word| WORDS.contains(&word.to_lowercase().as_str()))
    }

    /// Without a semicolon at the end.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn values(&self) -> &[Value] {
        &self.values
    }

    /// Counts its rows. The query is on its own lines, so that a comment at its end stays its own.
    pub(crate) fn counting(&self) -> String {
        format!("select count(*)\nfrom (\n{}\n) as counted", self.text)
    }

    /// Fails if the numbers of values and placeholders differ: SQLite would bind null to a missing one.
    pub(crate) fn check_places(&self, places: usize) -> Result<(), ItemError> {
        let values = self.values.len();
        if places == values {
            return Ok(());
        }
        Err(fatal(format!("the query has {places} places for values, and {values} are bound")))
    }

    /// Whether it contains `order by`.
    pub(crate) fn is_ordered(&self) -> bool {
        self.words().windows(2).any(|pair| pair == ["order", "by"])
    }

    /// Whether it contains `returning`.
    pub(crate) fn is_returning(&self) -> bool {
        self.words().iter().any(|word| word == "returning")
    }

    fn words(&self) -> Vec<String> {
        let text = self.text.to_ascii_lowercase();
        let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
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

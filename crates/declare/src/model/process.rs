//! How a chunk step processes its rows, in the order of the fields.

use super::{At, ReadFile};
use tidemill_domain::item::{ColumnRules, Direction};

#[derive(Clone, PartialEq, Debug, Default)]
pub struct ProcessFile {
    pub sort: Vec<(SortBy, Direction)>,
    /// The columns that make a row distinct; empty keeps duplicates.
    pub dedupe: Vec<At<String>>,
    pub validate: Vec<ColumnRule>,
    pub lookups: Vec<LookupFile>,
    /// A CEL expression; items for which it is false are dropped.
    pub filter: Option<At<String>>,
    /// Column and CEL expression; empty leaves the item as it is.
    pub map: Vec<(At<String>, At<String>)>,
}

impl ProcessFile {
    /// The expressions that see the row as it is read.
    pub(crate) fn of_rows_read(&self) -> impl Iterator<Item = &At<String>> {
        let order = self.sort.iter().filter_map(|(by, _)| match by {
            SortBy::Expression(text) => Some(text),
            SortBy::Column(_) => None,
        });
        let rules = self.validate.iter().filter_map(|rule| rule.check.as_ref());
        let keys = self.lookups.iter().flat_map(|lookup| &lookup.matching);
        order.chain(rules).chain(keys)
    }

    /// The columns of the row as it is read that are named without an expression.
    pub(crate) fn named_columns(&self) -> impl Iterator<Item = &At<String>> {
        let order = self.sort.iter().filter_map(|(by, _)| match by {
            SortBy::Column(column) => Some(column),
            SortBy::Expression(_) => None,
        });
        let keys = self.lookups.iter().filter(|lookup| lookup.matching.is_empty());
        let rules = self.validate.iter().map(|rule| &rule.column);
        order.chain(&self.dedupe).chain(rules).chain(keys.flat_map(|lookup| &lookup.key))
    }

    /// Whether a row can break a rule.
    pub(crate) fn has_rules(&self) -> bool {
        !self.validate.is_empty() || !self.lookups.is_empty()
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum SortBy {
    Column(At<String>),
    /// A CEL expression over the row.
    Expression(At<String>),
}

/// The rules for one column of `validate`.
#[derive(Clone, PartialEq, Debug)]
pub struct ColumnRule {
    pub column: At<String>,
    pub rules: ColumnRules,
    /// A CEL expression that has to be true.
    pub check: Option<At<String>>,
    /// The reason if `check` is false.
    pub message: Option<String>,
}

/// A table or file that is joined in memory.
#[derive(Clone, PartialEq, Debug)]
pub struct LookupFile {
    pub name: At<String>,
    pub read: At<ReadFile>,
    /// The columns by which its rows are found.
    pub key: Vec<At<String>>,
    /// A CEL expression over the row for each column of the key; empty takes the columns of the same name.
    pub matching: Vec<At<String>>,
    /// The new column of the row, and the column of the lookup.
    pub columns: Vec<(At<String>, At<String>)>,
    pub on_missing: OnMissing,
    pub max_rows: usize,
}

tidemill_domain::words! {
    /// What becomes of a row that is not found in a lookup.
    pub enum OnMissing {
        Reject = "reject",
        Null = "null",
        Fail = "fail",
    }
}

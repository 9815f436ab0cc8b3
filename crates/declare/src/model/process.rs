//! How a chunk step processes its rows, in the order of the fields.

use super::At;
use tidemill_domain::item::ColumnRules;

#[derive(Clone, PartialEq, Debug, Default)]
pub struct ProcessFile {
    pub validate: Vec<ColumnRule>,
    /// A CEL expression; items for which it is false are dropped.
    pub filter: Option<At<String>>,
    /// Column and CEL expression; empty leaves the item as it is.
    pub map: Vec<(At<String>, At<String>)>,
}

impl ProcessFile {
    /// The expressions that see the row as it is read.
    pub(crate) fn of_rows_read(&self) -> impl Iterator<Item = &At<String>> {
        self.validate.iter().filter_map(|rule| rule.check.as_ref())
    }
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

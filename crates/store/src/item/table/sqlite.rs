//! Buffers rows for an SQLite table: statements of many rows each.

use super::catalogue::Column;
use super::{Mode, Target, on_conflict};
use crate::item::failure::item_error;
use crate::item::identifier::{Quote, quoted};
use crate::item::sqlite::bind;
use sqlx::AssertSqlSafe;
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use std::fmt::Write;
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError, Value};

/// SQLite's limit of values per statement.
const VALUES_MAX: usize = 32_766;

/// More rows per statement are not faster.
const ROWS_MAX: usize = 500;

#[derive(Debug)]
pub(super) struct SqliteBatch {
    /// Integer columns, which store instants as numbers.
    is_integer: Vec<bool>,
    head: String,
    tail: String,
    rows_max: usize,
    /// The statement for a full batch.
    full: Arc<str>,
    values: Vec<Value>,
}

impl SqliteBatch {
    pub(super) fn new(
        table: &Target,
        columns: &[Column],
        mode: &Mode,
        key: Option<Vec<usize>>,
    ) -> Result<Self, ItemError> {
        let names: Vec<String> =
            columns.iter().map(|column| quoted(&column.name, Quote::Double)).collect::<Result<_, _>>()?;
        let (table, list) = (&table.quoted, names.join(", "));
        let (head, tail) = match mode {
            Mode::Delete => (format!("delete from {table}\nwhere ({list}) in (values "), ")".to_owned()),
            _ => {
                let conflict = key.as_deref().map(|key| on_conflict(&names, key)).unwrap_or_default();
                (format!("insert into {table} ({list})\nvalues "), conflict)
            }
        };
        let rows_max = (VALUES_MAX / names.len().max(1)).clamp(1, ROWS_MAX);
        let full = statement(&head, &tail, names.len(), rows_max).into();
        let is_integer = columns.iter().map(|column| is_integer(&column.type_name)).collect();
        Ok(Self { is_integer, head, tail, rows_max, full, values: Vec::new() })
    }

    pub(super) fn len(&self) -> usize {
        self.values.len() / self.is_integer.len().max(1)
    }

    pub(super) fn clear(&mut self) {
        self.values.clear();
    }

    /// Never fails: SQLite accepts values of every class in a column.
    #[expect(
        clippy::unnecessary_wraps,
        reason = "the same signature as on PostgreSQL, which does refuse values"
    )]
    pub(super) fn push<'a>(&mut self, values: impl Iterator<Item = &'a Value>) -> Result<(), ItemError> {
        for (value, is_integer) in values.zip(&self.is_integer) {
            self.values.push(match value {
                Value::Instant(instant) if *is_integer => Value::Long(instant.as_micros()),
                value => value.clone(),
            });
        }
        Ok(())
    }

    pub(super) async fn flush(&mut self, connection: &mut SqliteConnection) -> Result<(), ItemError> {
        let width = self.is_integer.len().max(1);
        let mut values = std::mem::take(&mut self.values);
        let mut rows_left = values.len() / width;
        let mut rest = values.drain(..);
        while rows_left > 0 {
            let rows = rows_left.min(self.rows_max);
            let text = if rows == self.rows_max {
                Arc::clone(&self.full)
            } else {
                statement(&self.head, &self.tail, width, rows).into()
            };
            let mut arguments = SqliteArguments::default();
            for value in rest.by_ref().take(rows * width) {
                bind(&mut arguments, value)?;
            }
            let query = sqlx::query_with(AssertSqlSafe(text), arguments);
            query.execute(&mut *connection).await.map_err(|error| item_error(error, ErrorKind::WRITE))?;
            rows_left -= rows;
        }
        drop(rest);
        self.values = values;
        Ok(())
    }
}

fn statement(head: &str, tail: &str, width: usize, rows: usize) -> String {
    let mut text = String::with_capacity(head.len() + tail.len() + rows * (2 * width + 3));
    text.push_str(head);
    for row in 0..rows {
        text.push_str(if row == 0 { "(" } else { ", (" });
        for column in 0..width {
            let _infallible = write!(text, "{}", if column == 0 { "?" } else { ",?" });
        }
        text.push(')');
    }
    text.push_str(tail);
    text
}

/// SQLite's own rule: `int` in the type's name.
fn is_integer(type_name: &str) -> bool {
    type_name.to_ascii_lowercase().contains("int")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_has_a_place_for_each_value() {
        assert_eq!(
            statement("insert into t (a, b)\nvalues ", "", 2, 2),
            "insert into t (a, b)\nvalues (?,?), (?,?)"
        );
    }

    #[test]
    fn whole_numbers_are_known_by_the_name_of_their_type() {
        assert!(is_integer("INTEGER") && is_integer("bigint") && !is_integer("text") && !is_integer(""));
    }
}

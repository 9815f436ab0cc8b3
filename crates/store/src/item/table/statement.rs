//! Writes rows into a table of another database: the mode as a statement for each row.

use super::{Mode, key_indices, on_conflict};
use crate::item::database::{Database, Flavour};
use crate::item::identifier::{quoted, quoted_table};
use tidemill_domain::item::ItemError;

impl Database {
    /// The statement that writes a row into `table`, or `schema.table`; its values are those of the columns, in order.
    ///
    /// ```
    /// # use tidemill_store::item::{Database, Mode};
    /// let shop = Database::connect("mysql://h/shop").unwrap();
    /// let text = shop.row_statement("orders", &["id".into()], &Mode::Delete).unwrap();
    /// assert_eq!(text, "delete from `orders`\nwhere `id` = ?");
    /// ```
    pub fn row_statement(&self, table: &str, columns: &[String], mode: &Mode) -> Result<String, ItemError> {
        let quote = self.flavour().quote();
        let names: Vec<String> =
            columns.iter().map(|column| quoted(column, quote)).collect::<Result<_, _>>()?;
        let places: Vec<String> = (1..=names.len()).map(|number| self.placeholder(number)).collect();
        let (table, key) =
            (quoted_table(table, quote)?, key_indices(mode, columns, |one, other| one == other)?);
        if *mode == Mode::Delete {
            let same = names.iter().zip(&places).map(|(name, place)| format!("{name} = {place}"));
            return Ok(format!("delete from {table}\nwhere {}", same.collect::<Vec<_>>().join(" and ")));
        }
        let conflict = match (key, self.flavour()) {
            (None, _) => String::new(),
            (Some(key), Flavour::MySql) => on_duplicate(&names, &key),
            (Some(key), Flavour::Postgres | Flavour::Sqlite) => on_conflict(&names, &key),
        };
        Ok(format!("insert into {table} ({})\nvalues ({}){conflict}", names.join(", "), places.join(", ")))
    }
}

/// MySQL finds the row by any unique index. Where all columns are keys, one is set to what it is.
fn on_duplicate(columns: &[String], key: &[usize]) -> String {
    let others = columns.iter().enumerate().filter(|(index, _)| !key.contains(index));
    let mut changes: Vec<String> = others.map(|(_, column)| format!("{column} = values({column})")).collect();
    if changes.is_empty() {
        changes.extend(columns.first().map(|column| format!("{column} = {column}")));
    }
    format!("\non duplicate key update {}", changes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(url: &str, table: &str, mode: &Mode) -> String {
        let columns = ["id".to_owned(), "na\"me".to_owned()];
        Database::connect(url).unwrap().row_statement(table, &columns, mode).unwrap()
    }

    #[test]
    fn each_database_has_its_own_words_for_a_mode() {
        let upsert = Mode::Upsert { key: vec!["id".into()] };
        let (postgres, sqlite, mysql) = ("postgres://h/d", "sqlite:///f.db", "mysql://h/d");

        assert_eq!(
            text(postgres, "s.t", &upsert),
            "insert into \"s\".\"t\" (\"id\", \"na\"\"me\")\nvalues ($1, $2)\n\
             on conflict (\"id\") do update\nset \"na\"\"me\" = excluded.\"na\"\"me\""
        );
        assert_eq!(
            text(mysql, "t", &upsert),
            "insert into `t` (`id`, `na\"me`)\nvalues (?, ?)\non duplicate key update `na\"me` = values(`na\"me`)"
        );
        let both = Mode::Upsert { key: vec!["na\"me".into(), "id".into()] };
        assert!(text(mysql, "t", &both).ends_with("on duplicate key update `id` = `id`"));
        assert!(text(sqlite, "t", &both).ends_with("on conflict (\"na\"\"me\", \"id\") do nothing"));
        assert_eq!(text(sqlite, "t", &Mode::Copy), text(sqlite, "t", &Mode::Insert));
        assert_eq!(
            text(postgres, "t", &Mode::Delete),
            "delete from \"t\"\nwhere \"id\" = $1 and \"na\"\"me\" = $2"
        );
    }

    #[test]
    fn a_key_that_is_not_written_is_refused() {
        let database = Database::connect("mysql://h/d").unwrap();
        let mode = Mode::Upsert { key: vec!["day".into()] };

        let error = database.row_statement("t", &["id".to_owned()], &mode).unwrap_err();

        assert!(error.text().contains("\"day\" is not among"), "{}", error.text());
    }
}

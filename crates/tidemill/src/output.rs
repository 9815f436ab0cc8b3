//! Prints the result of a command in the chosen format. Data goes to standard output, everything else to standard error.

mod table;

use crate::config::Output;
use crate::report::{Failure, Result, printable};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use table::Screen;
use tidemill_api::View;
use tidemill_domain::code::Exit;

pub(crate) use table::show_wide;

/// Clears the screen and moves to its beginning.
const CLEAR: &[u8] = b"\x1b[2J\x1b[H";

/// Set while a command is watched.
static CLEARS_SCREEN: AtomicBool = AtomicBool::new(false);

/// Rows of a list. JSON has the name of the schema, to which fields are only ever added.
#[derive(Debug)]
pub(crate) struct Listing {
    schema: &'static str,
    columns: Vec<&'static str>,
    rows: Vec<Vec<Value>>,
    when_empty: &'static str,
    /// The columns of a table; all of them when none are named.
    shown: Vec<&'static str>,
}

/// The name of a column, and its value in a row.
pub(crate) type Column<T> = (&'static str, fn(&T) -> Value);

impl Listing {
    /// A list without rows yet. If it stays empty, a table prints `when_empty`.
    pub(crate) fn new(schema: &'static str, columns: &[&'static str], when_empty: &'static str) -> Self {
        Self { schema, columns: columns.to_vec(), rows: Vec::new(), when_empty, shown: Vec::new() }
    }

    pub(crate) fn of<T>(
        schema: &'static str,
        when_empty: &'static str,
        things: &[T],
        columns: &[Column<T>],
    ) -> Self {
        let row = |thing: &T| columns.iter().map(|(_, value)| value(thing)).collect();
        let columns_named = columns.iter().map(|(name, _)| *name).collect();
        let rows = things.iter().map(row).collect();
        Self { schema, columns: columns_named, rows, when_empty, shown: Vec::new() }
    }

    /// A row for each view. A table has the columns `shown`, the other formats have every field. A column such as
    /// `last.status` shows one part of a field. A column such as `host?` is left out where the table gets too wide.
    pub(crate) fn of_views<V: View>(
        schema: &'static str,
        when_empty: &'static str,
        views: impl IntoIterator<Item = V>,
        shown: &'static str,
    ) -> Self {
        let mut listing = Self::new(schema, V::FIELDS, when_empty).showing(shown);
        let is_field = |name: &&str| V::FIELDS.contains(&field_and_part(name.trim_end_matches('?')).0);
        debug_assert!(listing.shown.iter().all(is_field), "{shown}");
        for view in views {
            let fields = json!(view);
            listing.push(V::FIELDS.iter().map(|name| fields[*name].clone()).collect());
        }
        listing
    }

    /// With these columns of a table, separated by blanks.
    pub(crate) fn showing(self, columns: &'static str) -> Self {
        Self { shown: columns.split_whitespace().collect(), ..self }
    }

    pub(crate) fn one<const N: usize>(schema: &'static str, values: [(&'static str, Value); N]) -> Self {
        let (columns, row) = values.into_iter().unzip();
        Self { schema, columns, rows: vec![row], when_empty: "", shown: Vec::new() }
    }

    /// Adds a row; its values are in the order of the columns.
    pub(crate) fn push(&mut self, row: Vec<Value>) {
        debug_assert_eq!(row.len(), self.columns.len());
        self.rows.push(row);
    }

    /// Keeps the first `limit` rows, and says how to see the others: `next` is the flag for the next page, if there is one.
    pub(crate) fn cut(&mut self, limit: u32, next: &str) -> Option<String> {
        let limit = limit as usize;
        if self.rows.len() <= limit {
            return None;
        }
        self.rows.truncate(limit);
        let id = self.columns.iter().position(|column| *column == "id");
        let page = match self.rows.last().zip(id) {
            Some((last, id)) if !next.is_empty() => {
                format!(", or {next} {} for the next page", cell(&last[id]))
            }
            _ => String::new(),
        };
        Some(format!("the first {limit}; more exist: use a higher --limit{page}"))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn print(&self, output: Output) -> Result<Exit> {
        let mut objects = self.rows.iter().map(|row| self.object(row));
        let mut text = Vec::new();
        let written = match output {
            Output::Table => self.table(&mut text, Screen::current()),
            Output::Json => {
                let list = json!({ "schema": self.schema, "items": objects.collect::<Vec<_>>() });
                writeln!(text, "{list:#}")
            }
            Output::Jsonl => objects.try_for_each(|object| writeln!(text, "{object}")),
            Output::Csv => csv(&mut text, &self.columns, &self.rows),
        };
        written.map_err(|error| Failure::output(&error))?;
        write_stdout(&text)
    }

    fn object(&self, row: &[Value]) -> Value {
        let fields = self.columns.iter().zip(row).map(|(name, value)| ((*name).to_owned(), value.clone()));
        Value::Object(fields.collect::<Map<_, _>>())
    }

    fn table(&self, text: &mut Vec<u8>, screen: Option<Screen>) -> io::Result<()> {
        if self.rows.is_empty() {
            return writeln!(text, "{}", self.when_empty);
        }
        let shown = if self.shown.is_empty() { &self.columns } else { &self.shown };
        let column = |name: &&'static str| {
            let field = field_and_part(name.trim_end_matches('?')).0;
            let place = self.columns.iter().position(|column| *column == field)?;
            Some(table::Column::new(name, self.rows.iter().map(|row| &row[place]), screen))
        };
        let mut columns: Vec<_> = shown.iter().filter_map(column).collect();
        if let Some(screen) = screen {
            columns = table::fit(columns, screen.width);
        }
        table::lines(&columns).iter().try_for_each(|line| writeln!(text, "{line}"))
    }
}

fn field_and_part(column: &str) -> (&str, Option<&str>) {
    column.split_once('.').map_or((column, None), |(field, part)| (field, Some(part)))
}

/// A header and a line for each row. A value with parts is JSON within its cell, so the columns are always the same.
fn csv<'a>(
    text: &mut Vec<u8>,
    columns: &[impl AsRef<[u8]>],
    rows: impl IntoIterator<Item = &'a Vec<Value>>,
) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(text);
    writer.write_record(columns)?;
    for row in rows {
        writer.write_record(
            row.iter().map(|value| if value.is_null() { String::new() } else { cell(value) }),
        )?;
    }
    writer.flush()
}

/// Writes a view to standard output, field by field. A table leaves out empty fields.
pub(crate) fn print_view(schema: &'static str, view: &impl Serialize, output: Output) -> Result<Exit> {
    let Value::Object(fields) = json!(view) else { return Ok(Exit::Ok) };
    write_stdout(&fields_as(schema, fields, output).map_err(|error| Failure::output(&error))?)
}

fn fields_as(schema: &'static str, fields: Map<String, Value>, output: Output) -> io::Result<Vec<u8>> {
    let text = match output {
        Output::Json | Output::Jsonl => {
            let mut object = Map::from_iter([("schema".to_owned(), json!(schema))]);
            object.extend(fields);
            let object = Value::Object(object);
            if output == Output::Jsonl { format!("{object}\n") } else { format!("{object:#}\n") }
        }
        Output::Csv => {
            let (columns, row): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
            let mut text = Vec::new();
            csv(&mut text, &columns, [&row])?;
            return Ok(text);
        }
        Output::Table => {
            let width = fields.keys().map(String::len).max().unwrap_or(0);
            let shown = fields.iter().filter(|(_, value)| !is_empty(value));
            let line = |(name, value): (&String, &Value)| {
                let below = format!("\n{:width$}  ", "");
                format!("{:<width$}  {}\n", name.replace('_', " "), lines(value).join(&below))
            };
            printable(&shown.map(line).collect::<String>())
        }
    };
    Ok(text.into_bytes())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// The lines of a value: one for each item if the items have fields.
fn lines(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) if items.iter().any(Value::is_object) => items.iter().map(plain).collect(),
        value => vec![plain(value)],
    }
}

/// A value on one line.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join("; "),
        Value::Object(fields) => count(value).unwrap_or_else(|| {
            let given = fields.iter().filter(|(_, value)| !is_empty(value));
            given.map(|(name, value)| format!("{name}={}", plain(value))).collect::<Vec<_>>().join("; ")
        }),
        other => other.to_string(),
    }
}

/// A count that stopped at a limit, such as `100+`.
fn count(value: &Value) -> Option<String> {
    let (count, is_exact) = (value.get("at_least")?.as_u64()?, value.get("is_exact")?.as_bool()?);
    Some(if is_exact { count.to_string() } else { format!("{count}+") })
}

/// A value for people. A missing value is a dash, not a zero.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => other.to_string(),
    }
}

/// Clears the screen just before the next output, so that it does not flicker.
pub(crate) fn clear_before_output() {
    CLEARS_SCREEN.store(true, Ordering::Relaxed);
}

/// Writes text to standard output. A reader that stops early, such as `head`, is not an error.
pub(crate) fn write_stdout(text: impl AsRef<[u8]>) -> Result<Exit> {
    let mut stdout = anstream::stdout();
    if CLEARS_SCREEN.swap(false, Ordering::Relaxed) {
        // Not through `stdout`, which drops it where there are no colours.
        io::stdout().write_all(CLEAR).map_err(|error| Failure::output(&error))?;
    }
    match stdout.write_all(text.as_ref()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::output(&error)),
        _ => Ok(Exit::Ok),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_with_fields_have_a_line_each_without_empty_fields() {
        let tried = json!([{"epoch": 1, "error": null}, {"epoch": 2, "error": "late"}]);
        assert_eq!(lines(&tried), ["epoch=1", "epoch=2; error=late"]);
        assert_eq!(lines(&json!(["a", "b"])), ["a; b"]);
    }

    fn listing() -> Listing {
        let mut listing = Listing::new("tidemill.test/v1", &["name", "age_seconds", "gone"], "Nothing.");
        listing.push(vec![json!("a,\u{1b}[31m\nb"), json!(12_345_678_901_234_567_u64), Value::Null]);
        listing
    }

    fn written(write: impl Fn(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut text = Vec::new();
        write(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_table_is_safe_for_the_terminal_and_shows_what_is_missing() {
        let text = written(|text| listing().table(text, None));

        assert!(text.contains("AGE SECONDS"));
        assert!(text.contains("a,\u{fffd}[31m b") && !text.contains('\u{1b}'));
        assert!(text.trim_end().ends_with('-'));
    }

    #[test]
    fn csv_quotes_and_leaves_missing_values_empty() {
        let listing = listing();
        let text = written(|text| csv(text, &listing.columns, &listing.rows));

        assert_eq!(text, "name,age_seconds,gone\n\"a,\u{1b}[31m\nb\",12345678901234567,\n");
    }

    #[test]
    fn a_view_as_csv_is_a_header_and_a_row_with_json_for_values_with_parts() {
        let parts = json!([{"name": "p1", "rows": 3}]);
        let fields = json!({"name": "a,b", "gone": null, "on": true, "parts": parts});
        let fields = serde_json::from_value(fields).unwrap();

        let text = fields_as("tidemill.test/v1", fields, Output::Csv).unwrap();

        let expected = "name,gone,on,parts\n\"a,b\",,yes,\"[{\"\"name\"\":\"\"p1\"\",\"\"rows\"\":3}]\"\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn an_empty_table_says_so() {
        assert_eq!(written(|text| Listing::new("x", &["a"], "No rows.").table(text, None)), "No rows.\n");
    }
}

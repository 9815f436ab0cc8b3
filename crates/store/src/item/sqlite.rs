//! SQLite: values by their storage class, and how queries run on it.

use crate::item::failure::{fatal, item_error, reading};
use crate::item::feed::Sink;
use crate::item::query::{Rows, SqlQuery};
use crate::item::row::{self, Item, assemble};
use crate::item::statement::first_word;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow, SqliteStatement};
use sqlx::{Arguments, AssertSqlSafe, Decode, Executor, Row as _, Sqlite, Statement, TypeInfo, ValueRef};
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError, Value};

pub(crate) type Plan = row::Plan<SqliteStatement>;

/// The text is the author's own, or built from it and quoted names.
pub(crate) async fn prepare(connection: &mut SqliteConnection, sql: &str) -> Result<Plan, ItemError> {
    let text = AssertSqlSafe(sql.to_owned());
    let statement = connection.prepare(sqlx::SqlSafeStr::into_sql_str(text)).await.map_err(reading)?;
    Ok(Plan::new(statement))
}

pub(crate) async fn fetch(
    connection: &mut SqliteConnection,
    plan: &Plan,
    values: &[Value],
    rows: Rows,
) -> Result<Vec<Item>, ItemError> {
    let arguments = arguments(values)?;
    let query = plan.statement.query_with(arguments);
    let rows = match rows {
        Rows::All => query.fetch_all(connection).await,
        Rows::First => query.fetch_optional(connection).await.map(Vec::from_iter),
    };
    let rows = rows.map_err(reading)?;
    Ok(rows.iter().map(|row| decode(&plan.names, row)).collect())
}

/// Runs the author's statement, ignores its rows, and returns how many rows it changed.
pub(crate) async fn execute(connection: &mut SqliteConnection, query: &SqlQuery) -> Result<u64, ItemError> {
    // SQLite would run all of them, with the values of the first.
    if query.has_several() {
        return Err(fatal("a text has several statements; give each one of its own"));
    }
    if first_word(query.text()) == "call" {
        return Err(fatal("SQLite has no stored procedures to call; write a statement instead"));
    }
    let plan = prepare(connection, query.text()).await?;
    query.check_places(plan.places())?;
    let before = changes(connection).await?;
    let done = plan.statement.query_with(arguments(query.values())?).execute(&mut *connection).await;
    let done = done.map_err(|error| item_error(error, ErrorKind::WRITE))?;
    // A statement that changes nothing leaves the previous statement's count.
    Ok(if changes(connection).await? == before { 0 } else { done.rows_affected() })
}

async fn changes(connection: &mut SqliteConnection) -> Result<i64, ItemError> {
    sqlx::query_scalar("select total_changes()").fetch_one(connection).await.map_err(reading)
}

/// Reads row by row after the first `skip`, and sends `size` rows at a time.
pub(crate) async fn stream(
    connection: &mut SqliteConnection,
    plan: &Plan,
    values: &[Value],
    skip: u64,
    size: usize,
    sink: &Sink,
) -> Result<(), ItemError> {
    let arguments = arguments(values)?;
    let rows = plan.statement.query_with(arguments).fetch(connection);
    sink.hand_on(rows, skip, size, |row| Ok(decode(&plan.names, row))).await
}

/// In SQLite each value has its own class, whatever the column was declared as.
fn decode(names: &Arc<[String]>, row: &SqliteRow) -> Item {
    assemble(names, |index| {
        let value = row.try_get_raw(index).map_err(|error| format!("is missing in the result: {error}"))?;
        if value.is_null() {
            return Ok(Value::Null);
        }
        let class = value.type_info().name().to_owned();
        let decoded = match class.as_str() {
            "INTEGER" | "BOOLEAN" => <i64 as Decode<Sqlite>>::decode(value).map(Value::Long),
            "REAL" => <f64 as Decode<Sqlite>>::decode(value).map(Value::Double),
            "BLOB" => <Vec<u8> as Decode<Sqlite>>::decode(value).map(Value::Bytes),
            _ => <String as Decode<Sqlite>>::decode(value).map(Value::Text),
        };
        decoded.map_err(|error| format!("cannot be read: {error}"))
    })
}

fn arguments(values: &[Value]) -> Result<SqliteArguments, ItemError> {
    let mut arguments = SqliteArguments::default();
    for value in values {
        bind(&mut arguments, value.clone())?;
    }
    Ok(arguments)
}

/// A type that SQLite lacks is stored as its text, which sorts like the value.
pub(crate) fn bind(arguments: &mut SqliteArguments, value: Value) -> Result<(), ItemError> {
    let added = match value {
        Value::Null => arguments.add(None::<i64>),
        Value::Bool(value) => arguments.add(i64::from(value)),
        Value::Long(value) => arguments.add(value),
        Value::Double(value) => arguments.add(value),
        Value::Text(value) => arguments.add(value),
        Value::Bytes(value) => arguments.add(value),
        value => arguments.add(value.to_string()),
    };
    added.map_err(|error| fatal(format!("a value cannot be bound: {error}")))
}

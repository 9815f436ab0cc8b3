//! MySQL and MariaDB, which only ever hold items, never the store: their binary types, and how queries run.

mod kind;

use crate::item::failure::{fatal, item_error, reading};
use crate::item::feed::Sink;
use crate::item::query::SqlQuery;
use crate::item::row::{self, Item, assemble, places, unsupported};
use kind::MyKind;
use sqlx::mysql::{MySqlArguments, MySqlColumn, MySqlConnection, MySqlRow, MySqlStatement};
use sqlx::{Arguments, AssertSqlSafe, Column, Decode, Executor, MySql, Row as _, Statement, TypeInfo};
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError, Value};

pub(crate) type Plan = row::Plan<MySqlStatement>;

/// Decodes the columns of one result.
struct Decoder {
    names: Arc<[String]>,
    kinds: Vec<MyKind>,
}

/// The text is the author's own, or built from it and quoted names.
pub(crate) async fn prepare(connection: &mut MySqlConnection, sql: &str) -> Result<Plan, ItemError> {
    let text = AssertSqlSafe(sql.to_owned());
    let statement = connection.prepare(sqlx::SqlSafeStr::into_sql_str(text)).await.map_err(reading)?;
    kinds(statement.columns())?;
    Ok(Plan::new(statement))
}

pub(crate) async fn fetch(
    connection: &mut MySqlConnection,
    plan: &Plan,
    values: &[Value],
) -> Result<Vec<Item>, ItemError> {
    let arguments = arguments(values)?;
    let rows = plan.statement.query_with(arguments).fetch_all(connection).await.map_err(reading)?;
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let decoder = Decoder::of(plan, first)?;
    Ok(rows.iter().map(|row| decoder.decode(row)).collect())
}

/// Runs the author's statement, ignores its rows, and returns how many rows it changed.
pub(crate) async fn execute(connection: &mut MySqlConnection, query: &SqlQuery) -> Result<u64, ItemError> {
    let text = AssertSqlSafe(query.text().to_owned());
    let statement = connection.prepare(sqlx::SqlSafeStr::into_sql_str(text)).await.map_err(reading)?;
    query.check_places(places(statement.parameters()))?;
    let done = statement.query_with(arguments(query.values())?).execute(connection).await;
    done.map(|done| done.rows_affected()).map_err(|error| item_error(error, ErrorKind::WRITE))
}

/// Reads row by row after the first `skip`, and sends `size` rows at a time.
pub(crate) async fn stream(
    connection: &mut MySqlConnection,
    plan: &Plan,
    values: &[Value],
    skip: u64,
    size: usize,
    sink: &Sink,
) -> Result<(), ItemError> {
    // By default the server drops a client that takes no rows for a minute, as a slow step does.
    sqlx::raw_sql("set session net_write_timeout = 31536000")
        .execute(&mut *connection)
        .await
        .map_err(reading)?;
    let arguments = arguments(values)?;
    let rows = plan.statement.query_with(arguments).fetch(connection);
    let mut decoder: Option<Decoder> = None;
    sink.hand_on(rows, skip, size, |row| {
        let decoder = match &decoder {
            Some(decoder) => decoder,
            None => decoder.insert(Decoder::of(plan, row)?),
        };
        Ok(decoder.decode(row))
    })
    .await
}

/// The placeholder for a key value. A bare one would compare decimals as floats, and two long ones would be equal.
pub(crate) fn place_of(value: &Value) -> String {
    match value {
        Value::Decimal(value) => {
            let fraction = value.as_str().split_once('.').map_or(0, |(_, fraction)| fraction.len());
            format!("cast(? as decimal(65, {}))", fraction.min(30))
        }
        _ => "?".to_owned(),
    }
}

impl Decoder {
    /// The types are certain only with the first row: preparing does not tell those that come from parameters.
    fn of(plan: &Plan, row: &MySqlRow) -> Result<Self, ItemError> {
        Ok(Self { names: Arc::clone(&plan.names), kinds: kinds(row.columns())? })
    }

    fn decode(&self, row: &MySqlRow) -> Item {
        assemble(&self.names, |index| {
            let value =
                row.try_get_raw(index).map_err(|error| format!("is missing in the result: {error}"))?;
            match <&[u8] as Decode<MySql>>::decode(value) {
                Ok(bytes) => self.kinds[index].decode(bytes),
                // The driver's only error here is a missing value.
                Err(_) => Ok(Value::Null),
            }
        })
    }
}

fn kinds(columns: &[MySqlColumn]) -> Result<Vec<MyKind>, ItemError> {
    let kind = |column: &MySqlColumn| {
        let info = column.type_info();
        MyKind::of(info).ok_or_else(|| unsupported(column.name(), info.name()))
    };
    columns.iter().map(kind).collect()
}

fn arguments(values: &[Value]) -> Result<MySqlArguments, ItemError> {
    let mut arguments = MySqlArguments::default();
    for value in values {
        let added = match value {
            Value::Null => arguments.add(None::<i64>),
            Value::Bool(value) => arguments.add(i64::from(*value)),
            Value::Long(value) => arguments.add(*value),
            Value::Double(value) => arguments.add(*value),
            Value::Text(value) => arguments.add(value.as_str()),
            Value::Bytes(value) => arguments.add(value.as_slice()),
            // In the session's zone, which the driver sets to UTC.
            Value::Instant(value) => arguments.add(value.to_string().trim_end_matches('Z')),
            value => arguments.add(value.to_string()),
        };
        added.map_err(|error| fatal(format!("a value cannot be bound: {error}")))?;
    }
    Ok(arguments)
}

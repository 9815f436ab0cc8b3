//! MySQL and MariaDB, which never hold the store: their types in binary form, and how queries run on them.

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

/// How each column of one result becomes a value.
struct Decoder {
    names: Arc<[String]>,
    kinds: Vec<MyKind>,
}

/// Lets the server understand the query. The text is the author's own, or made of it and of names that are
/// quoted.
pub(crate) async fn prepare(connection: &mut MySqlConnection, sql: &str) -> Result<Plan, ItemError> {
    let text = AssertSqlSafe(sql.to_owned());
    let statement = connection.prepare(sqlx::SqlSafeStr::into_sql_str(text)).await.map_err(reading)?;
    kinds(statement.columns())?;
    Ok(Plan::new(statement))
}

/// Runs the query and reads all of its rows.
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

/// Runs a statement of the author's whose rows, if it has any, nobody wants, and says how many it changed.
pub(crate) async fn execute(connection: &mut MySqlConnection, query: &SqlQuery) -> Result<u64, ItemError> {
    let text = AssertSqlSafe(query.text().to_owned());
    let statement = connection.prepare(sqlx::SqlSafeStr::into_sql_str(text)).await.map_err(reading)?;
    query.check_places(places(statement.parameters()))?;
    let done = statement.query_with(arguments(query.values())?).execute(connection).await;
    done.map(|done| done.rows_affected()).map_err(|error| item_error(error, ErrorKind::WRITE))
}

/// Reads the query row by row, leaving out the first `skip`, and hands on `size` rows at a time.
pub(crate) async fn stream(
    connection: &mut MySqlConnection,
    plan: &Plan,
    values: &[Value],
    skip: u64,
    size: usize,
    sink: &Sink,
) -> Result<(), ItemError> {
    // The server would cut off a client that does not take its rows for a minute, as a slow step does.
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

/// What a key of a page is compared with. A bare place would let the server compare decimals as
/// floating-point numbers, and two long ones would be the same.
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
    /// The types are known for sure only with the first row: those of the prepared statement lack what comes
    /// from its parameters.
    fn of(plan: &Plan, row: &MySqlRow) -> Result<Self, ItemError> {
        Ok(Self { names: Arc::clone(&plan.names), kinds: kinds(row.columns())? })
    }

    fn decode(&self, row: &MySqlRow) -> Item {
        assemble(&self.names, |index| {
            let value =
                row.try_get_raw(index).map_err(|error| format!("is missing in the result: {error}"))?;
            match <&[u8] as Decode<MySql>>::decode(value) {
                Ok(bytes) => self.kinds[index].decode(bytes),
                // The driver has no other error here than that there is no value.
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
            // In the zone of the session, which the driver sets to UTC.
            Value::Instant(value) => arguments.add(value.to_string().trim_end_matches('Z')),
            value => arguments.add(value.to_string()),
        };
        added.map_err(|error| fatal(format!("a value cannot be bound: {error}")))?;
    }
    Ok(arguments)
}

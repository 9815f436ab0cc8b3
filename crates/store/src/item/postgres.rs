//! PostgreSQL: its binary types, and how queries run: prepared once, with values in the types that the server asks for.

mod encode;
mod kind;
mod numeric;
mod text;

pub(crate) use encode::{Encoded, encode};
pub(crate) use kind::PgKind;
pub(crate) use numeric::normalised;

use crate::item::failure::{fatal, item_error, reading};
use crate::item::feed::Sink;
use crate::item::query::{Rows, SqlQuery};
use crate::item::row::{Item, assemble, unsupported};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgArguments, PgConnection, PgRow, PgStatement, PgTypeInfo};
use sqlx::{
    Arguments, AssertSqlSafe, Column, Either, Encode, Executor, Postgres, Row as _, Statement, Type, TypeInfo,
};
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError, Value};

pub(crate) struct Plan {
    statement: PgStatement,
    parameters: Vec<Parameter>,
    decoder: Decoder,
}

/// A placeholder: its type, with the name for messages, and its encoding.
#[derive(Clone)]
struct Parameter {
    oid: Oid,
    kind: Option<PgKind>,
    name: String,
}

/// Decodes the columns of a result; resolved once per query.
#[derive(Clone)]
struct Decoder {
    names: Arc<[String]>,
    kinds: Vec<PgKind>,
}

impl Plan {
    pub(crate) fn names(&self) -> &[String] {
        &self.decoder.names
    }

    pub(crate) fn places(&self) -> usize {
        self.parameters.len()
    }

    /// Table and number of the column that a column of the result is, for the catalogue; none if it is computed.
    pub(crate) fn origin(&self, column: usize) -> Option<String> {
        let column = self.statement.columns().get(column)?;
        Some(format!("({}, {})", column.relation_id()?.0, column.relation_attribute_no()?))
    }
}

/// The text is the author's own, or built from it and quoted names.
pub(crate) async fn prepare(connection: &mut PgConnection, sql: &str) -> Result<Plan, ItemError> {
    let (statement, parameters) = understood(connection, sql).await?;
    let mut kinds = Vec::with_capacity(statement.columns().len());
    for column in statement.columns() {
        let info = column.type_info();
        kinds.push(PgKind::of(info).ok_or_else(|| unsupported(column.name(), info.name()))?);
    }
    let names = statement.columns().iter().map(|column| column.name().to_owned()).collect();
    Ok(Plan { statement, parameters, decoder: Decoder { names, kinds } })
}

/// Runs the author's statement, ignores its rows, and returns how many rows it changed.
pub(crate) async fn execute(connection: &mut PgConnection, query: &SqlQuery) -> Result<u64, ItemError> {
    let (statement, parameters) = understood(connection, query.text()).await?;
    query.check_places(parameters.len())?;
    let has_rows = !statement.columns().is_empty();
    // It may be the value of an item, which can be skipped.
    let arguments = arguments(&parameters, query.values(), &ErrorKind::PARSE)?;
    let done = statement.query_with(arguments).execute(connection).await;
    let done = done.map_err(|error| item_error(error, ErrorKind::WRITE))?;
    // The server also counts rows that a query returns; those were not changed.
    Ok(if has_rows && !query.is_returning() { 0 } else { done.rows_affected() })
}

async fn understood(
    connection: &mut PgConnection,
    sql: &str,
) -> Result<(PgStatement, Vec<Parameter>), ItemError> {
    let text = AssertSqlSafe(sql.to_owned());
    let statement = connection.prepare(sqlx::SqlSafeStr::into_sql_str(text)).await.map_err(reading)?;
    let types = match statement.parameters() {
        Some(Either::Left(types)) => types,
        _ => &[],
    };
    let parameter = |info: &PgTypeInfo| {
        let oid = info.oid().ok_or_else(|| fatal("the type of a parameter is not known"))?;
        Ok(Parameter { oid, kind: PgKind::of(info), name: info.name().to_owned() })
    };
    let parameters = types.iter().map(parameter).collect::<Result<Vec<_>, ItemError>>()?;
    Ok((statement, parameters))
}

pub(crate) async fn fetch(
    connection: &mut PgConnection,
    plan: &Plan,
    values: &[Value],
    rows: Rows,
) -> Result<Vec<Item>, ItemError> {
    let arguments = arguments(&plan.parameters, values, &ErrorKind::FATAL)?;
    let query = plan.statement.query_with(arguments);
    let rows = match rows {
        Rows::All => query.fetch_all(connection).await,
        Rows::First => query.fetch_optional(connection).await.map(Vec::from_iter),
    };
    let rows = rows.map_err(reading)?;
    Ok(rows.iter().map(|row| plan.decoder.decode(row)).collect())
}

/// Drops the session's prepared statements, which behind a pooler may belong to another client.
pub(crate) async fn deallocate(connection: &mut PgConnection) -> Result<(), ItemError> {
    sqlx::raw_sql("deallocate all").execute(connection).await.map(drop).map_err(reading)
}

/// Reads through a server-side cursor, `size` rows at a time, after the first `skip`. A transaction must be open.
pub(crate) async fn stream(
    connection: &mut PgConnection,
    plan: &Plan,
    text: &str,
    values: &[Value],
    skip: u64,
    size: usize,
    sink: &Sink,
) -> Result<(), ItemError> {
    let declare = format!("declare tidemill_cursor no scroll cursor without hold for\n{text}");
    let arguments = arguments(&plan.parameters, values, &ErrorKind::FATAL)?;
    sqlx::query_with(AssertSqlSafe(declare), arguments).execute(&mut *connection).await.map_err(reading)?;
    if skip > 0 {
        // The server skips. The number is ours; `move` takes no bound value.
        let moved = format!("move forward {skip} in tidemill_cursor");
        sqlx::raw_sql(AssertSqlSafe(moved)).execute(&mut *connection).await.map_err(reading)?;
    }
    let fetch: Arc<str> = format!("fetch forward {size} from tidemill_cursor").into();
    loop {
        let query = sqlx::query(AssertSqlSafe(Arc::clone(&fetch)));
        let rows = query.fetch_all(&mut *connection).await.map_err(reading)?;
        let is_last = rows.len() < size;
        let items = rows.iter().map(|row| plan.decoder.decode(row)).collect();
        if !sink.send(items).await || is_last {
            return Ok(());
        }
    }
}

impl Decoder {
    #[inline]
    fn decode(&self, row: &PgRow) -> Item {
        assemble(&self.names, |index| {
            let value =
                row.try_get_raw(index).map_err(|error| format!("is missing in the result: {error}"))?;
            match value.as_bytes() {
                Ok(bytes) => self.kinds[index].decode(bytes),
                // The driver's only error here is a missing value.
                Err(_) => Ok(Value::Null),
            }
        })
    }
}

/// A value in the binary form of its type.
pub(crate) struct Bound {
    pub(crate) oid: Oid,
    pub(crate) bytes: Option<Vec<u8>>,
}

impl Type<Postgres> for Bound {
    /// Never used: each value gives its own.
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(0))
    }
}

impl Encode<'_, Postgres> for Bound {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        match &self.bytes {
            Some(bytes) => {
                buffer.extend_from_slice(bytes);
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        }
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        Some(PgTypeInfo::with_oid(self.oid))
    }
}

/// `unfit` is the kind of the error if a value does not fit its place.
fn arguments(
    parameters: &[Parameter],
    values: &[Value],
    unfit: &ErrorKind,
) -> Result<PgArguments, ItemError> {
    let mut arguments = PgArguments::default();
    for (number, (parameter, value)) in (1..).zip(parameters.iter().zip(values)) {
        let Some(kind) = parameter.kind else {
            return Err(fatal(format!(
                "place ${number} is of type {}, for which there is no value; write ${number}::text::{}",
                parameter.name, parameter.name
            )));
        };
        let mut bytes = Vec::new();
        let encoded = encode(kind, value, &mut bytes)
            .map_err(|why| ItemError::new(unfit.clone(), format!("place ${number} {why}")))?;
        let bound = Bound { oid: parameter.oid, bytes: (encoded == Encoded::Bytes).then_some(bytes) };
        arguments.add(bound).map_err(|error| fatal(format!("place ${number}: {error}")))?;
    }
    Ok(arguments)
}

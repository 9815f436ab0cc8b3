//! Buffers rows for a PostgreSQL table.
//!
//! The rows are encoded into one buffer in the form of a binary `copy`: the number of fields, then each field as its
//! length and its bytes. Other statements take the same fields column by column, as arrays. They can also be a part of
//! another statement, which writes the rows together with its own.

use super::catalogue::Column;
use super::{Mode, Target, on_conflict, refused};
use crate::error::StoreError;
use crate::item::failure::{fatal, item_error};
use crate::item::identifier::{Quote, quoted};
use crate::item::postgres::{Bound, Encoded, PgKind, encode, normalised};
use crate::postgres::FIRST_OF_ROWS;
use crate::tx::Tx;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArguments, PgConnection};
use sqlx::{Arguments, AssertSqlSafe};
use std::collections::HashMap;
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError, Value};

/// The header of a binary `copy`: a signature, no flags, no extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// The length of a null field.
const NULL: i32 = -1;

/// Above this number of rows, `copy` is faster than an `insert` that saves its round trips.
const STAGED_COPY_ROWS_MAX: usize = 2000;

/// Above this size, the arrays of an `insert` need too much memory beside the rows.
const STAGED_BYTES_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct PgBatch {
    shape: Arc<Shape>,
    rows: Rows,
}

/// The table, and the statements that write into it.
#[derive(Debug)]
struct Shape {
    columns: Vec<Field>,
    statement: Statement,
    /// As a part of another statement. None if it could do something else than `copy`.
    staged: Option<Arc<str>>,
    /// Of an upsert.
    key: Option<Vec<usize>>,
}

#[derive(Debug)]
struct Rows {
    /// The header, then the rows.
    buffer: Vec<u8>,
    starts: Vec<usize>,
    latest: Latest,
}

/// Rows that another statement writes together with its own.
#[derive(Debug)]
pub struct StagedRows {
    shape: Arc<Shape>,
    rows: Rows,
}

#[derive(Debug)]
struct Field {
    name: String,
    kind: PgKind,
    /// With its schema, as SQL text.
    type_text: String,
    oid: Oid,
    array: Oid,
}

#[derive(Debug)]
enum Statement {
    Copy(String),
    OfArrays(Arc<str>),
}

/// Of an upsert: which row is the last one of its key, because one statement may not change a row twice.
#[derive(Debug, Default)]
struct Latest {
    rows: HashMap<Vec<u8>, usize>,
    replaced: Vec<usize>,
}

impl PgBatch {
    pub(super) fn new(
        table: &Target,
        columns: &[Column],
        mode: &Mode,
        key: Option<Vec<usize>>,
    ) -> Result<Self, ItemError> {
        let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
        let names: Vec<String> =
            columns.iter().map(|column| quoted(&column.name, Quote::Double)).collect::<Result<_, _>>()?;
        let list = names.join(", ");
        let of_arrays = |first: usize, options: &str| -> Arc<str> {
            // With their types: the driver caches statements by text, so a changed column type needs another text.
            let places: Vec<String> = (first..)
                .zip(&fields)
                .map(|(number, field)| format!("${number}::{}[]", field.type_text))
                .collect();
            let (table, places) = (&table.quoted, places.join(", "));
            if *mode == Mode::Delete {
                let same: Vec<String> =
                    names.iter().map(|name| format!("old.{name} = gone.{name}")).collect();
                let same = same.join(" and ");
                Arc::from(format!(
                    "delete from {table} as old\nusing unnest({places}) as gone ({list})\nwhere {same}"
                ))
            } else {
                let conflict = key.as_deref().map(|key| on_conflict(&names, key)).unwrap_or_default();
                Arc::from(format!(
                    "insert into {table} ({list}){options}\nselect *\nfrom unnest({places}){conflict}"
                ))
            }
        };
        let (statement, staged) = if *mode == Mode::Copy {
            let copy = format!("copy {} ({list}) from stdin (format binary)", table.quoted);
            // Like `copy`, it sets columns that the server numbers. Unlike `copy`, it would follow rules.
            let has_rules = columns.iter().any(|column| column.has_rules);
            let staged = (!has_rules).then(|| of_arrays(FIRST_OF_ROWS, " overriding system value"));
            (Statement::Copy(copy), staged)
        } else {
            (Statement::OfArrays(of_arrays(1, "")), Some(of_arrays(FIRST_OF_ROWS, "")))
        };
        Ok(Self { shape: Arc::new(Shape { columns: fields, statement, staged, key }), rows: Rows::new() })
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn clear(&mut self) {
        self.rows.buffer.truncate(HEADER.len());
        self.rows.starts.clear();
        self.rows.latest.rows.clear();
        self.rows.latest.replaced.clear();
    }

    /// Appends a row; leaves the buffer unchanged if a value is rejected.
    #[inline]
    pub(super) fn push<'a>(&mut self, values: impl Iterator<Item = &'a Value>) -> Result<(), ItemError> {
        let (shape, rows) = (&*self.shape, &mut self.rows);
        let start = rows.buffer.len();
        let fields = i16::try_from(shape.columns.len()).unwrap_or(i16::MAX);
        rows.buffer.extend_from_slice(&fields.to_be_bytes());
        let mut key = shape.key.as_ref().map(|key| vec![Some(Vec::new()); key.len()]);
        for (index, (field, value)) in shape.columns.iter().zip(values).enumerate() {
            if let Err(why) = push_field(field, value, &mut rows.buffer) {
                rows.buffer.truncate(start);
                return Err(refused(&field.name, &why));
            }
            if let (Some(parts), Some(key)) = (&mut key, &shape.key)
                && let Some(place) = key.iter().position(|column| *column == index)
            {
                parts[place] = key_part(field.kind, value);
            }
        }
        if let Some(key) = key {
            rows.latest.note(key, rows.starts.len());
        }
        rows.starts.push(start);
        Ok(())
    }

    pub(super) async fn flush(&mut self, connection: &mut PgConnection) -> Result<(), ItemError> {
        let written = self.rows.write(&self.shape, connection).await;
        written.map_err(|error| item_error(error, ErrorKind::WRITE))
    }

    /// Takes the rows. None if they are better written by a statement of their own.
    pub(super) fn stage(&mut self) -> Option<StagedRows> {
        let most = match self.shape.statement {
            Statement::Copy(_) => STAGED_COPY_ROWS_MAX,
            Statement::OfArrays(_) => usize::MAX,
        };
        let is_small = (1..=most).contains(&self.len()) && self.rows.buffer.len() <= STAGED_BYTES_MAX;
        if self.shape.staged.is_none() || !is_small {
            return None;
        }
        let rows = std::mem::replace(&mut self.rows, Rows::new());
        Some(StagedRows { shape: self.shape.clone(), rows })
    }
}

impl StagedRows {
    /// Its values follow those of the statement that it becomes a part of.
    pub(crate) fn text(&self) -> &Arc<str> {
        self.shape.staged.as_ref().expect("rows are staged only if there is one")
    }

    pub(crate) fn bind_after(&self, arguments: &mut PgArguments) -> Result<(), sqlx::Error> {
        debug_assert_eq!(Arguments::len(arguments) + 1, FIRST_OF_ROWS);
        self.rows.bind(&self.shape, arguments)
    }

    /// Writes them by a statement of their own, before others of the transaction.
    pub(crate) async fn write(mut self, tx: &mut Tx) -> Result<(), StoreError> {
        match tx.postgres() {
            Some(connection) => Ok(self.rows.write(&self.shape, connection).await?),
            None => Ok(()),
        }
    }
}

impl Rows {
    fn new() -> Self {
        Self { buffer: HEADER.to_vec(), starts: Vec::new(), latest: Latest::default() }
    }

    fn len(&self) -> usize {
        self.starts.len() - self.latest.replaced.len()
    }

    async fn write(&mut self, shape: &Shape, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        if self.starts.is_empty() {
            return Ok(());
        }
        match &shape.statement {
            Statement::Copy(text) => copy(connection, text, &mut self.buffer).await,
            Statement::OfArrays(text) => {
                let mut arguments = PgArguments::default();
                self.bind(shape, &mut arguments)?;
                let query = sqlx::query_with(AssertSqlSafe(Arc::clone(text)), arguments);
                query.execute(connection).await.map(drop)
            }
        }
    }

    /// Binds the rows that count, column by column.
    fn bind(&self, shape: &Shape, arguments: &mut PgArguments) -> Result<(), sqlx::Error> {
        let mut is_counted = vec![true; self.starts.len()];
        for row in &self.latest.replaced {
            is_counted[*row] = false;
        }
        let rows = i32::try_from(self.len()).map_err(|error| sqlx::Error::Encode(error.into()))?;
        let mut arrays: Vec<Vec<u8>> = shape.columns.iter().map(|field| array_head(field, rows)).collect();
        for (start, _) in self.starts.iter().zip(&is_counted).filter(|(_, is_counted)| **is_counted) {
            let mut rest = &self.buffer[start + 2..];
            for array in &mut arrays {
                let (field, after) = split_field(rest);
                array.extend_from_slice(field);
                rest = after;
            }
        }
        for (field, bytes) in shape.columns.iter().zip(arrays) {
            let array = Bound { oid: field.array, bytes: Some(bytes) };
            arguments.add(array).map_err(sqlx::Error::Encode)?;
        }
        Ok(())
    }
}

impl Latest {
    /// A key with a null in it equals no other.
    fn note(&mut self, key: Vec<Option<Vec<u8>>>, row: usize) {
        let mut whole = Vec::new();
        for part in key {
            let Some(part) = part else { return };
            whole.extend_from_slice(&part.len().to_be_bytes());
            whole.extend_from_slice(&part);
        }
        if let Some(earlier) = self.rows.insert(whole, row) {
            self.replaced.push(earlier);
        }
    }
}

fn field(column: &Column) -> Result<Field, ItemError> {
    let unsupported = || {
        fatal(format!(
            "column {:?} is of type {}, which cannot be written as it is; write into another column, or with a \
             statement of your own",
            column.name, column.type_name
        ))
    };
    let base = column.base.as_ref().ok_or_else(unsupported)?;
    let kind = if base.is_enum { Some(PgKind::Text) } else { PgKind::named(&base.name) };
    let kind = kind.ok_or_else(unsupported)?;
    let type_text =
        format!("{}.{}", quoted(&base.schema, Quote::Double)?, quoted(&base.name, Quote::Double)?);
    Ok(Field { name: column.name.clone(), kind, type_text, oid: base.oid, array: base.array })
}

#[inline]
fn push_field(field: &Field, value: &Value, buffer: &mut Vec<u8>) -> Result<(), String> {
    let at = buffer.len();
    buffer.extend_from_slice(&NULL.to_be_bytes());
    if encode(field.kind, value, buffer)? == Encoded::Bytes {
        let length = i32::try_from(buffer.len() - at - 4).map_err(|_| "has more than 2 GB".to_owned())?;
        buffer[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}

/// A field with its length, and the rest.
fn split_field(bytes: &[u8]) -> (&[u8], &[u8]) {
    let length = bytes.first_chunk().map_or(NULL, |length| i32::from_be_bytes(*length));
    bytes.split_at(4 + usize::try_from(length).unwrap_or(0))
}

/// Normalised, so that values which the server considers equal are equal; `None` for null.
fn key_part(kind: PgKind, value: &Value) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    match encode(kind, value, &mut bytes) {
        Ok(Encoded::Bytes) => {}
        _ => return None,
    }
    match kind.decode(&bytes) {
        Ok(Value::Decimal(value)) => Some(normalised(&value).into()),
        Ok(Value::Double(0.0)) => Some(b"0".to_vec()),
        Ok(Value::Text(value)) if kind == PgKind::Bpchar => Some(value.trim_end_matches(' ').into()),
        Ok(Value::Json(value)) => Some(value.to_string().into_bytes()),
        _ => Some(bytes),
    }
}

async fn copy(connection: &mut PgConnection, text: &str, buffer: &mut Vec<u8>) -> Result<(), sqlx::Error> {
    // A field count of -1 is the end.
    buffer.extend_from_slice(&(-1_i16).to_be_bytes());
    let mut copy = connection.copy_in_raw(text).await?;
    copy.send(&buffer[..]).await?;
    copy.finish().await.map(drop)
}

/// The header of a binary array: one dimension, nulls allowed, element type, length, lower bound one.
fn array_head(field: &Field, rows: i32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [1, 1, field.oid.0.cast_signed(), rows, 1] {
        bytes.extend_from_slice(&i32::to_be_bytes(number));
    }
    bytes
}

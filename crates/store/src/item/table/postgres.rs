//! Buffers rows for a PostgreSQL table.
//!
//! The rows are encoded into one buffer in the form of a binary `copy`: the number of fields, then each field as its
//! length and its bytes. Other statements take the same fields column by column, as arrays.

use super::catalogue::Column;
use super::{Mode, Target, on_conflict, refused};
use crate::item::failure::{fatal, item_error};
use crate::item::identifier::{Quote, quoted};
use crate::item::postgres::{Bound, Encoded, PgKind, encode, normalised};
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

#[derive(Debug)]
pub(super) struct PgBatch {
    columns: Vec<Field>,
    statement: Statement,
    /// The header, then the rows.
    buffer: Vec<u8>,
    starts: Vec<usize>,
    latest: Option<Latest>,
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

/// Which row is the last one of its key: one statement may not change a row twice.
#[derive(Debug)]
struct Latest {
    key: Vec<usize>,
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
        let statement = if *mode == Mode::Copy {
            Statement::Copy(format!("copy {} ({list}) from stdin (format binary)", table.quoted))
        } else {
            // With their types: the driver caches statements by text, so a changed column type needs another text.
            let places: Vec<String> = (1..)
                .zip(&fields)
                .map(|(number, field)| format!("${number}::{}[]", field.type_text))
                .collect();
            let (table, places) = (&table.quoted, places.join(", "));
            let text = if *mode == Mode::Delete {
                let same: Vec<String> =
                    names.iter().map(|name| format!("old.{name} = gone.{name}")).collect();
                let same = same.join(" and ");
                format!("delete from {table} as old\nusing unnest({places}) as gone ({list})\nwhere {same}")
            } else {
                let conflict = key.as_deref().map(|key| on_conflict(&names, key)).unwrap_or_default();
                format!("insert into {table} ({list})\nselect *\nfrom unnest({places}){conflict}")
            };
            Statement::OfArrays(text.into())
        };
        let latest = key.map(|key| Latest { key, rows: HashMap::new(), replaced: Vec::new() });
        Ok(Self { columns: fields, statement, buffer: HEADER.to_vec(), starts: Vec::new(), latest })
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len() - self.latest.as_ref().map_or(0, |latest| latest.replaced.len())
    }

    pub(super) fn clear(&mut self) {
        self.buffer.truncate(HEADER.len());
        self.starts.clear();
        if let Some(latest) = &mut self.latest {
            latest.rows.clear();
            latest.replaced.clear();
        }
    }

    /// Appends a row; leaves the buffer unchanged if a value is rejected.
    #[inline]
    pub(super) fn push<'a>(&mut self, values: impl Iterator<Item = &'a Value>) -> Result<(), ItemError> {
        let start = self.buffer.len();
        let fields = i16::try_from(self.columns.len()).unwrap_or(i16::MAX);
        self.buffer.extend_from_slice(&fields.to_be_bytes());
        let mut key = self.latest.as_ref().map(|latest| vec![Some(Vec::new()); latest.key.len()]);
        for (index, (field, value)) in self.columns.iter().zip(values).enumerate() {
            if let Err(why) = push_field(field, value, &mut self.buffer) {
                self.buffer.truncate(start);
                return Err(refused(&field.name, &why));
            }
            if let (Some(key), Some(latest)) = (&mut key, &self.latest)
                && let Some(place) = latest.key.iter().position(|column| *column == index)
            {
                key[place] = key_part(field.kind, value);
            }
        }
        if let (Some(key), Some(latest)) = (key, &mut self.latest) {
            latest.note(key, self.starts.len());
        }
        self.starts.push(start);
        Ok(())
    }

    pub(super) async fn flush(&mut self, connection: &mut PgConnection) -> Result<(), ItemError> {
        if self.starts.is_empty() {
            return Ok(());
        }
        let written = match &self.statement {
            Statement::Copy(text) => copy(connection, text, &mut self.buffer).await,
            Statement::OfArrays(text) => {
                let arguments = self.arrays()?;
                let query = sqlx::query_with(AssertSqlSafe(Arc::clone(text)), arguments);
                query.execute(connection).await.map(drop)
            }
        };
        written.map_err(|error| item_error(error, ErrorKind::WRITE))
    }

    /// The rows that count, column by column.
    fn arrays(&self) -> Result<PgArguments, ItemError> {
        let replaced = self.latest.as_ref().map_or(&[][..], |latest| &latest.replaced);
        let mut is_counted = vec![true; self.starts.len()];
        for row in replaced {
            is_counted[*row] = false;
        }
        let rows = i32::try_from(self.len()).map_err(|_| fatal("more rows than one statement can take"))?;
        let mut arrays: Vec<Vec<u8>> = self.columns.iter().map(|field| array_head(field, rows)).collect();
        for (start, _) in self.starts.iter().zip(&is_counted).filter(|(_, is_counted)| **is_counted) {
            let mut rest = &self.buffer[start + 2..];
            for array in &mut arrays {
                let (field, after) = split_field(rest);
                array.extend_from_slice(field);
                rest = after;
            }
        }
        let mut arguments = PgArguments::default();
        for (field, bytes) in self.columns.iter().zip(arrays) {
            let array = Bound { oid: field.array, bytes: Some(bytes) };
            arguments.add(array).map_err(|error| fatal(format!("an array cannot be bound: {error}")))?;
        }
        Ok(arguments)
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

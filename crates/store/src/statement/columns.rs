//! A row that a statement has returned, read by the names of its columns into the type that callers use.

use crate::codec::{DbId, DbStamp, DbTime};
use crate::error::{StoreError, damaged};
use serde::de::DeserializeOwned;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Postgres, Row as _, Sqlite, Type};
use std::str::FromStr;
use tidemill_domain::time::Timestamp;

/// A type that is read from a row, value by value, each of them checked.
pub(crate) trait Stored: Sized {
    /// The table, and the columns that name the row: for the message about a value that breaks the rules. Between
    /// several columns stands what stands between their values.
    const PLACE: (&'static str, &'static str);

    fn from_columns(row: &Columns<'_>) -> Result<Self, sqlx::Error>;
}

pub(crate) struct Columns<'r> {
    row: EitherRow<'r>,
    place: (&'static str, &'static str),
}

#[derive(Clone, Copy)]
pub(crate) enum EitherRow<'r> {
    Postgres(&'r PgRow),
    Sqlite(&'r SqliteRow),
}

impl<'r> From<&'r PgRow> for EitherRow<'r> {
    fn from(row: &'r PgRow) -> Self {
        Self::Postgres(row)
    }
}

impl<'r> From<&'r SqliteRow> for EitherRow<'r> {
    fn from(row: &'r SqliteRow) -> Self {
        Self::Sqlite(row)
    }
}

pub(crate) fn read<'r, T: Stored>(row: impl Into<EitherRow<'r>>) -> Result<T, sqlx::Error> {
    T::from_columns(&Columns { row: row.into(), place: T::PLACE })
}

/// A value that both databases have.
pub(crate) trait Readable:
    for<'r> Decode<'r, Postgres> + Type<Postgres> + for<'r> Decode<'r, Sqlite> + Type<Sqlite>
{
}

impl<T> Readable for T where
    T: for<'r> Decode<'r, Postgres> + Type<Postgres> + for<'r> Decode<'r, Sqlite> + Type<Sqlite>
{
}

impl Columns<'_> {
    pub(crate) fn get<T: Readable>(&self, column: &str) -> Result<T, sqlx::Error> {
        match self.row {
            EitherRow::Postgres(row) => row.try_get(column),
            EitherRow::Sqlite(row) => row.try_get(column),
        }
    }

    /// The same row, for values that belong to another table.
    pub(crate) fn of(&self, place: (&'static str, &'static str)) -> Self {
        Self { row: self.row, place }
    }

    pub(crate) fn time(&self, column: &str) -> Result<Timestamp, sqlx::Error> {
        Ok(self.get::<DbTime>(column)?.0)
    }

    pub(crate) fn time_if(&self, column: &str) -> Result<Option<Timestamp>, sqlx::Error> {
        Ok(self.get::<Option<DbTime>>(column)?.map(Into::into))
    }

    /// An instant of Spring Batch's.
    pub(crate) fn stamp(&self, column: &str) -> Result<Timestamp, sqlx::Error> {
        Ok(self.get::<DbStamp>(column)?.0)
    }

    pub(crate) fn stamp_if(&self, column: &str) -> Result<Option<Timestamp>, sqlx::Error> {
        Ok(self.get::<Option<DbStamp>>(column)?.map(Into::into))
    }

    /// A text that has to be understood.
    pub(crate) fn parsed<T: FromStr>(&self, column: &'static str) -> Result<T, sqlx::Error> {
        self.checked(column, self.get::<String>(column)?.parse().ok())
    }

    pub(crate) fn parsed_if<T: FromStr>(&self, column: &'static str) -> Result<Option<T>, sqlx::Error> {
        let text: Option<String> = self.get(column)?;
        text.map(|text| self.checked(column, text.parse().ok())).transpose()
    }

    /// A number that has to be in bounds.
    pub(crate) fn number<T: TryFrom<i64>>(&self, column: &'static str) -> Result<T, sqlx::Error> {
        self.checked(column, T::try_from(self.get(column)?).ok())
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, column: &'static str) -> Result<T, sqlx::Error> {
        self.checked(column, serde_json::from_str(&self.get::<String>(column)?).ok())
    }

    /// A value that was made of this column; none breaks the rules.
    pub(crate) fn checked<T>(&self, column: &'static str, value: Option<T>) -> Result<T, sqlx::Error> {
        value.ok_or_else(|| self.damaged(column))
    }

    /// What is wrong with a value. [`StoreError`] takes it out of the driver's error again.
    pub(crate) fn damaged(&self, column: &'static str) -> sqlx::Error {
        let (table, key) = self.place;
        let mut row = String::new();
        for part in key.split_inclusive([' ', '/']) {
            let name = part.trim_end_matches([' ', '/']);
            row.push_str(&self.text(name));
            row.push_str(&part[name.len()..]);
        }
        sqlx::Error::Decode(Box::new(damaged(table, column, row)))
    }

    /// A part of a key, whatever type it has.
    fn text(&self, column: &str) -> String {
        let number = || self.get::<i64>(column).map(|number| number.to_string());
        let id = || self.get::<DbId>(column).map(|id| id.0.to_string());
        let small = || self.get::<i16>(column).map(|number| number.to_string());
        self.get::<String>(column)
            .or_else(|_| number())
            .or_else(|_| id())
            .or_else(|_| small())
            .unwrap_or_default()
    }
}

/// The error that was found in a value, if this is one.
pub(crate) fn found_damage(error: sqlx::Error) -> Result<StoreError, sqlx::Error> {
    match error {
        sqlx::Error::Decode(inner) => match inner.downcast::<StoreError>() {
            Ok(damage) => Ok(*damage),
            Err(inner) => Err(sqlx::Error::Decode(inner)),
        },
        other => Err(other),
    }
}

//! Reads a returned row by column names into the type that callers use.

use crate::codec::{DbId, DbStamp, DbText, DbTime};
use crate::error::{StoreError, damaged};
use crate::render::WorkerState;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Postgres, Row as _, Sqlite, Type, ValueRef as _};
use tidemill_domain::alert::{Notice, Severity, Subject};
use tidemill_domain::audit::Role;
use tidemill_domain::job::{BatchStatus, ExecutionId, InstanceId, StepExecutionId};
use tidemill_domain::lease::Epoch;
use tidemill_domain::outbox::failed_event::StateWord;
use tidemill_domain::outbox::{EventId, RelayId, Seq, Slot};
use tidemill_domain::pool::on_demand::Direction;
use tidemill_domain::pool::{PoolName, TicketId};
use tidemill_domain::process::ProcessId;
use tidemill_domain::render::attempt::AttemptOutcome;
use tidemill_domain::render::lifecycle::{Approval, File as JobFile, Slot as JobSlot};
use tidemill_domain::render::mapping::{Kind, Unused};
use tidemill_domain::render::{BroadcastDate, Phase, RenderId, Status};
use tidemill_domain::schedule::TickOutcome;
use tidemill_domain::time::Timestamp;

/// A type that is read from a row; every value is checked.
pub(crate) trait Stored: Sized {
    /// For messages: the table, and its key columns with the separators to print between their values.
    const PLACE: (&'static str, &'static str);

    fn from_columns(row: &Columns<'_>) -> Result<Self, sqlx::Error>;
}

/// Declares a struct that is [`Stored`], with its table and key columns. A field is read from the column of its name,
/// or of the name after `=`, by its type's [`FromColumn`]; after `=>` comes an expression on the row. With `impl` it reads
/// a type that exists.
macro_rules! stored {
    ($(
        impl $type:ident in $place:tt $(|$row:ident|)? {
            $($field:ident $(= $column:literal)? $(=> $value:expr)?),+ $(,)?
        }
    )+) => { $(
        impl $crate::statement::Stored for $type {
            const PLACE: (&'static str, &'static str) = $place;

            fn from_columns(columns: &$crate::statement::Columns<'_>) -> Result<Self, sqlx::Error> {
                $(let $row = columns;)?
                Ok(Self {
                    $($field: $crate::statement::columns::field!(columns, $field $(= $column)? $(=> $value)?),)*
                })
            }
        }
    )+ };
    ($(
        $(#[$meta:meta])*
        $vis:vis struct $name:ident in $place:tt $(|$row:ident|)? {
            $(
                $(#[$field_meta:meta])*
                $field_vis:vis $field:ident: $type:ty $(= $column:literal)? $(=> $value:expr)?,
            )*
        }
    )+) => { $(
        $(#[$meta])*
        $vis struct $name {
            $($(#[$field_meta])* $field_vis $field: $type,)*
        }

        $crate::statement::stored! {
            impl $name in $place $(|$row|)? { $($field $(= $column)? $(=> $value)?),* }
        }
    )+ };
}
pub(crate) use stored;

macro_rules! field {
    ($columns:ident, $field:ident) => {
        $columns.get(stringify!($field))?
    };
    ($columns:ident, $field:ident = $column:literal) => {
        $columns.get($column)?
    };
    ($columns:ident, $field:ident => $value:expr) => {
        $value
    };
}
pub(crate) use field;

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

/// Reads and checks one column.
pub(crate) trait FromColumn: Sized {
    fn from_column(row: &Columns<'_>, column: &'static str) -> Result<Self, sqlx::Error>;
}

impl<T: FromColumn> FromColumn for Option<T> {
    fn from_column(row: &Columns<'_>, column: &'static str) -> Result<Self, sqlx::Error> {
        Ok(if row.is_null(column)? { None } else { Some(row.get(column)?) })
    }
}

/// Implements [`FromColumn`] for several types by one expression on `row` and `column`.
macro_rules! read_as {
    ($($type:ty),+ $(,)? => |$row:ident, $column:ident| $how:expr) => { $(
        impl FromColumn for $type {
            fn from_column($row: &Columns<'_>, $column: &'static str) -> Result<Self, sqlx::Error> {
                $how
            }
        }
    )+ };
}

read_as!(String, i64, i32, i16, bool, f64, Vec<u8>, DbId, DbText, DbTime => |row, column| row.decoded(column));
read_as!(Timestamp => |row, column| Ok(row.get::<DbTime>(column)?.0));
read_as!(ProcessId, RelayId, TicketId => |row, column| Ok(row.get::<DbId>(column)?.into()));
read_as!(Epoch, EventId, ExecutionId, InstanceId, RenderId, Seq, StepExecutionId => |row, column| {
    Ok(Self::new(row.get(column)?))
});
// Numbers with bounds.
read_as!(u32, u64 => |row, column| row.checked(column, Self::try_from(row.get::<i64>(column)?).ok()));
read_as!(Slot => |row, column| row.checked(column, u8::try_from(row.get::<i16>(column)?).ok().map(Self::new)));
// Texts that have to parse.
read_as!(
    Approval, AttemptOutcome, BroadcastDate, Direction, JobFile, JobSlot, Kind, Notice, Phase, PoolName, Role, Severity, StateWord,
    Status, TickOutcome, Unused, Value, WorkerState => |row, column| {
        row.checked(column, row.get::<String>(column)?.parse().ok())
    }
);
read_as!(Subject => |row, column| row.checked(column, Self::new(&row.get::<String>(column)?).ok()));
// Spring Batch may have left it null. The column is called `status` in its table, whatever the statement calls it.
read_as!(BatchStatus => |row, column| {
    row.checked("status", row.get::<Option<String>>(column)?.and_then(|word| word.parse().ok()))
});

impl Columns<'_> {
    pub(crate) fn get<T: FromColumn>(&self, column: &'static str) -> Result<T, sqlx::Error> {
        T::from_column(self, column)
    }

    fn decoded<T>(&self, column: &str) -> Result<T, sqlx::Error>
    where
        T: for<'r> Decode<'r, Postgres> + Type<Postgres> + for<'r> Decode<'r, Sqlite> + Type<Sqlite>,
    {
        match self.row {
            EitherRow::Postgres(row) => row.try_get(column),
            EitherRow::Sqlite(row) => row.try_get(column),
        }
    }

    fn is_null(&self, column: &str) -> Result<bool, sqlx::Error> {
        Ok(match self.row {
            EitherRow::Postgres(row) => row.try_get_raw(column)?.is_null(),
            EitherRow::Sqlite(row) => row.try_get_raw(column)?.is_null(),
        })
    }

    /// The same row, for values of another table.
    pub(crate) fn of(&self, place: (&'static str, &'static str)) -> Self {
        Self { row: self.row, place }
    }

    /// As Spring Batch stores it.
    pub(crate) fn stamp(&self, column: &str) -> Result<Timestamp, sqlx::Error> {
        Ok(self.decoded::<DbStamp>(column)?.0)
    }

    pub(crate) fn stamp_if(&self, column: &str) -> Result<Option<Timestamp>, sqlx::Error> {
        Ok(self.decoded::<Option<DbStamp>>(column)?.map(Into::into))
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, column: &'static str) -> Result<T, sqlx::Error> {
        self.checked(column, serde_json::from_str(&self.get::<String>(column)?).ok())
    }

    /// `None` means that the column's value is invalid.
    pub(crate) fn checked<T>(&self, column: &'static str, value: Option<T>) -> Result<T, sqlx::Error> {
        value.ok_or_else(|| self.damaged(column))
    }

    /// The error for an invalid value. [`StoreError`] takes it out of the driver's error again.
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

    /// A key column of any type, as text. SQLite stores instants as numbers, so recognise those by name.
    fn text(&self, column: &str) -> String {
        if column == "at" || column.ends_with("_at") {
            return self.decoded::<DbTime>(column).map(|time| time.0.to_string()).unwrap_or_default();
        }
        let number = || self.decoded::<i64>(column).map(|number| number.to_string());
        let id = || self.decoded::<DbId>(column).map(|id| id.0.to_string());
        let int = || self.decoded::<i32>(column).map(|number| number.to_string());
        let small = || self.decoded::<i16>(column).map(|number| number.to_string());
        self.decoded::<String>(column)
            .or_else(|_| number())
            .or_else(|_| id())
            .or_else(|_| int())
            .or_else(|_| small())
            .unwrap_or_default()
    }
}

/// The [`StoreError`] inside a driver's error, if there is one.
pub(crate) fn found_damage(error: sqlx::Error) -> Result<StoreError, sqlx::Error> {
    match error {
        sqlx::Error::Decode(inner) => match inner.downcast::<StoreError>() {
            Ok(damage) => Ok(*damage),
            Err(inner) => Err(sqlx::Error::Decode(inner)),
        },
        other => Err(other),
    }
}

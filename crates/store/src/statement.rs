//! Declares each SQL statement once, for both databases.
//!
//! ```text
//! statements! {
//!     /// Locks the pool until the end of the transaction.
//!     fn pool_lock(name: &str) -> Option<PoolRow> {
//!         "select name, settings, version from tidemill_pool where name = $1 {for update}"
//!     }
//!
//!     /// Binds other values than its parameters.
//!     fn pool_rename(names: &Names, now: Timestamp) -> u64 {
//!         bind(&names.old, &names.new, now)
//!         "update tidemill_pool set name = $2, changed_at = $3 where name = $1"
//!     }
//!
//!     /// A method of `Pools`, for other crates.
//!     pub fn Pools::names(limit: u32) -> Vec<String> {
//!         "select name from tidemill_pool order by name limit $1"
//!     }
//!
//!     /// Reads the clock first.
//!     pub fn Pools::changed(within: Duration) at now -> Total {
//!         bind(now.minus(within))
//!         "select count(*) from tidemill_pool where changed_at > $1"
//!     }
//!
//!     /// The databases need different texts.
//!     fn pool_estimate() -> One<i64> {
//!         postgres { "select reltuples::bigint from pg_class where relname = 'tidemill_pool'" }
//!         sqlite { "select count(*) from tidemill_pool" }
//!     }
//! }
//! ```
//!
//! Each declaration becomes a method of [`Tx`](crate::Tx), or of a noun. Its return type says how the statement runs: `()`, `u64` (rows
//! affected) and `bool` (whether any row was affected) execute it; `Option`, [`One`] and `Vec` fetch rows, by column name
//! into a struct, by position into a tuple; [`Exists`] says whether there is a row, [`Total`] returns a count. [`Stored`]
//! types check their values.
//! The databases spell a word in braces differently: see [`dialect`]. Many rows are one value: [`rows`] makes it, and
//! `{rows new $1: id bigint, name text}` is a table of them.
//!
//! One side of a declaration can also be Rust code on the connection, `|connection| { … }`, or with other statements,
//! `|tx: Tx| { … }`; or `nothing`, the default value without a query.

mod bind;
pub(crate) mod columns;
pub(crate) mod dialect;

pub(crate) use bind::{Bind, Rows, column, rows, serialised};
pub(crate) use columns::{Columns, Stored, stored};

pub(crate) use sqlx::postgres::PgArguments;
pub(crate) use sqlx::sqlite::SqliteArguments;

use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{ColumnIndex, Decode, FromRow, PgConnection, Row, SqlSafeStr, Sqlite, SqliteConnection, Type};
use std::pin::Pin;

pub(crate) enum Database<'c> {
    Postgres(&'c mut PgConnection),
    Sqlite(&'c mut SqliteConnection),
}

/// Rows returned, or rows affected.
pub(crate) struct Outcome<R> {
    rows: Vec<R>,
    affected: u64,
}

/// Boxed: otherwise each caller would compile the driver's future again.
pub(crate) type Running<'c, T> = Pin<Box<dyn Future<Output = Result<T, sqlx::Error>> + Send + 'c>>;

macro_rules! run_on {
    ($run:ident, $connection:ty, $arguments:ty, $row:ty) => {
        pub(crate) fn $run<'c>(
            connection: &'c mut $connection,
            sql: impl SqlSafeStr,
            arguments: $arguments,
            returns_rows: bool,
        ) -> Running<'c, Outcome<$row>> {
            let query = sqlx::query_with(sql, arguments);
            Box::pin(async move {
                Ok(if returns_rows {
                    Outcome { rows: query.fetch_all(connection).await?, affected: 0 }
                } else {
                    Outcome { rows: Vec::new(), affected: query.execute(connection).await?.rows_affected() }
                })
            })
        }
    };
}

run_on!(run_on_postgres, PgConnection, PgArguments, PgRow);
run_on!(run_on_sqlite, SqliteConnection, SqliteArguments, SqliteRow);

/// Declares a struct that is read from the columns with the names of its fields; a last field after `..` is a struct
/// read from other columns of the row. sqlx's derive macro does the same, but compiles all of sqlx a second time.
macro_rules! row {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty,)*
            $(.. $part_vis:vis $part:ident: $part_type:ty)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[$field_meta])* $field_vis $field: $type,)*
            $($part_vis $part: $part_type,)?
        }

        impl<'r, R: sqlx::Row> sqlx::FromRow<'r, R> for $name
        where
            &'static str: sqlx::ColumnIndex<R>,
            $($type: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,)*
            $($part_type: sqlx::FromRow<'r, R>,)?
        {
            fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
                Ok(Self {
                    $($field: row.try_get(stringify!($field))?,)*
                    $($part: sqlx::FromRow::from_row(row)?,)?
                })
            }
        }
    };
}
pub(crate) use row;

/// A type that a row is read into. The inferred `How` distinguishes structs and tuples, single columns, and [`Stored`].
pub(crate) trait Record<R, How>: Sized {
    fn read(row: &R) -> Result<Self, sqlx::Error>;
}

pub(crate) struct ByRow;
pub(crate) struct ByColumn;
pub(crate) struct Checked;

impl<R, T: Stored> Record<R, Checked> for T
where
    for<'r> columns::EitherRow<'r>: From<&'r R>,
{
    fn read(row: &R) -> Result<Self, sqlx::Error> {
        columns::read(row)
    }
}

impl<R: Row, T: for<'r> FromRow<'r, R>> Record<R, ByRow> for T {
    fn read(row: &R) -> Result<Self, sqlx::Error> {
        T::from_row(row)
    }
}

/// PostgreSQL can also read a tuple from a single column; SQLite cannot, so this requires both.
impl<R, T> Record<R, ByColumn> for T
where
    R: Row,
    usize: ColumnIndex<R>,
    T: for<'r> Decode<'r, R::Database> + Type<R::Database> + for<'r> Decode<'r, Sqlite>,
{
    fn read(row: &R) -> Result<Self, sqlx::Error> {
        row.try_get(0)
    }
}

/// The return value for a declared answer.
pub trait Answer {
    type Value;
    const ROWS: bool;
}

/// Makes the return value.
pub(crate) trait Make<R, How>: Answer {
    fn make(outcome: Outcome<R>) -> Result<Self::Value, sqlx::Error>;
}

pub struct One<T>(std::marker::PhantomData<T>);

impl<T> Answer for One<T> {
    type Value = T;
    const ROWS: bool = true;
}

impl<R, How, T: Record<R, How>> Make<R, How> for One<T> {
    fn make(outcome: Outcome<R>) -> Result<T, sqlx::Error> {
        T::read(outcome.rows.first().ok_or(sqlx::Error::RowNotFound)?)
    }
}

impl<T> Answer for Option<T> {
    type Value = Self;
    const ROWS: bool = true;
}

impl<R, How, T: Record<R, How>> Make<R, How> for Option<T> {
    fn make(outcome: Outcome<R>) -> Result<Self, sqlx::Error> {
        outcome.rows.first().map(T::read).transpose()
    }
}

impl<T> Answer for Vec<T> {
    type Value = Self;
    const ROWS: bool = true;
}

impl<R, How, T: Record<R, How>> Make<R, How> for Vec<T> {
    fn make(outcome: Outcome<R>) -> Result<Self, sqlx::Error> {
        outcome.rows.into_iter().map(|row| T::read(&row)).collect()
    }
}

/// Whether the statement returns a row.
pub struct Exists;

impl Answer for Exists {
    type Value = bool;
    const ROWS: bool = true;
}

impl<R> Make<R, ()> for Exists {
    fn make(outcome: Outcome<R>) -> Result<bool, sqlx::Error> {
        Ok(!outcome.rows.is_empty())
    }
}

/// The number of rows that the statement counts.
pub struct Total;

impl Answer for Total {
    type Value = u64;
    const ROWS: bool = true;
}

impl<R, How> Make<R, How> for Total
where
    i64: Record<R, How>,
{
    fn make(outcome: Outcome<R>) -> Result<u64, sqlx::Error> {
        <One<i64> as Make<R, How>>::make(outcome).map(i64::unsigned_abs)
    }
}

macro_rules! executed {
    ($($answer:ty: |$affected:ident| $value:expr;)+) => { $(
        impl Answer for $answer {
            type Value = Self;
            const ROWS: bool = false;
        }

        impl<R> Make<R, ()> for $answer {
            fn make(outcome: Outcome<R>) -> Result<Self, sqlx::Error> {
                let $affected = outcome.affected;
                Ok($value)
            }
        }
    )+ };
}

executed! {
    (): |_affected| ();
    u64: |affected| affected;
    bool: |affected| affected > 0;
}

/// See the module.
macro_rules! statements {
    ($(
        $(#[$meta:meta])*
        $(pub)? fn $name:ident $(:: $method:ident)? ($($parameter:ident: $type:ty),* $(,)?) $(at $now:ident)?
        -> $answer:ty {
            $($body:tt)*
        }
    )*) => { $(
        $crate::statement::method! {
            $(#[$meta])*
            [$name $($method)?] ($($parameter: $type),*) $(at $now)? -> $answer { $($body)* }
        }
    )* };
}
pub(crate) use statements;

macro_rules! method {
    (
        $(#[$meta:meta])*
        [$name:ident] ($($parameter:ident: $type:ty),*) -> $answer:ty { $($body:tt)* }
    ) => {
        impl $crate::tx::Tx {
            $(#[$meta])*
            pub(crate) async fn $name(
                &mut self,
                $($parameter: $type),*
            ) -> Result<<$answer as $crate::statement::Answer>::Value, sqlx::Error> {
                $crate::statement::statement!(self, $answer, [$($parameter),*], $($body)*)
            }
        }
    };
    (
        $(#[$meta:meta])*
        [$noun:ident $method:ident] ($($parameter:ident: $type:ty),*) $(at $now:ident)? -> $answer:ty { $($body:tt)* }
    ) => {
        impl $crate::tx::$noun<'_> {
            $(#[$meta])*
            pub async fn $method(
                &mut self,
                $($parameter: $type),*
            ) -> Result<<$answer as $crate::statement::Answer>::Value, $crate::error::StoreError> {
                $(let $now = self.now().await?;)?
                Ok($crate::statement::statement!(self, $answer, [$($parameter),*], $($body)*)?)
            }
        }
    };
}
pub(crate) use method;

/// Declares statements of PostgreSQL alone, on a connection. Their texts may contain checked and quoted names.
macro_rules! postgres_statements {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($parameter:ident: $type:ty),* $(,)?) -> $answer:ty {
            bind($($bind:expr),* $(,)?) $text:expr
        }
    )*) => { $(
        $(#[$meta])*
        pub(crate) async fn $name(
            connection: &mut sqlx::PgConnection,
            $($parameter: $type),*
        ) -> Result<<$answer as $crate::statement::Answer>::Value, sqlx::Error> {
            let arguments = $crate::statement::arguments!(PgArguments, $($bind),*);
            let text = sqlx::AssertSqlSafe($text);
            let returns_rows = <$answer as $crate::statement::Answer>::ROWS;
            let done = $crate::statement::run_on_postgres(connection, text, arguments, returns_rows).await?;
            <$answer as $crate::statement::Make<_, _>>::make(done)
        }
    )* };
}
pub(crate) use postgres_statements;

macro_rules! statement {
    ($tx:ident, $answer:ty, $binds:tt, bind($($bind:expr),* $(,)?) $($rest:tt)+) => {
        $crate::statement::statement!($tx, $answer, [$($bind),*], $($rest)+)
    };
    ($tx:ident, $answer:ty, $binds:tt,
        postgres $(|$p:ident $(: $p_tx:ident)?|)? { $($postgres:tt)+ }
        sqlite $(|$s:ident $(: $s_tx:ident)?|)? { $($sqlite:tt)+ }
    ) => {
        match $tx.database() {
            $crate::statement::Database::Postgres(connection) => $crate::statement::side!(
                (PgArguments, run_on_postgres, true), $tx, connection, $answer, $binds,
                [$($p $($p_tx)?)?], $($postgres)+
            ),
            $crate::statement::Database::Sqlite(connection) => $crate::statement::side!(
                (SqliteArguments, run_on_sqlite, false), $tx, connection, $answer, $binds,
                [$($s $($s_tx)?)?], $($sqlite)+
            ),
        }
    };
    ($tx:ident, $answer:ty, $binds:tt, $text:expr) => {
        $crate::statement::statement!($tx, $answer, $binds, postgres { $text } sqlite { $text })
    };
}
pub(crate) use statement;

macro_rules! side {
    ($on:tt, $tx:ident, $connection:ident, $answer:ty, $binds:tt, [$code:ident], $($body:tt)+) => {{
        let $code = $connection;
        let running: $crate::statement::Running<'_, <$answer as $crate::statement::Answer>::Value> =
            Box::pin(async move { $($body)+ });
        running.await
    }};
    ($on:tt, $tx:ident, $connection:ident, $answer:ty, $binds:tt, [$code:ident Tx], $($body:tt)+) => {{
        let _ = $connection;
        let $code = $tx;
        let running: $crate::statement::Running<'_, <$answer as $crate::statement::Answer>::Value> =
            Box::pin(async move { $($body)+ });
        running.await
    }};
    ($on:tt, $tx:ident, $connection:ident, $answer:ty, [$($bind:expr),*], [], nothing) => {{
        let _unused = ($connection, $(&$bind),*);
        Ok(Default::default())
    }};
    ($on:tt, $tx:ident, $connection:ident, $answer:ty, $binds:tt, [],
        bind($($bind:expr),* $(,)?) $text:expr
    ) => {
        $crate::statement::side!($on, $tx, $connection, $answer, [$($bind),*], [], $text)
    };
    (
        ($arguments:ident, $run:ident, $is_postgres:literal),
        $tx:ident, $connection:ident, $answer:ty, [$($bind:expr),*], [], $text:expr
    ) => {{
        let arguments = $crate::statement::arguments!($arguments, $($bind),*);
        let text = $crate::statement::dialect::in_dialect!($is_postgres, $text);
        let returns_rows = <$answer as $crate::statement::Answer>::ROWS;
        let done = $crate::statement::$run($connection, text, arguments, returns_rows).await?;
        <$answer as $crate::statement::Make<_, _>>::make(done)
    }};
}
pub(crate) use side;

macro_rules! arguments {
    ($arguments:ident,) => {
        $crate::statement::$arguments::default()
    };
    ($arguments:ident, $($bind:expr),+) => {{
        let mut arguments = $crate::statement::$arguments::default();
        $(sqlx::Arguments::add(&mut arguments, $crate::statement::Bind::bound($bind)).map_err(sqlx::Error::Encode)?;)+
        arguments
    }};
}
pub(crate) use arguments;

//! Items in databases: readers that hand out one row after the other and know where they are, and a writer
//! that writes into the transaction of the store.
//!
//! Readers: [`CursorReader`] (one statement, row by row), [`KeysetReader`] (page by page, behind the last
//! key), [`OffsetReader`] (page by page, by counting). They read a [`Database`]: that of the store, or
//! another PostgreSQL, SQLite or MySQL. Writer: [`TableWriter`]. Statements of the author's run by
//! [`Tx::run_statements`](crate::Tx::run_statements) and [`Database::run_statements`].
//!
//! What differs between the databases is in `postgres`, `sqlite` and `mysql`, under the same names.

mod bounds;
mod cursor;
mod database;
mod failure;
mod keyset;
mod offset;
mod query;
mod statement;
mod table;

mod calendar;
mod feed;
mod identifier;
mod link;
mod mysql;
mod pages;
pub(crate) mod position;
mod postgres;
mod row;
mod sqlite;

pub use cursor::CursorReader;
pub use database::Database;
pub use failure::{error_kind, kind_of_cause};
pub use keyset::KeysetReader;
pub use offset::OffsetReader;
pub use query::{SqlQuery, Values};
pub use table::{Mode, TableWriter};

pub(crate) use database::Reading;
pub(crate) use failure::statement_kind;

//! Items in databases: readers that return rows and know their position, and a writer that writes into the store's
//! transaction.
//!
//! Readers: [`CursorReader`] (one statement, row by row), [`KeysetReader`] (page by page, after the last key),
//! [`OffsetReader`] (page by page, by counting). They read a [`Database`]: the store's own, or another PostgreSQL,
//! SQLite or MySQL. Writer: [`TableWriter`]. [`Tx::run_statements`](crate::Tx::run_statements) and
//! [`Database::run_statements`] run the author's own statements.
//!
//! `postgres`, `sqlite` and `mysql` contain what differs between the databases, under the same names.

mod calendar;
mod cursor;
mod database;
mod failure;
mod feed;
mod identifier;
mod keyset;
mod link;
mod mysql;
mod offset;
mod pages;
pub(crate) mod position;
mod postgres;
mod query;
mod row;
mod sqlite;
mod statement;
mod table;

pub use cursor::CursorReader;
pub use database::Database;
pub use failure::kind_of_cause;
pub use keyset::KeysetReader;
pub use offset::OffsetReader;
pub use position::{value_from_json, value_to_json};
pub use query::{SqlQuery, Values};
pub use table::{Mode, StagedRows, TableWriter};

pub(crate) use failure::statement_kind;

//! SQLite: connections. There is one writer at a time, so no row is ever locked by name.

mod connect;

pub(crate) use connect::Sqlite;

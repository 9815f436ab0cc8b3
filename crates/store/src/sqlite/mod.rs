//! SQLite: connections. There is one writer at a time, so statements lock no rows.

mod connect;

pub(crate) use connect::Sqlite;

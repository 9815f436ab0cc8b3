//! PostgreSQL: connections, transactions and notifications.

pub(crate) mod answer;
mod begin;
mod connect;
mod nodelay;
mod notify;
mod transaction;

pub(crate) use connect::{OLDEST_MAJOR, Postgres};
pub(crate) use transaction::Transaction;

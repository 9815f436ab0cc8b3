//! PostgreSQL: connections, transactions, notifications, and the end of a chunk.

pub(crate) mod answer;
mod begin;
mod chunk;
mod connect;
mod nodelay;
mod notify;
mod transaction;

pub(crate) use chunk::{ChunkText, FIRST_OF_ROWS, save_chunk};
pub(crate) use connect::{OLDEST_MAJOR, Postgres};
pub(crate) use transaction::Transaction;

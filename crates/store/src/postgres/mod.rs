//! PostgreSQL: connecting, and one function per statement.

pub(crate) mod alert;
pub(crate) mod audit;
pub(crate) mod clock;
pub(crate) mod demo;
pub(crate) mod idempotency;
pub(crate) mod inbox;
pub(crate) mod job;
pub(crate) mod lease;
pub(crate) mod migration;
pub(crate) mod outbox;
pub(crate) mod pool;
pub(crate) mod process;
pub(crate) mod render;
pub(crate) mod schedule;
pub(crate) mod session;
pub(crate) mod step_back;
pub(crate) mod token;

mod begin;
mod connect;
mod nodelay;
mod notify;
mod transaction;

pub(crate) use connect::{OLDEST_MAJOR, Postgres};
pub(crate) use transaction::Transaction;

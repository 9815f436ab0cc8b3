//! SQLite: connecting, and one function per statement. The texts are those of `postgres/` wherever they can
//! be; there is one writer at a time, so no row is ever locked by name.

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

mod connect;

pub(crate) use connect::Sqlite;

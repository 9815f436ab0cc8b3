//! Every SQL statement of the product, one file per noun. See [`statement`](crate::statement) for how one is declared.

mod clock;
pub(crate) mod lease;
pub(crate) mod migration;
mod process;
mod step_back;

pub(crate) mod audit;
pub(crate) mod inbox;
pub(crate) mod job;
pub(crate) mod outbox;
pub(crate) mod render;

mod alert;
mod demo;
mod idempotency;
mod pool;
mod schedule;
mod token;

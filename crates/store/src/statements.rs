//! SQL statements, one file or folder per noun; a few small nouns have theirs in their own file. See [`statement`](crate::statement) for how one is declared.

pub(crate) mod lease;
pub(crate) mod migration;
mod process;
mod step_back;

pub(crate) mod audit;
pub(crate) mod job;
pub(crate) mod outbox;
pub(crate) mod render;

mod alert;
mod pool;
mod schedule;
mod token;

//! SQL statements that are too many for the file of their noun; [`statement`](crate::statement) declares them.

pub(crate) mod outbox;
mod partition;
mod pool;
